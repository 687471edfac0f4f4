"""How the server behaves as a gRPC server: statuses, deadlines, load, clients that leave, health, reflection."""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from rngsvc import server
from rngsvc.errors import Reason
from rngsvc.protocol.checkpoint import verify_checkpoint
from rngsvc.protocol.merkle import leaf_hash, verify_consistency, verify_inclusion
from rngsvc.sequencer import Sequencer
from rngsvc.store.memory import MemoryStore
from rngsvc.v1 import audit_pb2, log_pb2, shuffle_pb2
from tests.rngsvc.server.rpc import METHODS, SERVICES, Rpc, a_request, refusal, refused, serving
from tests.rngsvc.service.world import ORIGIN, World, snapshot, table_id
from tests.simulation.faults import REFUSED, FaultyStore

p = shuffle_pb2
S = grpc.StatusCode


def run(test: Callable[[Rpc], Awaitable[None]], **parts: Any) -> None:
    async def served() -> None:
        async with serving(**parts) as rpc:
            await test(rpc)

    asyncio.run(served())


# --- Errors ---


STATUSES: dict[str, tuple[str, Message, grpc.StatusCode, Reason]] = {
    "unknown table": ("GetHand", p.GetHandRequest(table=bytes(16), seq=1), S.NOT_FOUND, Reason.UNKNOWN_TABLE),
    "unknown hand": ("GetHand", p.GetHandRequest(table=table_id(0), seq=9), S.NOT_FOUND, Reason.UNKNOWN_HAND),
    "unknown index": ("GetProof", log_pb2.GetProofRequest(index=10**6), S.NOT_FOUND, Reason.UNKNOWN_INDEX),
    "index past the integers of a store": (
        "GetProof",
        log_pb2.GetProofRequest(index=2**64 - 1),
        S.NOT_FOUND,
        Reason.UNKNOWN_INDEX,
    ),
    "wrong state": (
        "DrawNumbers",
        p.DrawNumbersRequest(table=table_id(0), seq=1, purpose=b"x", modulus=2, count=1),
        S.FAILED_PRECONDITION,
        Reason.WRONG_STATE,
    ),
    "a gap": (
        "ReserveHands",
        p.ReserveHandsRequest(table=table_id(0), first_seq=9, count=1),
        S.FAILED_PRECONDITION,
        Reason.OUT_OF_SEQUENCE,
    ),
    "lower hand open": (
        "SealShuffle",
        p.SealShuffleRequest(table=table_id(0), seq=2, item_count=52),
        S.FAILED_PRECONDITION,
        Reason.LOWER_HAND_OPEN,
    ),
    "other content": (
        "ReserveHands",
        p.ReserveHandsRequest(table=table_id(0), first_seq=1, count=1),
        S.FAILED_PRECONDITION,
        Reason.OTHER_CONTENT,
    ),
    "not closed": (
        "OpenHand",
        audit_pb2.OpenHandRequest(table=table_id(0), seq=1),
        S.FAILED_PRECONDITION,
        Reason.NOT_CLOSED,
    ),
}


@pytest.mark.parametrize(("method", "request_", "code", "reason"), STATUSES.values(), ids=STATUSES)
def test_each_refusal_has_its_status_and_reason(
    method: str, request_: Message, code: grpc.StatusCode, reason: Reason
) -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        before = snapshot(rpc.world.disk)
        told = await refused(rpc, method, request_)
        assert (told.code, told.reason, told.domain) == (code, reason, "rngsvc")
        assert (told.field, told.retry_after_s) == ("", None)
        assert snapshot(rpc.world.disk) == before

    run(test)


def test_a_refused_write_is_unavailable_with_a_time_to_try_again() -> None:
    async def test(rpc: Rpc) -> None:
        told = await refused(rpc, "RegisterTable", a_request("RegisterTable"))
        assert (told.code, told.reason) == (S.UNAVAILABLE, Reason.STORE_REFUSED)
        assert told.retry_after_s
        await rpc.call("RegisterTable", a_request("RegisterTable"))

    run(test, make_store=lambda world: FaultyStore(MemoryStore(world.disk), REFUSED, 0))


def test_a_stopped_service_is_unavailable_without_one() -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        rpc.world.sequencer.stop("somebody pulled the plug")
        told = await refused(rpc, "ReserveHands", p.ReserveHandsRequest(table=table_id(0), first_seq=4, count=1))
        assert (told.code, told.reason, told.retry_after_s) == (S.UNAVAILABLE, Reason.SIGNING_STOPPED, None)

    run(test)


