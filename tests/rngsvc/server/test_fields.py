"""Every bound of the proto's comments, at its edges: outside it the field is named and nothing changes."""

import asyncio
import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from rngsvc.errors import Reason
from rngsvc.v1 import audit_pb2, shuffle_pb2
from tests.rngsvc.server.rpc import METHODS, a_request, refused, serving
from tests.rngsvc.service.world import snapshot, table_id

PROTO = Path(__file__).parents[3] / "proto" / "rngsvc" / "v1"
Change = Callable[[Any], object]
p = shuffle_pb2


def put(**fields: object) -> Change:
    """Set plain fields; a list replaces a repeated field."""

    def change(request: Any) -> None:
        for name, value in fields.items():
            request.ClearField(name)
            if isinstance(value, list):
                getattr(request, name).extend(value)
            else:
                setattr(request, name, value)

    return change


def contributions(*pairs: tuple[bytes, bytes]) -> list[Any]:
    return [p.Contribution(contributor=who, seed=seed) for who, seed in pairs]


def promises(*pairs: tuple[bytes, bytes]) -> Change:
    hands = [p.HandPromises(promises=[p.Promise(contributor=who, promise=what) for who, what in pairs])]
    return put(hands=hands)


def sample(kind: str, **fields: int) -> Change:
    messages = {"bits": audit_pb2.BitsSample, "numbers": audit_pb2.NumbersSample, "shuffles": audit_pb2.ShufflesSample}
    return lambda request: getattr(request, kind).CopyFrom(messages[kind](**fields))


def audit(**fields: object) -> Change:
    return lambda request: [setattr(request.audit, name, value) for name, value in fields.items()]


def integrity(**fields: object) -> Change:
    good = {
        "sample_id": bytes(16),
        "sample_sha256": bytes(32),
        "report": b"report",
        "verdict": audit_pb2.VERDICT_PASS,
    }
    return lambda request: request.integrity.CopyFrom(audit_pb2.IntegrityResult(**{**good, **fields}))  # type: ignore[arg-type]


def many(count: int, seed: bytes = bytes(32)) -> list[tuple[bytes, bytes]]:
    return [(b"%02d" % i, seed) for i in range(count)]


def choice_promise(promised: bytes) -> Change:
    given = p.Promise(contributor=b"a", promise=bytes(32), choice_promise=promised)
    return put(hands=[p.HandPromises(promises=[given])])


def choices(*pairs: tuple[bytes, bytes]) -> list[p.Choice]:
    return [p.Choice(contributor=i, choice=choice) for i, choice in pairs]


def locations(*places: tuple[int, int]) -> list[Any]:
    return [p.Location(k=k, place=place) for k, place in places]


TABLE = table_id(0)
SAFE = 2**53 - 1
BAD_TABLES = [put(table=b""), put(table=bytes(15)), put(table=bytes(17))]
BAD_SEQS = [put(seq=0), put(seq=SAFE + 1), put(seq=2**64 - 1)]
BAD_CONTRIBUTIONS: list[tuple[str, Change]] = [
    ("contributions", put(contributions=contributions(*many(17)))),
    ("contributions", put(contributions=contributions((b"b", bytes(32)), (b"a", bytes(32))))),
    ("contributions", put(contributions=contributions((b"a", bytes(32)), (b"a", bytes(32))))),
    ("contributions[0].contributor", put(contributions=contributions((b"", bytes(32))))),
    ("contributions[0].contributor", put(contributions=contributions((bytes(65), bytes(32))))),
    ("contributions[0].seed", put(contributions=contributions((b"a", bytes(31))))),
    ("contributions[1].seed", put(contributions=contributions((b"a", bytes(32)), (b"b", bytes(65))))),
]

