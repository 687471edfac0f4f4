"""Two HTTP listeners. Public: the log's tiles and the public part of hands. Operator: metrics and health.

The public one serves only what everybody may see, so it needs no authentication and may be cached: tiles never change.
A hand is derived again when it is asked for, which is rationed: it must not cost play its latency.
"""

import json
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rngsvc.calls import PublicHand
from rngsvc.errors import InvalidField, NotFound, Overloaded, ServiceError, TryAgain
from rngsvc.log import Log
from rngsvc.ports import Store
from rngsvc.protocol.errors import MalformedError
from rngsvc.protocol.tiles import WIDTH, Tile, encode_bundle
from rngsvc.protocol.tlog_proof import TlogProof
from rngsvc.rationed import Bodies, Ration
from rngsvc.service import Service
from rngsvc.wire import seq_number

_FOR_EVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_MOST_DIGITS: Final = 20
_FRESH: Final = {"Cache-Control": "no-cache"}
_CLOSED: Final = {"Cache-Control": "public, max-age=60"}
_KEPT_BYTES: Final = 32 << 20


def public_app(
    service: Service,
    log: Log,
    store: Store,
    origin: str,
    cosigned: Callable[[], str],
    pages: Sequence[Route],
    hands_asked: Callable[[str], None] = lambda _how: None,
) -> Starlette:
    """Return what strangers may read: `/checkpoint`, `/tile/...` (C2SP tlog-tiles), `/hands/{table}/{seq}`, `pages`.

    ``hands_asked`` is told how each question for a hand is answered: "derived", "kept" or "refused".
    """
    ration = Ration()
    closed_hands = Bodies(_KEPT_BYTES)

    async def checkpoint(_request: Request) -> Response:
        if log.head is None:
            return PlainTextResponse("the log is empty\n", 404)
        return Response(log.head.checkpoint, media_type="text/plain; charset=utf-8", headers=_FRESH)

    async def cosigned_checkpoint(_request: Request) -> Response:
        if not (note := cosigned()):
            return PlainTextResponse("no quorum of witnesses has cosigned this log yet\n", 404)
        return Response(note, media_type="text/plain; charset=utf-8", headers=_FRESH)

    async def tile(request: Request) -> Response:
        try:
            wanted = Tile.parse(request.url.path.removeprefix("/"))
        except MalformedError as error:
            return PlainTextResponse(f"{error}\n", 404)
        if wanted.level is None:
            first = wanted.index * WIDTH
            if first + wanted.width > log.size:
                return PlainTextResponse(f"the log has {log.size} entries\n", 404)
            body = encode_bundle(await store.entries(first, first + wanted.width))
        else:
            body = await log.tile(wanted.level, wanted.index, wanted.width)
        return Response(body, media_type="application/octet-stream", headers=_FOR_EVER)

    async def hand(request: Request) -> Response:
        table = request.path_params["table"]
        seq = request.path_params["seq"]
        if len(table) != 32 or table.strip("0123456789abcdef"):
            raise InvalidField("table", "32 lower-case hex digits")
        # Its digits are counted first: Python takes time, or refuses, to read very many.
        number = seq_number(int(seq) if seq.isascii() and seq.isdigit() and len(seq) <= _MOST_DIGITS else 0)
        if kept := closed_hands.get((table, number)):
            hands_asked("kept")
            return Response(kept, media_type="application/json", headers=_CLOSED)
        try:
            async with ration.turn():
                shown = await service.public_hand(bytes.fromhex(table), number)
                body = json.dumps(public_receipt(shown, origin, table, number), separators=(",", ":")).encode()
        except Overloaded:
            hands_asked("refused")
            raise
        hands_asked("derived")
        if shown.view.hand.closed:
            closed_hands.put((table, number), body)
        return Response(body, media_type="application/json", headers=_CLOSED if shown.view.hand.closed else _FRESH)

    app = Starlette(
        routes=[
            Route("/checkpoint", checkpoint),
            Route("/cosigned-checkpoint", cosigned_checkpoint),
            Route("/tile/{rest:path}", tile),
            Route("/hands/{table}/{seq}", hand),
            *pages,
        ],
        exception_handlers={ServiceError: _refuse},
    )
    # A redirect would repeat the Host header, which is whatever the client wrote.
    app.router.redirect_slashes = False
    return app


def operator_app(registry: CollectorRegistry, health: Callable[[], tuple[bool, dict[str, object]]]) -> Starlette:
    """Return what the operator's monitoring reads: `/metrics`, `/healthz` (alive), `/readyz` (able to sign).

    ``health`` says whether the service can sign, and with what figures.
    """

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(_request: Request) -> Response:
        able, figures = health()
        return JSONResponse({"status": "ready" if able else "not ready", **figures}, 200 if able else 503)

    return Starlette(routes=[Route("/metrics", metrics), Route("/healthz", alive), Route("/readyz", ready)])


def public_receipt(shown: PublicHand, origin: str, table: str, seq: int) -> dict[str, object]:
    """Return the public part of a hand's receipt (`protocol/receipt.md`): no seed of anybody, no opening.

    Leaves that are lost with the hand's secrets are absent.
    """
    entries = [
        {
            "entry": each.entry.decode(),
            "proof": TlogProof(each.position, each.proof, each.checkpoint.decode()).encode(),
        }
        for each in sorted((*shown.view.entries, *shown.key_entries), key=lambda logged: logged.position)
    ]
    receipt: dict[str, object] = {
        "format": "rs1-receipt/1",
        "origin": origin,
        "table": table,
        "seq": seq,
        "entries": entries,
        "openings": [],
    }
    if shown.contribution_leaves is not None:
        receipt["contributions"] = [leaf.hex() for leaf in shown.contribution_leaves]
    if shown.leaves is not None:
        receipt["shuffles"] = [
            {"k": k, "n": len(leaves), "leaves": [leaf.hex() for leaf in leaves]}
            for k, leaves in enumerate(shown.leaves)
        ]
    return receipt


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError), "registered for these only"
    statuses = ((NotFound, 404), (InvalidField, 400), (Overloaded, 429))
    status = next((status for kind, status in statuses if isinstance(error, kind)), 503)
    headers = {"Retry-After": str(ceil(error.retry_after_s))} if isinstance(error, TryAgain) else {}
    return JSONResponse({"reason": error.reason, "message": error.message}, status, headers)
