"""gRPC: messages in, the card room's tables, messages out; who calls, and errors as statuses. Nothing else."""

from __future__ import annotations  # grpc's classes are generic in its stubs only

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, wraps
from typing import Any, Final, TypeVar

import grpc
import structlog
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from dealer import wire
from dealer.actions import IllegalAction
from dealer.card_room import CardRoom, UnknownTable
from dealer.cashier import NotEnough
from dealer.store import StoreFailed, StoreLost
from dealer.table import OutOfBounds, Refused
from dealer.table_commands import SitIn, SitOut, Stand
from dealer.table_live import LiveTable
from dealer.tokens import Identity, Role, TokenRefused, read_token
from dealer.v1 import table_pb2, table_pb2_grpc
from dealer.wire import InvalidField

ERROR_DOMAIN: Final = "dealer"
MAX_REQUEST_BYTES: Final = 64 * 1024
# Each stream is a call that goes on: without a limit one player could use up those of the whole server.
MOST_STREAMS_A_PLAYER: Final = 32
_BEARER: Final = "Bearer "

Context = grpc.aio.ServicerContext[Any, Any]
Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

_log = structlog.get_logger("dealer.server")


class NotARequest(Exception):
    """The bytes that came are no message of the call's kind."""


class TooManyStreams(Exception):
    """The player watches as much as one may at a time."""


class Forbidden(Exception):
    """The caller is known, and this is not for him."""


# Every error that a caller can meet, its status, and the stable word for programs.
STATUS: Final[dict[type[Exception], tuple[int, str]]] = {
    NotARequest: (code_pb2.INVALID_ARGUMENT, "NOT_A_REQUEST"),
    InvalidField: (code_pb2.INVALID_ARGUMENT, "INVALID_FIELD"),
    OutOfBounds: (code_pb2.INVALID_ARGUMENT, "INVALID_FIELD"),
    TokenRefused: (code_pb2.UNAUTHENTICATED, "TOKEN_REFUSED"),
    Forbidden: (code_pb2.PERMISSION_DENIED, "FORBIDDEN"),
    TooManyStreams: (code_pb2.RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS"),
    UnknownTable: (code_pb2.NOT_FOUND, "UNKNOWN_TABLE"),
    Refused: (code_pb2.FAILED_PRECONDITION, "REFUSED"),
    IllegalAction: (code_pb2.FAILED_PRECONDITION, "ILLEGAL_ACTION"),
    NotEnough: (code_pb2.FAILED_PRECONDITION, "NOT_ENOUGH"),
    StoreFailed: (code_pb2.UNAVAILABLE, "STORE_FAILED"),
    StoreLost: (code_pb2.UNAVAILABLE, "STORE_LOST"),
}


def to_status(error: Exception) -> status_pb2.Status:
    """Return the rich status of an error; inner causes of a failed store are not sent."""
    code, reason = STATUS[type(error)]
    message = "the store failed; try again" if isinstance(error, StoreFailed) else str(error)
    status = status_pb2.Status(code=code, message=message)
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=reason, domain=ERROR_DOMAIN)]
    match error:
        case InvalidField(field=field, allowed=allowed) | Refused(field=field, allowed=allowed):
            details.append(_bad_request(field, allowed))
        case NotEnough(field=field, allowed=allowed):
            details.append(_bad_request(field, allowed))
        case IllegalAction():
            details.append(_bad_request("action", message))
        case _:
            pass
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def _bad_request(field: str, allowed: str) -> error_details_pb2.BadRequest:
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=allowed)
    return error_details_pb2.BadRequest(field_violations=[violation])


def _answers(
    method: Callable[[Any, Identity, Request], Awaitable[Answer]],
) -> Callable[[Any, Request, Context], Awaitable[Answer]]:
    """Return the gRPC method: it finds out who calls, and turns errors into statuses."""

    @wraps(method)
    async def answer(self: TableServicer, request: Request | None, context: Context) -> Answer:
        try:
            return await method(self, self.caller(context), _there(request))
        except Exception as error:
            await _abort(context, error, method.__name__)
            raise AssertionError("aborting raises") from error

    return answer