# method -> rows of (the field that is named, what is wrong with the good request)
BAD: dict[str, list[tuple[str, Change]]] = {
    "RegisterTable": [
        *(("table", change) for change in BAD_TABLES),
        ("mode", put(mode=0)),
        ("mode", put(mode=3)),
        ("reveal", put(reveal=0)),
        ("reveal", put(reveal=3)),
        ("ttl_s", put(ttl_s=59)),
        ("ttl_s", put(ttl_s=2_592_001)),
        ("auditor_x25519", put(auditor_x25519=b"")),
        ("auditor_x25519", put(auditor_x25519=bytes(31))),
        ("auditor_x25519", put(auditor_x25519=bytes(33))),
        ("auditor_x25519", put(auditor_x25519=bytes(32))),  # a point of small order
        ("auditor_ed25519", put(auditor_ed25519=b"")),
        ("auditor_ed25519", put(auditor_ed25519=bytes(31))),
        ("auditor_x25519, auditor_ed25519", put(reveal=p.REVEAL_PUBLIC)),
    ],
    "ReserveHands": [
        *(("table", change) for change in BAD_TABLES),
        ("first_seq", put(first_seq=0)),
        ("first_seq", put(first_seq=SAFE + 1)),
        ("first_seq", put(first_seq=SAFE, count=2)),
        ("count", put(count=0)),
        ("count", put(count=65)),
    ],
    "PromiseSeeds": [
        *(("table", change) for change in BAD_TABLES),
        ("first_seq", put(first_seq=0)),
        ("first_seq", put(first_seq=SAFE + 1)),
        ("hands", put(hands=[])),
        ("hands", put(hands=[p.HandPromises()] * 65)),
        ("hands[0].promises", promises(*many(17))),
        ("hands[0].promises", promises((b"b", bytes(32)), (b"a", bytes(32)))),
        ("hands[0].promises", promises((b"a", bytes(32)), (b"a", bytes(32)))),
        ("hands[0].promises[0].contributor", promises((b"", bytes(32)))),
        ("hands[0].promises[0].contributor", promises((bytes(65), bytes(32)))),
        ("hands[0].promises[0].promise", promises((b"a", bytes(31)))),
        ("hands[0].promises[1].promise", promises((b"a", bytes(32)), (b"b", bytes(33)))),
        ("hands[0].promises[0].choice_promise", choice_promise(bytes(31))),
        ("hands[0].promises[0].choice_promise", choice_promise(bytes(33))),
    ],
    "SealShuffle": [
        *(("table", change) for change in BAD_TABLES),
        *(("seq", change) for change in BAD_SEQS),
        ("item_count", put(item_count=0)),
        ("item_count", put(item_count=1021)),
        *BAD_CONTRIBUTIONS,
    ],
    "ChooseTwin": [
        *(("table", change) for change in BAD_TABLES),
        *(("seq", change) for change in BAD_SEQS),
        ("choices", put(choices=choices(*many(17)))),
        ("choices", put(choices=choices((b"b", bytes(32)), (b"a", bytes(32))))),
        ("choices", put(choices=choices((b"a", bytes(32)), (b"a", bytes(32))))),
        ("choices[0].contributor", put(choices=choices((b"", bytes(32))))),
        ("choices[0].contributor", put(choices=choices((bytes(65), bytes(32))))),
        ("choices[0].choice", put(choices=choices((b"a", bytes(31))))),
        ("choices[1].choice", put(choices=choices((b"a", bytes(32)), (b"b", bytes(65))))),
    ],
    "Reshuffle": [
        *(("table", change) for change in BAD_TABLES),
        *(("seq", change) for change in BAD_SEQS),
        ("k", put(k=0)),
        ("k", put(k=16)),
        ("locations", put(locations=[])),
        ("locations", put(locations=locations(*((0, i) for i in range(1021))))),
        ("locations", put(locations=locations((0, 1), (0, 1)))),
        ("locations", put(locations=locations((0, 2), (0, 1)))),
        ("locations", put(k=2, locations=locations((1, 0), (0, 1)))),
        ("locations", put(locations=locations((1, 0)))),
    ],
    "OpenCards": [
        *(("table", change) for change in BAD_TABLES),
        *(("seq", change) for change in BAD_SEQS),
        ("k", put(k=16)),
        ("places", put(places=[])),
        ("places", put(places=[1, 1])),
        ("places", put(places=[2, 1])),
        ("places", put(places=[1020])),
        ("places", put(places=list(range(1021)))),
    ],
    "CloseHand": [
        *(("table", change) for change in BAD_TABLES),
        *(("seq", change) for change in BAD_SEQS),
        ("outcome", put(outcome=0)),
        ("outcome", put(outcome=4)),
        ("reason", put(reason="")),
        ("reason", put(reason="bored")),
        ("reason", put(reason="expired")),  # the service's own word
        ("reason", put(reason="seed_lost")),
        ("reason", put(outcome=p.OUTCOME_COMPLETE)),
        ("reason", put(outcome=p.OUTCOME_LOST)),
    ],
    "DrawNumbers": [
        *(("table", change) for change in BAD_TABLES),
        *(("seq", change) for change in BAD_SEQS),
        ("purpose", put(purpose=b"")),
        ("purpose", put(purpose=b"a" * 65)),
        ("purpose", put(purpose=b"caf\xc3\xa9")),
        ("modulus", put(modulus=0)),
        ("modulus", put(modulus=SAFE + 1)),
        ("count", put(count=0)),
        ("count", put(count=1025)),
        *BAD_CONTRIBUTIONS,
    ],
    "GetHand": [*(("table", change) for change in BAD_TABLES), *(("seq", change) for change in BAD_SEQS)],
    "ListHands": [
        *(("table", change) for change in BAD_TABLES),
        ("page_size", put(page_size=1001)),
        ("state", put(state=7)),
    ],
    "BatchReserveHands": [
        ("tables", put(tables=b"", first_seqs=[])),
        ("tables", put(tables=bytes(31))),
        ("tables", put(tables=TABLE + TABLE)),
        ("tables", put(tables=b"".join(map(table_id, range(257))), first_seqs=[1] * 257)),
        ("first_seqs", put(first_seqs=[1])),
        ("first_seqs", put(first_seqs=[1, 1, 1])),
        ("first_seq", put(first_seqs=[1, 0])),
        ("count", put(count=0)),
        ("count", put(count=65)),
    ],
    "BatchSealShuffle": [
        ("tables", put(tables=b"", seqs=[])),
        ("tables", put(tables=TABLE[:-1])),
        ("seqs", put(seqs=[])),
        ("seqs", put(seqs=[1, 2])),
        ("seq", put(seqs=[0])),
        ("item_count", put(item_count=0)),
        ("item_count", put(item_count=1021)),
        ("contributions", put(contributions=[p.HandContributions(), p.HandContributions()])),
        ("contributions", put(contributions=[p.HandContributions(contributions=contributions(*many(17)))])),
        (
            "contributions[0].seed",
            put(contributions=[p.HandContributions(contributions=contributions((b"a", bytes(3))))]),
        ),
    ],
    "BatchChooseTwin": [
        ("tables", put(tables=b"", seqs=[])),
        ("tables", put(tables=TABLE[:-1])),
        ("seqs", put(seqs=[])),
        ("seq", put(seqs=[0])),
        ("choices", put(choices=[p.HandChoices(), p.HandChoices()])),
        ("choices", put(choices=[p.HandChoices(choices=choices(*many(17)))])),
        ("choices[0].choice", put(choices=[p.HandChoices(choices=choices((b"a", bytes(3))))])),
    ],
    "BatchOpenCards": [
        ("tables", put(tables=TABLE[:-1])),
        ("seqs", put(seqs=[])),
        ("seq", put(seqs=[0])),
        ("ks", put(ks=[])),
        ("k", put(ks=[16])),
        ("place_counts", put(place_counts=[])),
        ("places", put(places=[0])),
        ("places", put(places=[0, 1, 2])),
        ("places", put(places=[1, 0])),
        ("places", put(place_counts=[0], places=[])),
        ("places", put(place_counts=[2**32 - 1])),
    ],
    "BatchCloseHand": [
        ("tables", put(tables=TABLE[:-1])),
        ("seqs", put(seqs=[])),
        ("seq", put(seqs=[0])),
        ("outcome", put(outcome=0)),
        ("reason", put(reason="bored")),
    ],
    "GetCheckpoint": [],
    "GetProof": [("tree_size", put(tree_size=1, index=1)), ("tree_size", put(tree_size=10**6))],
    "GetConsistencyProof": [
        ("old_size", put(old_size=10**6)),
        ("new_size", put(new_size=10**6)),
        ("old_size", put(old_size=3, new_size=2)),
    ],
    "StreamEntries": [
        ("first", put(first=10**6)),
        ("first", put(first=2**64 - 1)),
        ("end", put(end=10**6)),
        ("end", put(first=2, end=1)),
        ("end", put(end=1, follow=True)),
    ],
    "Sample": [
        ("sample_id", put(sample_id=bytes(15))),
        ("sample_id", put(sample_id=bytes(17))),
        ("kind", lambda request: request.ClearField("bits")),
        ("bits.byte_count", sample("bits", byte_count=0)),
        ("bits.byte_count", sample("bits", byte_count=2**40 + 1)),
        ("numbers.modulus", sample("numbers", modulus=0, count=1)),
        ("numbers.modulus", sample("numbers", modulus=SAFE + 1, count=1)),
        ("numbers.count", sample("numbers", modulus=1, count=0)),
        ("numbers.count", sample("numbers", modulus=1, count=2**37 + 1)),
        ("shuffles.item_count", sample("shuffles", item_count=0, count=1)),
        ("shuffles.item_count", sample("shuffles", item_count=1021, count=1)),
        ("shuffles.count", sample("shuffles", item_count=52, count=0)),
        ("shuffles.count", sample("shuffles", item_count=52, count=2**32 + 1)),
    ],
    "OpenHand": [*(("table", change) for change in BAD_TABLES), *(("seq", change) for change in BAD_SEQS)],
    "RecordResult": [
        ("result", lambda request: request.ClearField("audit")),
        ("audit.last_index", audit(first_index=1)),
        ("last_index", audit(last_index=SAFE)),
        ("audit.last_index", audit(last_index=SAFE + 1)),
        ("audit.result_sha256", audit(result_sha256=bytes(31))),
        ("audit.verdict", audit(verdict=0)),
        ("audit.verdict", audit(verdict=4)),
        ("audit.signer", audit(signer=bytes(31))),
        ("audit.time_ms", audit(time_ms=SAFE + 1)),
        ("audit.signature", audit(signature=bytes(63))),
        ("integrity.sample_id", integrity(sample_id=bytes(15))),
        ("integrity.sample_sha256", integrity(sample_sha256=bytes(31))),
        ("integrity.report", integrity(report=b"")),
        ("integrity.report", integrity(report=bytes(2**20 + 1))),
        ("integrity.verdict", integrity(verdict=0)),
    ],
    "ListResults": [("page_size", put(page_size=1001))],
}