def test_what_is_no_message_is_an_invalid_argument() -> None:
    async def test(rpc: Rpc) -> None:
        for method in METHODS:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await rpc.raw(method, b"\xff\xff\xff\xff")
            told = refusal(error.value)
            assert (told.code, told.field) == (S.INVALID_ARGUMENT, "request"), method

    run(test)


def test_an_unknown_method_is_unimplemented() -> None:
    async def test(rpc: Rpc) -> None:
        for method in ("/rngsvc.v1.ShuffleService/Peek", "/rngsvc.v2.ShuffleService/SealShuffle", "/x/y"):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await rpc.channel.unary_unary(method)(b"")
            assert error.value.code() is S.UNIMPLEMENTED

    run(test)


def test_a_message_above_the_limit_is_refused_before_it_is_read() -> None:
    async def test(rpc: Rpc) -> None:
        for method in METHODS:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await rpc.raw(method, bytes(4_194_305))
            assert error.value.code() is S.RESOURCE_EXHAUSTED, method
        await rpc.hand()

    run(test)


# --- Deadlines and clients that leave ---


class SlowStore(MemoryStore):
    """Commits wait until they are let through."""

    def __init__(self, world: World) -> None:
        super().__init__(world.disk)
        self.open_gate = asyncio.Event()
        self.open_gate.set()

    async def commit(self, commit: Any) -> None:
        await self.open_gate.wait()
        await super().commit(commit)


def test_a_callers_deadline_ends_his_call_and_what_was_in_the_batch_is_stored() -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        store: Any = rpc.world.store
        store.open_gate.clear()
        reserve = p.ReserveHandsRequest(table=table_id(0), first_seq=4, count=1)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await rpc.call("ReserveHands", reserve, timeout_s=0.3)
        assert error.value.code() is S.DEADLINE_EXCEEDED
        store.open_gate.set()
        size = rpc.world.log.size
        again = await rpc.call("ReserveHands", reserve)
        assert again.logged.index >= size - 1
        await rpc.call("CloseHand", p.CloseHandRequest(table=table_id(0), seq=1, outcome=p.OUTCOME_COMPLETE))

    run(test, make_store=SlowStore)


def test_a_call_without_a_deadline_has_the_servers() -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        store: Any = rpc.world.store
        store.open_gate.clear()
        reserve = p.ReserveHandsRequest(table=table_id(0), first_seq=4, count=1)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await asyncio.wait_for(rpc.stubs["ReserveHands"](reserve), 10)
        assert error.value.code() is S.DEADLINE_EXCEEDED
        assert "0.4 s" in (error.value.details() or "")
        store.open_gate.set()
        await rpc.call("ReserveHands", reserve)

    run(test, make_store=SlowStore, deadline_s=0.4)


async def until_nothing_is_in_flight(rpc: Rpc) -> None:
    async with asyncio.timeout(5):
        while rpc.metrics.in_flight._value.get():  # noqa: ASYNC110 - the gauge tells nobody when it changes
            await asyncio.sleep(0.02)


def test_clients_that_leave_leave_nothing_behind() -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        store: Any = rpc.world.store
        store.open_gate.clear()
        calls = [
            rpc.stubs["RegisterTable"](
                p.RegisterTableRequest(table=table_id(i), mode=p.MODE_SHOE, reveal=p.REVEAL_PUBLIC)
            )
            for i in range(1, 31)
        ]
        await asyncio.sleep(0.3)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        store.open_gate.set()
        await until_nothing_is_in_flight(rpc)
        # Those that were in the batch when they left are registered, the others are not; both can be asked for.
        for i in range(1, 31):
            request = p.RegisterTableRequest(table=table_id(i), mode=p.MODE_SHOE, reveal=p.REVEAL_PUBLIC)
            await rpc.call("RegisterTable", request)

    run(test, make_store=SlowStore)


@pytest.mark.parametrize("stream", ["StreamEntries", "Sample"])
def test_a_client_that_leaves_a_stream_ends_it(stream: str) -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        requests: dict[str, Message] = {
            "StreamEntries": log_pb2.StreamEntriesRequest(follow=True),
            "Sample": audit_pb2.SampleRequest(sample_id=bytes(16), bits=audit_pb2.BitsSample(byte_count=2**40)),
        }
        call = rpc.stubs[stream](requests[stream])
        await call.read()
        call.cancel()
        await until_nothing_is_in_flight(rpc)
        given = len(rpc.world.entropy.given)
        await asyncio.sleep(0.2)
        assert len(rpc.world.entropy.given) == given

    run(test)


