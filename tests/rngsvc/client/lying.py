"""A gRPC server that passes every call on to a real service and then lies about the answer.

With the service's own log key it can also sign what was never logged (`Forger`): what a service could do that is itself
the cheat.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from rngsvc.keys.signing import SigningKey
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.entries import Entry
from rngsvc.protocol.merkle import inclusion_proof, leaf_hash, root_of
from rngsvc.protocol.signed_note import NoteKey
from rngsvc.v1 import audit_pb2, log_pb2, shuffle_pb2
from tests.rngsvc.conftest import RunningService

Lie = Callable[[Any], object]
"""Changes a method's answer in place; `Withheld` from a stream if it raises that."""


class Withheld(Exception):
    """This message of a stream is not passed on."""


@asynccontextmanager
async def lying_server(target: str, lies: dict[str, Lie], calls: Counter[str] | None = None) -> AsyncIterator[str]:
    """Yield the address of a server that answers as the one at ``target``, but for the methods in ``lies``.

    ``calls`` counts the calls by method.
    """
    counted = Counter() if calls is None else calls
    server = grpc.aio.server()
    async with grpc.aio.insecure_channel(target) as channel:
        for file in (shuffle_pb2, log_pb2, audit_pb2):
            for service in file.DESCRIPTOR.services_by_name.values():
                handlers = {
                    method.name: _handler(channel, service, method, lies, counted) for method in service.methods
                }
                server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(0)


def _handler(
    channel: grpc.aio.Channel, service: Any, method: Any, lies: dict[str, Lie], calls: Counter[str]
) -> grpc.RpcMethodHandler:
    request_class = GetMessageClass(method.input_type)
    answer_class = GetMessageClass(method.output_type)
    path = f"/{service.full_name}/{method.name}"
    kind = channel.unary_stream if method.server_streaming else channel.unary_unary
    real = kind(path, request_class.SerializeToString, answer_class.FromString)

    def told(answer: Message) -> Message:
        if method.name in lies:
            lies[method.name](answer)
        return answer

    async def unary(request: Message, context: Any) -> Message:
        calls[method.name] += 1
        try:
            return told(await real(request))
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata()))
            raise AssertionError from error

    async def stream(request: Message, _context: Any) -> AsyncIterator[Message]:
        calls[method.name] += 1
        async for answer in real(request):
            with suppress(Withheld):
                yield told(answer)

    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream, request_class.FromString, answer_class.SerializeToString)
    return grpc.unary_unary_rpc_method_handler(unary, request_class.FromString, answer_class.SerializeToString)


class Forger:
    """Signs whatever one likes with the log's own key."""

    def __init__(self, service: RunningService) -> None:
        self._key = SigningKey.load(f"file:{service.folder / 'log.key'}")
        self._note_key = NoteKey(service.origin, self._key.public_key)

    def checkpoint(self, size: int, root: bytes) -> str:
        """Return a signed checkpoint."""
        return Checkpoint(self._note_key.name, size, root).sign(self._note_key, self._key.sign)

    def logged_at(self, entry: Entry, index: int, size: int) -> log_pb2.LoggedEntry:
        """Return ``entry`` at its place in another signed log of ``size`` entries."""
        raw = entry.encode()
        leaves = [leaf_hash(raw if i == index else b"%d" % i) for i in range(size)]

        def node(level: int, number: int) -> bytes:
            return root_of(leaves[number << level : (number + 1) << level])

        proof = b"".join(inclusion_proof(index, size, node))
        return log_pb2.LoggedEntry(
            index=index, entry=raw, proof=proof, checkpoint=self.checkpoint(size, root_of(leaves))
        )

    def logged(self, entry: Entry) -> log_pb2.LoggedEntry:
        """Return ``entry`` as the only one of a log of its own, signed."""
        return self.logged_raw(entry.encode())

    def logged_raw(self, raw: bytes) -> log_pb2.LoggedEntry:
        """Return any bytes as the only entry of a log of its own, signed."""
        return log_pb2.LoggedEntry(index=0, entry=raw, proof=b"", checkpoint=self.checkpoint(1, leaf_hash(raw)))