@pytest.mark.parametrize("method", BAD)
def test_a_field_outside_its_bound_is_named_and_nothing_changes(method: str) -> None:
    async def run() -> None:
        async with serving() as rpc:
            await rpc.hand()
            before = snapshot(rpc.world.disk)
            for number, (field, change) in enumerate(BAD[method]):
                request = copy.deepcopy(a_request(method))
                change(request)
                refusal = await refused(rpc, method, request)
                row = f"row {number} of {method}: {refusal}"
                assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, row
                assert (refusal.reason, refusal.domain) == (Reason.INVALID_FIELD, "rngsvc"), row
                assert refusal.field == field, row
                assert refusal.description, row
                assert refusal.message == f"{field}: must be {refusal.description}", row
                assert refusal.retry_after_s is None, row
                assert snapshot(rpc.world.disk) == before, row

    asyncio.run(run())


BOUND = re.compile(r"\d+\.\.|\d+ bytes|Not allowed in a request|strictly ascending|(?<!-)\b\d+ ids")
EXEMPT = {
    # What its bound depends on is not one of the message's own.
    ("GetProofRequest", "index"),  # past the log's end is NOT_FOUND (test_log_service)
    # The path of a batch's rows names the single call's field.
    ("HandContributions", "contributions"),
    ("HandChoices", "choices"),
}