def _parsed(kind: type[Message], raw: bytes) -> Message | None:
    """Return a call's request. Of bytes that are none gRPC's own parser would tell the caller its inner error."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


def _there(request: Request | None) -> Request:
    if request is None:
        raise NotARequest("the request is not a message of this call's kind")
    return request


async def _abort(context: Context, error: Exception, method: str) -> None:
    """End a call by the status of an error; of one that nobody should meet the caller hears no more than that."""
    if type(error) in STATUS:
        await context.abort_with_status(rpc_status.to_status(to_status(error)))
    _log.error("defect", method=method, exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, "a defect; it is logged")


class TableServicer(table_pb2_grpc.TableServiceServicer):
    """`dealer.v1.TableService`."""

    def __init__(self, room: CardRoom, token_key: bytes) -> None:
        self._room = room
        self._token_key = token_key
        self._streams: Counter[str] = Counter()

    def caller(self, context: Context) -> Identity:
        """Return who calls. Raises TokenRefused."""
        for name, value in context.invocation_metadata() or ():
            if name == "authorization" and isinstance(value, str) and value.startswith(_BEARER):
                return read_token(self._token_key, value.removeprefix(_BEARER), time.time())
        raise TokenRefused("a token is needed: authorization: Bearer TOKEN")

    def _operated_by(self, identity: Identity) -> None:
        """Raise Forbidden unless an operator calls."""
        if identity.role is not Role.OPERATOR:
            raise Forbidden("this is for operators")

    def _played_by(self, identity: Identity, table: bytes) -> LiveTable:
        """Return a table for a player. Raises Forbidden, InvalidField, UnknownTable."""
        if identity.role is not Role.PLAYER:
            raise Forbidden("this is for players")
        return self._room.table(wire.table_id(table))

    @_answers
    async def CreateTable(  # noqa: D102, N802
        self, identity: Identity, request: table_pb2.CreateTableRequest
    ) -> table_pb2.CreateTableResponse:
        self._operated_by(identity)
        live = self._room.open(wire.table_id(request.table), request.game, request.stakes)
        return table_pb2.CreateTableResponse(table=wire.summary(live))

    @_answers
    async def CloseTable(  # noqa: D102, N802
        self, identity: Identity, request: table_pb2.CloseTableRequest
    ) -> table_pb2.CloseTableResponse:
        self._operated_by(identity)
        live = self._room.table(wire.table_id(request.table))
        live.close()
        return table_pb2.CloseTableResponse(table=wire.summary(live))

    @_answers
    async def ListTables(  # noqa: D102, N802
        self, _identity: Identity, request: table_pb2.ListTablesRequest
    ) -> table_pb2.ListTablesResponse:
        after = wire.table_id(request.after, "after") if request.after else b""
        later = [live for live in self._room.tables() if live.id > after]
        return table_pb2.ListTablesResponse(tables=map(wire.summary, later[: wire.page_size(request.page_size)]))

    @_answers
    async def Sit(self, identity: Identity, request: table_pb2.SitRequest) -> table_pb2.SitResponse:  # noqa: D102, N802
        live = self._played_by(identity, request.table)
        named = wire.request_id(identity.player, request.request_id)
        live.sit(identity.player, request.seat, wire.amount(request.amount_cents), named)
        return table_pb2.SitResponse()

    @_answers
    async def TopUp(self, identity: Identity, request: table_pb2.TopUpRequest) -> table_pb2.TopUpResponse:  # noqa: D102, N802
        live = self._played_by(identity, request.table)
        named = wire.request_id(identity.player, request.request_id)
        live.top_up(identity.player, wire.amount(request.amount_cents), named)
        return table_pb2.TopUpResponse()

    @_answers
    async def Stand(self, identity: Identity, request: table_pb2.StandRequest) -> table_pb2.StandResponse:  # noqa: D102, N802
        self._played_by(identity, request.table).do(Stand(identity.player))
        return table_pb2.StandResponse()

    @_answers
    async def SitOut(self, identity: Identity, request: table_pb2.SitOutRequest) -> table_pb2.SitOutResponse:  # noqa: D102, N802
        self._played_by(identity, request.table).do(SitOut(identity.player))
        return table_pb2.SitOutResponse()

    @_answers
    async def SitIn(self, identity: Identity, request: table_pb2.SitInRequest) -> table_pb2.SitInResponse:  # noqa: D102, N802
        live = self._played_by(identity, request.table)
        live.do(SitIn(identity.player, post=request.post, every_hand=not request.ask_each_hand))
        return table_pb2.SitInResponse()

    @_answers
    async def PromiseSeed(  # noqa: D102, N802
        self, identity: Identity, request: table_pb2.PromiseSeedRequest
    ) -> table_pb2.PromiseSeedResponse:
        live = self._played_by(identity, request.table)
        live.promise_seed(identity.player, wire.hand_number(request.hand), wire.promised(request.promise))
        return table_pb2.PromiseSeedResponse()

    @_answers
    async def RevealSeed(  # noqa: D102, N802
        self, identity: Identity, request: table_pb2.RevealSeedRequest
    ) -> table_pb2.RevealSeedResponse:
        live = self._played_by(identity, request.table)
        live.reveal_seed(identity.player, wire.hand_number(request.hand), wire.seed(request.seed))
        return table_pb2.RevealSeedResponse()

    @_answers
    async def Act(self, identity: Identity, request: table_pb2.ActRequest) -> table_pb2.ActResponse:  # noqa: D102, N802
        self._played_by(identity, request.table).do(wire.play(identity.player, request))
        return table_pb2.ActResponse()

    @_answers
    async def GetHistory(  # noqa: D102, N802
        self, identity: Identity, request: table_pb2.GetHistoryRequest
    ) -> table_pb2.GetHistoryResponse:
        number, text = self._room.history(
            wire.table_id(request.table), wire.hand_number(request.hand), identity.plays_as
        )
        return table_pb2.GetHistoryResponse(hand=number, json=text)

    async def Watch(  # noqa: D102, N802
        self, request: table_pb2.WatchRequest | None, context: Context
    ) -> AsyncIterator[table_pb2.WatchResponse]:
        try:
            identity = self.caller(context)
            player = identity.plays_as
            live = self._room.table(wire.table_id(_there(request).table))
            if player and self._streams[player] == MOST_STREAMS_A_PLAYER:
                raise TooManyStreams(f"a player watches at most {MOST_STREAMS_A_PLAYER} times at a time")
            live.watches(player)
        except Exception as error:
            await _abort(context, error, "Watch")
            raise AssertionError("aborting raises") from error
        self._streams[player] += 1
        view = wire.View(live, player)
        try:
            while True:
                seen = self._room.table(live.id).version
                message = view.next()
                if message is not None:
                    self.caller(context)  # a token that has expired is shown nothing more
                    yield message
                await live.changes(seen)
        except asyncio.CancelledError:
            # The caller has left, or the server stops. A CancelledError that escapes a handler hangs its client.
            return
        except Exception as error:  # noqa: BLE001  (as in `_answers`)
            await _abort(context, error, "Watch")
        finally:
            self._streams -= Counter([player])  # drops a player who has none left
            with contextlib.suppress(StoreFailed):
                live.watches_no_more(player)


def add_to(server: grpc.aio.Server, servicer: TableServicer) -> None:
    """Let a server answer `TableService` calls."""
    service = table_pb2.DESCRIPTOR.services_by_name["TableService"]
    handlers = {}
    for method in service.methods:
        form = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        handlers[method.name] = form(
            getattr(servicer, method.name),
            request_deserializer=partial(_parsed, getattr(table_pb2, method.input_type.name)),
            response_serializer=getattr(table_pb2, method.output_type.name).SerializeToString,
        )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service.full_name, handlers)])