def test_a_cancelled_future_inside_never_leaves_the_client_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """grpc/grpc#29248: a CancelledError that escapes from a handler leaves its client waiting for ever."""

    async def cancelled(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        with monkeypatch.context() as patched:
            patched.setattr(Sequencer, "submit", cancelled)
            for method in ("ReserveHands", "Sample"):
                async with asyncio.timeout(10):
                    told = await refused(rpc, method, a_request(method))
                assert (told.code, told.reason) == (S.UNAVAILABLE, Reason.STARTING_OR_STOPPING)

    run(test)


def test_an_error_that_nobody_foresaw_tells_the_caller_nothing_about_it() -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()

        async def broken(*_: object) -> None:
            raise KeyError("a secret is in here")

        rpc.world.store.last_steps = broken  # type: ignore[assignment,method-assign]
        told = await refused(rpc, "ListHands", a_request("ListHands"))
        assert (told.code, told.message) == (S.INTERNAL, "internal error")

    run(test)


# --- Load ---


def test_above_the_limit_calls_are_refused_with_a_time_to_try_again() -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        store: Any = rpc.world.store
        store.open_gate.clear()
        requests = [
            p.RegisterTableRequest(table=table_id(i), mode=p.MODE_SHOE, reveal=p.REVEAL_PUBLIC) for i in range(1, 101)
        ]
        calls = {asyncio.create_task(rpc.call("RegisterTable", request)) for request in requests}
        waiting = calls
        async with asyncio.timeout(20):
            while len(waiting) > 16:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # Health is asked for all the same.
        health = health_pb2_grpc.HealthStub(rpc.channel)
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
        store.open_gate.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        errors = [refusal(each) for each in results if isinstance(each, grpc.aio.AioRpcError)]
        assert len(errors) == 100 - 16
        assert {(each.code, each.reason) for each in errors} == {(S.RESOURCE_EXHAUSTED, Reason.OVERLOADED)}
        assert all(each.retry_after_s for each in errors)
        await rpc.call("RegisterTable", requests[-1])

    run(test, make_store=SlowStore, most_calls=16)


# --- Health and reflection ---


def test_health_is_told_for_the_server_and_each_service() -> None:
    async def test(rpc: Rpc) -> None:
        health = health_pb2_grpc.HealthStub(rpc.channel)
        for serving_now in (True, False):
            await server.set_health(rpc.healthy, serving=serving_now)
            for name in ("", *SERVICES):
                status = (await health.Check(health_pb2.HealthCheckRequest(service=name))).status
                expected = "SERVING" if serving_now else "NOT_SERVING"
                assert health_pb2.HealthCheckResponse.ServingStatus.Name(status) == expected
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await health.Check(health_pb2.HealthCheckRequest(service="rngsvc.v1.Nothing"))
        assert error.value.code() is S.NOT_FOUND

    run(test)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_shows_every_service_and_method(version: str) -> None:
    async def test(rpc: Rpc) -> None:
        ask = rpc.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )

        async def asked(**question: str) -> Any:
            return await anext(aiter(ask(iter([reflection_pb2.ServerReflectionRequest(**question)]))))  # type: ignore[arg-type]

        listed = await asked(list_services="")
        names = {service.name for service in listed.list_services_response.service}
        assert names >= {*SERVICES, "grpc.health.v1.Health"}
        for name, (descriptor, _) in SERVICES.items():
            answer = await asked(file_containing_symbol=name)
            files = [
                descriptor_pb2.FileDescriptorProto.FromString(raw)
                for raw in answer.file_descriptor_response.file_descriptor_proto
            ]
            shown = {
                method.name
                for file in files
                for service in file.service
                if f"{file.package}.{service.name}" == name
                for method in service.method
            }
            assert shown == {method.name for method in descriptor.methods}

    run(test)


# --- Reading hands ---