def bounded_fields() -> set[tuple[str, str]]:
    """(message, field) for every field whose comment names a bound, in the messages that a client sends."""
    found = set()
    for file in sorted(PROTO.glob("*.proto")):
        message, comment = "", ""
        for line in file.read_text().splitlines():
            text = line.strip()
            if text.startswith("message "):
                message, comment = text.split()[1], ""
            elif text.startswith("//"):
                comment += text
            elif match := re.match(r"(?:repeated )?[\w.]+ (\w+) = \d+;", text):
                if BOUND.search(comment):
                    found.add((message, match[1]))
                comment = ""
            else:
                comment = ""
    return found


def sent_messages() -> set[str]:
    """The names of all messages that can be part of a request."""
    names: set[str] = set()

    def visit(descriptor: Any) -> None:
        if descriptor.name not in names:
            names.add(descriptor.name)
            for each in descriptor.fields:
                if each.message_type:
                    visit(each.message_type)

    for method, _ in METHODS.values():
        visit(method.input_type)
    return names


def fields_with_rows() -> set[tuple[str, str]]:
    """(message, field) for every row of the table, the fields of nested messages included."""
    tested = set()
    for method, rows in BAD.items():
        (full,) = (each for each in METHODS if each.endswith(f"/{method}"))
        for path, _ in rows:
            for each in path.split(", "):
                descriptor = METHODS[full][0].input_type
                for name in re.sub(r"\[\d+\]", "", each).split("."):
                    tested.add((descriptor.name, name))
                    inner = descriptor.fields_by_name.get(name)
                    descriptor = inner.message_type if inner is not None else None
    return tested


def test_every_bound_of_the_proto_has_a_row() -> None:
    fields = {(message, field) for message, field in bounded_fields() if message in sent_messages()}
    assert len(fields) > 40
    assert fields - fields_with_rows() - EXEMPT == set()


def test_every_method_has_rows() -> None:
    assert set(BAD) == {method.rpartition("/")[2] for method in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_a_request_with_nothing_in_it_is_refused_by_its_first_field(method: str) -> None:
    async def run() -> None:
        async with serving() as rpc:
            await rpc.hand()
            before = snapshot(rpc.world.disk)
            empty: Message = METHODS[method][1]()
            name = method.rpartition("/")[2]
            if name in {"GetCheckpoint", "GetProof", "GetConsistencyProof", "StreamEntries", "ListResults"}:
                await rpc.call(name, empty)
            else:
                assert (await refused(rpc, name, empty)).code is grpc.StatusCode.INVALID_ARGUMENT
            assert snapshot(rpc.world.disk) == before

    asyncio.run(run())
