"""The gRPC server in this process on a loopback port, over a `World` of fakes, and how its errors are read."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from rngsvc import server
from rngsvc.metrics import Metrics
from rngsvc.protocol.commitment import promise
from rngsvc.v1 import audit_pb2, audit_pb2_grpc, log_pb2, log_pb2_grpc, shuffle_pb2, shuffle_pb2_grpc
from tests.rngsvc.service.world import AUDITOR_KEYS, ORIGIN, World, running, table_id

SERVICES = {
    "rngsvc.v1.ShuffleService": (shuffle_pb2.DESCRIPTOR.services_by_name["ShuffleService"], shuffle_pb2),
    "rngsvc.v1.LogService": (log_pb2.DESCRIPTOR.services_by_name["LogService"], log_pb2),
    "rngsvc.v1.AuditService": (audit_pb2.DESCRIPTOR.services_by_name["AuditService"], audit_pb2),
}
METHODS: dict[str, Any] = {
    f"{service}/{method.name}": (method, getattr(module, method.input_type.name))
    for service, (descriptor, module) in SERVICES.items()
    for method in descriptor.methods
}
"""Every method by "service/method": its descriptor and its request's class."""

ALICE = (b"seat-1", b"\x11" * 32)


@dataclass
class Rpc:
    """A connected client and what it is connected to."""

    world: World
    channel: grpc.aio.Channel
    metrics: Metrics
    address: str
    server: grpc.aio.Server
    healthy: Any
    stubs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stub in (
            shuffle_pb2_grpc.ShuffleServiceStub(self.channel),
            log_pb2_grpc.LogServiceStub(self.channel),
            audit_pb2_grpc.AuditServiceStub(self.channel),
        ):
            self.stubs |= vars(stub)

    async def call(self, method: str, request: Message, timeout_s: float = 20) -> Any:
        """Call ``method`` (its bare name); a stream is read to its end and returned as a list."""
        call = self.stubs[method](request, timeout=timeout_s)
        if hasattr(call, "__aiter__"):
            return [message async for message in call]
        return await call

    async def raw(self, method: str, message: bytes, timeout_s: float = 20) -> Any:
        """Call "service/method" with any bytes as its message; return the answer's bytes, or a list of them."""
        if METHODS[method][0].server_streaming:
            return [part async for part in self.channel.unary_stream(f"/{method}")(message, timeout=timeout_s)]
        return await self.channel.unary_unary(f"/{method}")(message, timeout=timeout_s)

    async def hand(self, number: int = 0, *, sealed: bool = True, **terms: Any) -> bytes:
        """Register a table, reserve its hands 1 to 3, and seal the first with a contribution; return the table."""
        p, table = shuffle_pb2, table_id(number)
        wanted = {"mode": p.MODE_SHOE, "reveal": p.REVEAL_PUBLIC, **terms}
        await self.call("RegisterTable", p.RegisterTableRequest(table=table, **wanted))
        await self.call("ReserveHands", p.ReserveHandsRequest(table=table, first_seq=1, count=3))
        if sealed:
            who, seed = ALICE
            promised = p.Promise(contributor=who, promise=promise(ORIGIN, table, 1, who, seed))
            hands = [p.HandPromises(promises=[promised])]
            await self.call("PromiseSeeds", p.PromiseSeedsRequest(table=table, first_seq=1, hands=hands))
            given = [p.Contribution(contributor=who, seed=seed)]
            await self.call("SealShuffle", p.SealShuffleRequest(table=table, seq=1, item_count=52, contributions=given))
        return table


@asynccontextmanager
async def serving(
    *, deadline_s: float = 10, most_calls: int = 4096, cosigned: Callable[[], str] = lambda: "", **parts: Any
) -> AsyncIterator[Rpc]:
    """Serve a world without TLS; its log is audited at the end."""
    async with running(**parts) as world:
        metrics = Metrics()
        grpc_server, healthy = server.build(
            service=world.service,
            log=world.log,
            store=world.store,
            sampler=world.sampler,
            results=world.results,
            metrics=metrics,
            reseeds=lambda: 0,
            cosigned=cosigned,
            has_tls=False,
            default_ttl_s=86_400,
            default_deadline_s=deadline_s,
            max_message_bytes=4_194_304,
            max_concurrent=most_calls,
        )
        port = grpc_server.add_insecure_port("127.0.0.1:0")
        await grpc_server.start()
        await server.set_health(healthy, serving=True)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield Rpc(world, channel, metrics, f"127.0.0.1:{port}", grpc_server, healthy)
        finally:
            await grpc_server.stop(1)