def test_a_hand_is_shown_with_proofs_to_one_checkpoint_and_no_opening() -> None:
    async def test(rpc: Rpc) -> None:
        table = await rpc.hand()
        await rpc.call("OpenCards", p.OpenCardsRequest(table=table, seq=1, k=0, places=[0, 5]))
        shown = await rpc.call("GetHand", p.GetHandRequest(table=table, seq=1))
        assert shown.state == p.HAND_STATE_SEALED
        assert [(each.k, list(each.places), list(each.items), each.salts) for each in shown.opened] == [
            (0, [0, 5], [], b"")
        ]
        assert len(shown.entries) == 4
        assert len({each.checkpoint for each in shown.entries}) == 1
        checkpoint = verify_checkpoint(shown.entries[0].checkpoint, ORIGIN, [rpc.world.note_key])
        for each in shown.entries:
            proof = [each.proof[i : i + 32] for i in range(0, len(each.proof), 32)]
            verify_inclusion(leaf_hash(each.entry), each.index, checkpoint.size, proof, checkpoint.root)

    run(test)


def test_hands_are_listed_in_order_with_state_newest_entry_and_pages() -> None:
    async def test(rpc: Rpc) -> None:
        table = await rpc.hand()
        seal_index = rpc.world.log.size - 1
        await rpc.call("OpenCards", p.OpenCardsRequest(table=table, seq=1, k=0, places=[0]))
        listed = await rpc.call("ListHands", p.ListHandsRequest(table=table))
        assert [(each.seq, each.state) for each in listed.hands] == [
            (1, p.HAND_STATE_SEALED),
            (2, p.HAND_STATE_RESERVED),
            (3, p.HAND_STATE_RESERVED),
        ]
        assert listed.hands[0].last_index == seal_index
        assert listed.next_after_seq == 0
        page = await rpc.call("ListHands", p.ListHandsRequest(table=table, page_size=2))
        assert ([each.seq for each in page.hands], page.next_after_seq) == ([1, 2], 2)
        page = await rpc.call("ListHands", p.ListHandsRequest(table=table, page_size=2, after_seq=2))
        assert ([each.seq for each in page.hands], page.next_after_seq) == ([3], 0)
        reserved = await rpc.call("ListHands", p.ListHandsRequest(table=table, state=p.HAND_STATE_RESERVED))
        assert [each.seq for each in reserved.hands] == [2, 3]
        assert not (await rpc.call("ListHands", p.ListHandsRequest(table=table, after_seq=2**64 - 1))).hands

    run(test)


# --- Batches ---


def test_a_batch_fails_item_by_item_and_its_rows_are_those_of_the_others() -> None:
    async def test(rpc: Rpc) -> None:
        tables = [await rpc.hand(number, sealed=False) for number in range(3)]
        unknown = table_id(99)
        mixed = b"".join([tables[0], unknown, tables[1], tables[2]])
        reserved = await rpc.call(
            "BatchReserveHands", p.BatchReserveHandsRequest(tables=mixed, first_seqs=[4, 1, 9, 4], count=2)
        )
        assert [(each.position, each.reason) for each in reserved.failures] == [
            (1, Reason.UNKNOWN_TABLE),
            (2, Reason.OUT_OF_SEQUENCE),
        ]
        assert [each.code for each in reserved.failures] == [5, 9]
        assert len(reserved.logged.entries) == len(reserved.logged.indexes) == len(reserved.logged.proofs) == 2
        sealed = await rpc.call(
            "BatchSealShuffle", p.BatchSealShuffleRequest(tables=mixed, seqs=[1, 1, 1, 2], item_count=52)
        )
        assert [(each.position, each.reason) for each in sealed.failures] == [
            (1, Reason.UNKNOWN_TABLE),
            (3, Reason.LOWER_HAND_OPEN),
        ]
        assert len(sealed.leaves) == 2 * 52 * 32
        opened = await rpc.call(
            "BatchOpenCards",
            p.BatchOpenCardsRequest(
                tables=mixed, seqs=[1, 1, 1, 1], ks=[0] * 4, place_counts=[2, 1, 3, 1], places=[0, 1, 0, 4, 5, 6, 0]
            ),
        )
        assert [each.position for each in opened.failures] == [1, 3]
        assert len(opened.items) == 5
        assert len(opened.salts) == 5 * 16
        single = await rpc.call("OpenCards", p.OpenCardsRequest(table=tables[1], seq=1, k=0, places=[4, 5, 6]))
        assert list(single.openings.items) == list(opened.items[2:])
        closed = await rpc.call(
            "BatchCloseHand",
            p.BatchCloseHandRequest(tables=mixed, seqs=[1, 1, 1, 2], outcome=p.OUTCOME_COMPLETE),
        )
        assert [each.position for each in closed.failures] == [1, 3]
        checkpoint = verify_checkpoint(closed.logged.checkpoint, ORIGIN, [rpc.world.note_key])
        for index, entry, proof in zip(closed.logged.indexes, closed.logged.entries, closed.logged.proofs, strict=True):
            hashes = [proof[i : i + 32] for i in range(0, len(proof), 32)]
            verify_inclusion(leaf_hash(entry), index, checkpoint.size, hashes, checkpoint.root)

    run(test)


