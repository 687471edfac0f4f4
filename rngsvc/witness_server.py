"""A witness over HTTP (C2SP tlog-witness): POST /add-checkpoint, GET /{origin hash}/checkpoint."""

import asyncio
import json
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rngsvc.config import Address
from rngsvc.http import address_of, bound, serving
from rngsvc.ports import Signer
from rngsvc.protocol.cosignature import CosignerKey
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.store.witness import WitnessStore
from rngsvc.witness import MAX_REQUEST_BYTES, Answer, Witness


def app(witness: Witness) -> Starlette:
    """Return the witness's two paths."""

    async def add_checkpoint(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_REQUEST_BYTES:
                return _response(Answer(413, f"body: must be at most {MAX_REQUEST_BYTES} bytes\n"))
        return _response(witness.add_checkpoint(body))

    async def checkpoint(request: Request) -> Response:
        return _response(witness.checkpoint(request.path_params["origin_hash"]))

    return Starlette(
        routes=[
            Route("/add-checkpoint", add_checkpoint, methods=["POST"]),
            Route("/{origin_hash}/checkpoint", checkpoint),
        ]
    )


async def run(name: str, key: Signer, logs: Mapping[str, Sequence[NoteKey]], state: Path, listen: Address) -> None:
    """Run a witness until SIGTERM or SIGINT. Prints one JSON line when it is ready. OSError if it cannot listen."""
    cosigner = CosignerKey(name, key.public_key)
    store = WitnessStore(state)
    listening = bound(listen)
    stopping = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    async with serving(app(Witness(cosigner, key.sign, logs, store, lambda: int(time.time()))), listening):
        ready = {"url": f"http://{address_of(listening)}/", "key": cosigner.vkey, "logs": sorted(logs)}
        print(json.dumps(ready), flush=True)
        await stopping.wait()
    store.close()


def _response(answer: Answer) -> Response:
    return Response(answer.body, answer.status, {"Content-Type": answer.content_type})