@dataclass(frozen=True)
class Refusal:
    """A call's rich status, taken apart."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    domain: str = ""
    field: str = ""
    description: str = ""
    retry_after_s: float | None = None


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    """Return what a failed call says."""
    parts: dict[str, Any] = {}
    status: status_pb2.Status | None = rpc_status.from_call(error)  # type: ignore[arg-type]
    for packed in status.details if status else ():
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if packed.Unpack(info):
            parts |= {"reason": info.reason, "domain": info.domain}
        elif packed.Unpack(bad):
            (violation,) = bad.field_violations
            parts |= {"field": violation.field, "description": violation.description}
        elif packed.Unpack(retry):
            parts["retry_after_s"] = retry.retry_delay.ToNanoseconds() / 1e9
    return Refusal(error.code(), error.details() or "", **parts)


async def refused(rpc: Rpc, method: str, request: Message) -> Refusal:
    """The call fails; return what it says."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await rpc.call(method, request)
    return refusal(error.value)


def a_request(method: str) -> Message:
    """A well-formed request for "service/method" at table 0."""
    p, a = shuffle_pb2, audit_pb2
    table = table_id(0)
    requests: dict[str, Message] = {
        "RegisterTable": p.RegisterTableRequest(
            table=table,
            mode=p.MODE_SHOE,
            reveal=p.REVEAL_ESCROW,
            ttl_s=60,
            auditor_x25519=AUDITOR_KEYS[0],
            auditor_ed25519=AUDITOR_KEYS[1],
        ),
        "ReserveHands": p.ReserveHandsRequest(table=table, first_seq=1, count=1),
        "PromiseSeeds": p.PromiseSeedsRequest(
            table=table,
            first_seq=1,
            hands=[p.HandPromises(promises=[p.Promise(contributor=b"a", promise=bytes(32))])],
        ),
        "SealShuffle": p.SealShuffleRequest(
            table=table, seq=1, item_count=52, contributions=[p.Contribution(contributor=b"a", seed=bytes(32))]
        ),
        "ChooseTwin": p.ChooseTwinRequest(table=table, seq=1, choices=[p.Choice(contributor=b"a", choice=bytes(32))]),
        "Reshuffle": p.ReshuffleRequest(table=table, seq=1, k=1, locations=[p.Location(k=0, place=3)]),
        "OpenCards": p.OpenCardsRequest(table=table, seq=1, k=0, places=[0, 1]),
        "CloseHand": p.CloseHandRequest(table=table, seq=1, outcome=p.OUTCOME_ABORTED, reason="misdeal"),
        "DrawNumbers": p.DrawNumbersRequest(
            table=table,
            seq=1,
            purpose=b"button",
            modulus=8,
            count=1,
            contributions=[p.Contribution(contributor=b"a", seed=bytes(32))],
        ),
        "GetHand": p.GetHandRequest(table=table, seq=1),
        "ListHands": p.ListHandsRequest(table=table),
        "BatchReserveHands": p.BatchReserveHandsRequest(tables=table + table_id(1), first_seqs=[1, 1], count=1),
        "BatchSealShuffle": p.BatchSealShuffleRequest(tables=table, seqs=[1], item_count=52),
        "BatchChooseTwin": p.BatchChooseTwinRequest(tables=table, seqs=[1]),
        "BatchOpenCards": p.BatchOpenCardsRequest(tables=table, seqs=[1], ks=[0], place_counts=[2], places=[0, 1]),
        "BatchCloseHand": p.BatchCloseHandRequest(tables=table, seqs=[1], outcome=p.OUTCOME_ABORTED, reason="misdeal"),
        "GetCheckpoint": log_pb2.GetCheckpointRequest(),
        "GetProof": log_pb2.GetProofRequest(index=0),
        "GetConsistencyProof": log_pb2.GetConsistencyProofRequest(old_size=0),
        "StreamEntries": log_pb2.StreamEntriesRequest(),
        "Sample": a.SampleRequest(sample_id=bytes(16), bits=a.BitsSample(byte_count=100)),
        "OpenHand": a.OpenHandRequest(table=table, seq=1),
        "RecordResult": a.RecordResultRequest(
            audit=a.AuditResult(
                first_index=0,
                last_index=0,
                result_sha256=bytes(32),
                verdict=a.VERDICT_PASS,
                signer=AUDITOR_KEYS[1],
            )
        ),
        "ListResults": a.ListResultsRequest(),
    }
    return requests[method.rpartition("/")[2]]