# --- The log service ---


def test_every_index_and_every_pair_of_sizes_has_a_proof() -> None:
    async def test(rpc: Rpc) -> None:
        for number in range(12):
            await rpc.hand(number, sealed=False)
        size = rpc.world.log.size
        roots = {n: await rpc.world.log.root(n) for n in range(1, size + 1)}
        for index in range(size):
            for tree_size in (0, *range(index + 1, size + 1)):
                answer = await rpc.call("GetProof", log_pb2.GetProofRequest(index=index, tree_size=tree_size))
                proof = [answer.logged.proof[i : i + 32] for i in range(0, len(answer.logged.proof), 32)]
                n = tree_size or size
                verify_inclusion(leaf_hash(answer.logged.entry), index, n, proof, roots[n])
                assert bool(answer.logged.checkpoint) == (tree_size == 0)
        for old in range(1, size + 1):
            for new in range(old, size + 1):
                request = log_pb2.GetConsistencyProofRequest(old_size=old, new_size=new)
                answer = await rpc.call("GetConsistencyProof", request)
                hashes = [answer.proof[i : i + 32] for i in range(0, len(answer.proof), 32)]
                verify_consistency(old, roots[old], new, roots[new], hashes)

    run(test)


def test_a_stream_gives_every_entry_once_and_goes_on_as_the_log_grows() -> None:
    async def test(rpc: Rpc) -> None:
        await rpc.hand()
        whole = await rpc.call("StreamEntries", log_pb2.StreamEntriesRequest())
        assert [entry for part in whole for entry in part.entries] == rpc.world.disk.entries
        some = await rpc.call("StreamEntries", log_pb2.StreamEntriesRequest(first=1, end=3))
        assert [entry for part in some for entry in part.entries] == rpc.world.disk.entries[1:3]
        following = rpc.stubs["StreamEntries"](log_pb2.StreamEntriesRequest(first=2, follow=True))
        seen: list[bytes] = []
        for number in range(1, 5):
            await rpc.hand(number, sealed=False)
            while len(seen) < rpc.world.log.size - 2:
                part = await asyncio.wait_for(following.read(), 10)
                assert part.first == 2 + len(seen)
                checkpoint = verify_checkpoint(part.checkpoint, ORIGIN, [rpc.world.note_key])
                seen += part.entries
                assert checkpoint.size >= 2 + len(seen)
        assert seen == rpc.world.disk.entries[2:]
        following.cancel()

    run(test)


# --- Samples over the wire ---


@pytest.mark.parametrize(
    "kind",
    [
        {"bits": audit_pb2.BitsSample(byte_count=2_500_000)},
        {"numbers": audit_pb2.NumbersSample(modulus=1000, count=5000)},
        {"shuffles": audit_pb2.ShufflesSample(item_count=52, count=300)},
        {"shuffles": audit_pb2.ShufflesSample(item_count=312, count=50)},
    ],
    ids=["bits", "numbers", "shuffles of bytes", "shuffles of words"],
)
def test_a_sample_starts_with_its_entry_and_ends_with_its_totals(kind: dict[str, Any]) -> None:
    async def test(rpc: Rpc) -> None:
        parts = await rpc.call("Sample", audit_pb2.SampleRequest(sample_id=b"s" * 16, **kind))
        start, *chunks, end = parts
        assert [each.WhichOneof("part") for each in parts] == ["start", *["chunk"] * len(chunks), "end"]
        data = b"".join(each.chunk for each in chunks)
        checkpoint = verify_checkpoint(end.end.checkpoint, ORIGIN, [rpc.world.note_key])
        assert checkpoint.size > start.start.logged.index
        assert (end.end.byte_count, end.end.sha256) == (len(data), sha256(data).digest())
        assert end.end.code_manifest == rpc.world.results.code
        assert end.end.item_count == getattr(next(iter(kind.values())), "byte_count", 0) or end.end.item_count > 0

    run(test)
