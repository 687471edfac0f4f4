"""Each field of each answer, changed on its way: the client must notice, and say by name what is wrong.

`LIES` changes what an honest service answered. `FORGERIES` are answers that the service itself could sign.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from rngsvc.client import Bits, Client, Hand, Numbers, Table, errors
from rngsvc.keys.signing import SigningKey
from rngsvc.protocol.commitment import hand_context, promise
from rngsvc.protocol.entries import Entry, parse_entry
from rngsvc.protocol.merkle import EMPTY_ROOT
from rngsvc.protocol.signed_note import NoteKey, sign
from rngsvc.protocol.twin import promise_choice
from tests.rngsvc.client.lying import Forger, Lie, Withheld, lying_server
from tests.rngsvc.conftest import RunningService

SEED = bytes([7]) * 32
CHOICE = bytes([8]) * 32
AUDITOR = SigningKey(Ed25519PrivateKey.generate())
Scene = Callable[[Client], Awaitable[object]]


# --- What the client does while it is lied to ---


async def table_of(client: Client, mode: str = "shoe") -> Table:
    return await client.register_table(os.urandom(16), mode=mode)


async def promised(client: Client, mode: str = "shoe") -> Hand:
    hand = await (await table_of(client, mode)).reserve()
    await hand.promise({b"me": promise(client.origin, hand.table.id, 1, b"me", SEED)})
    return hand


async def sealed(client: Client, mode: str = "shoe") -> Hand:
    hand = await promised(client, mode)
    await hand.seal(52, {b"me": SEED})
    return hand


async def unchosen(client: Client, mode: str = "shoe", reveal: str = "public") -> Hand:
    auditor = (bytes([9]) + bytes(31), AUDITOR.public_key) if reveal == "escrow" else None
    table = await client.register_table(os.urandom(16), mode=mode, reveal=reveal, auditor=auditor, twin=True)
    hand = await table.reserve()
    me = client.origin, table.id, 1, b"me"
    await hand.promise({b"me": promise(*me, SEED)}, {b"me": promise_choice(*me, CHOICE)})
    await hand.seal_twin(52, {b"me": SEED})
    return hand


async def chosen(client: Client) -> Hand:
    hand = await unchosen(client)
    await hand.choose({b"me": CHOICE})
    return hand


async def chosen_in_full(client: Client) -> None:
    await (await unchosen(client, "full")).choose({b"me": CHOICE})


async def chosen_and_found_again(client: Client) -> None:
    hand = await client.hand((await chosen(client)).table.id, 1)
    await hand.open(0, [0, 1])
    await hand.close()


async def unchosen_closed(client: Client) -> Hand:
    hand = await unchosen(client)
    await hand.close("aborted", "misdeal")
    return hand


async def twin_batch(client: Client) -> None:
    tables = [await client.register_table(os.urandom(16), mode=mode, twin=True) for mode in ("shoe", "full")]
    hands = [pair[0] for pair in await client.reserve_all(tables) if not isinstance(pair, errors.CallFailed)]
    await client.seal_twin_all(hands, 20)
    await client.choose_all(hands)


async def sealed_in_full(client: Client) -> Hand:
    return await sealed(client, "full")


async def opened(client: Client) -> Hand:
    hand = await sealed(client)
    await hand.open(0, [3, 4])
    return hand


async def reshuffled(client: Client) -> Hand:
    hand = await sealed(client)
    await hand.reshuffle([(0, 8), (0, 9), (0, 10)])
    return hand


async def closed(client: Client) -> Hand:
    hand = await opened(client)
    await hand.close()
    return hand


async def drawn(client: Client) -> Hand:
    hand = await promised(client)
    await hand.draw(b"button", 1000, 5, {b"me": SEED})
    return hand


async def found_again(client: Client) -> Hand:
    hand = await opened(client)
    return await client.hand(hand.table.id, 1)


async def found_and_closed(client: Client) -> None:
    await (await found_again(client)).close()


async def batch(client: Client) -> None:
    tables = [await table_of(client), await table_of(client, "full")]
    hands = [pair[0] for pair in await client.reserve_all(tables) if not isinstance(pair, errors.CallFailed)]
    await client.seal_all(hands, 20)
    await client.open_all([(hands[0], 0, [1, 2])])
    await client.close_all(hands)


async def newest(client: Client) -> None:
    await client.log.checkpoint()


async def one_entry(client: Client) -> None:
    await client.log.entry(0)


async def all_entries(client: Client) -> None:
    await table_of(client)
    async for _ in client.log.entries():
        pass


async def later_entries(client: Client) -> None:
    await table_of(client)
    async for _ in client.log.entries(1):
        pass


async def sampled(client: Client) -> None:
    async for _ in await client.audit.sample(Bits(4096)):
        pass


async def sampled_numbers(client: Client) -> None:
    async for _ in await client.audit.sample(Numbers(6, 500)):
        pass


async def opened_for_the_auditor(client: Client) -> None:
    hand = await closed(client)
    await client.audit.open_hand(hand.table.id, 1)


async def judged(client: Client) -> None:
    await client.audit.record_verdict(0, 1, bytes(32), "pass", AUDITOR.public_key, AUDITOR.sign)


async def examined(client: Client) -> None:
    sample_id = os.urandom(16)
    sample = await client.audit.sample(Bits(64), sample_id)
    digest = sha256(b"".join([chunk async for chunk in sample])).digest()
    report = sign("all is well\n", NoteKey("lab.example", AUDITOR.public_key), AUDITOR.sign)
    await client.audit.record_integrity(sample_id, digest, report, "pass")


async def results(client: Client) -> None:
    await client.audit.results()


# --- How it is lied to ---


def flipped(value: bytes, at: int = -1) -> bytes:
    changed = bytearray(value)
    changed[at] ^= 1
    return bytes(changed)


def flip(path: str, at: int = -1) -> Lie:
    """Change one bit of a field of bytes."""
    return put(path, lambda value: flipped(value, at))


def parent(answer: Any, path: str) -> tuple[Any, str]:
    """Return the message (or repeated field) that holds the last step of ``path``; a number is an index."""
    *steps, last = path.split(".")
    for step in steps:
        answer = answer[int(step)] if step.isdigit() else getattr(answer, step)
    return answer, last


def put(path: str, change: Callable[[Any], Any]) -> Lie:
    """Change one field."""

    def lie(answer: Any) -> None:
        holder, last = parent(answer, path)
        if last.isdigit():
            holder[int(last)] = change(holder[int(last)])
        else:
            setattr(holder, last, change(getattr(holder, last)))

    return lie


def cut(path: str) -> Lie:
    """Leave out the last one of a repeated field."""

    def lie(answer: Any) -> None:
        holder, last = parent(answer, path)
        del getattr(holder, last)[-1]

    return lie


def under(path: str, lie: Lie) -> Lie:
    """Lie about a message within the answer."""
    return lambda answer: lie(parent(answer, f"{path}.")[0])


def unset_openings(answer: Any) -> None:
    answer.ClearField("openings")


def withhold(answer: Any) -> None:
    raise Withheld


def become_data(answer: Any) -> None:
    answer.chunk = b"1"


def become_another_start(answer: Any) -> None:
    answer.start.SetInParent()


def in_proposal(lie: Lie) -> Lie:
    """Lie in the first of the two answers to a verdict."""
    return lambda answer: None if answer.HasField("logged") else lie(answer)


def in_entry(lie: Lie) -> Lie:
    """Lie in the second one."""
    return lambda answer: lie(answer.logged) if answer.HasField("logged") else None


def a_failure_of_no_item(answer: Any) -> None:
    answer.failures.add(position=9, code=9)


def only(part: str, lie: Lie) -> Lie:
    """Lie in those messages of a sample that carry ``part``."""
    return lambda message: lie(message) if message.WhichOneof("part") == part else None


def add_one(value: int) -> int:
    return value + 1


def another_root(note: str) -> str:
    """The text of the checkpoint is changed, its signature is not."""
    lines = note.split("\n")
    lines[2] = ("A" if lines[2][0] != "A" else "B") + lines[2][1:]
    return "\n".join(lines)


def said_fail(to_sign: bytes) -> bytes:
    return to_sign.replace(b'"pass"', b'"fail"')


def broken_signature(note: str) -> str:
    return note[:-10] + ("A" if note[-10] != "A" else "B") + note[-9:]


LOGGED: list[tuple[str, Lie, type[Exception]]] = [
    ("index", put("index", add_one), errors.InclusionUnproven),
    ("entry", flip("entry", 20), errors.InclusionUnproven),
    ("proof", flip("proof"), errors.InclusionUnproven),
    ("proof cut", put("proof", lambda proof: proof[:-1]), errors.AnswerMalformed),
    ("proof longer", put("proof", lambda proof: proof + bytes(32)), errors.InclusionUnproven),
    ("root", put("checkpoint", another_root), errors.CheckpointRejected),
    ("signature", put("checkpoint", broken_signature), errors.CheckpointRejected),
    ("no checkpoint", put("checkpoint", lambda _: ""), errors.CheckpointRejected),
]


WHERE_LOGGED: list[tuple[str, str, Scene]] = [
    ("RegisterTable", "logged", table_of),
    ("ReserveHands", "logged", promised),
    ("PromiseSeeds", "logged", promised),
    ("SealShuffle", "logged", sealed),
    ("ChooseTwin", "logged", chosen),
    ("Reshuffle", "logged", reshuffled),
    ("DrawNumbers", "logged", drawn),
    ("CloseHand", "logged", closed),
    ("GetHand", "entries.0", found_again),
    ("GetHand", "entries.1", found_again),
    ("GetHand", "entries.3", found_again),
    ("OpenHand", "entries.4", opened_for_the_auditor),
    ("ListResults", "results.0", results),
]

LIES: list[tuple[str, str, Scene, Lie, type[Exception]]] = [
    *(
        (f"{method} {path} {title}", method, scene, under(path, lie), expected)
        for method, path, scene in WHERE_LOGGED
        for title, lie, expected in LOGGED
    ),
    ("leaves", "SealShuffle", sealed, flip("leaves", 40), errors.LeavesMismatch),
    ("leaves cut", "SealShuffle", sealed, put("leaves", lambda x: x[:-1]), errors.AnswerMalformed),
    ("a leaf less", "SealShuffle", sealed, put("leaves", lambda x: x[:-32]), errors.LeavesMismatch),
    ("contribution", "SealShuffle", sealed, flip("contribution_leaves"), errors.ContributionMismatch),
    ("no contribution", "SealShuffle", sealed, put("contribution_leaves", lambda _: b""), errors.ContributionMismatch),
    ("openings in mode shoe", "SealShuffle", sealed, put("openings.k", int), errors.AnswerMalformed),
    ("no openings", "SealShuffle", sealed_in_full, unset_openings, errors.AnswerMalformed),
    ("item in full", "SealShuffle", sealed_in_full, put("openings.items.5", lambda x: x ^ 1), errors.OpeningMismatch),
    ("no item", "SealShuffle", sealed_in_full, put("openings.items.5", lambda _: 52), errors.OpeningMismatch),
    ("salt in full", "SealShuffle", sealed_in_full, flip("openings.salts"), errors.OpeningMismatch),
    ("place in full", "SealShuffle", sealed_in_full, cut("openings.places"), errors.OpeningMismatch),
    ("leaves before the choice", "SealShuffle", unchosen, put("leaves", lambda _: bytes(32)), errors.AnswerMalformed),
    ("openings before it", "SealShuffle", unchosen, put("openings.k", int), errors.AnswerMalformed),
    ("contribution of two", "SealShuffle", unchosen, flip("contribution_leaves"), errors.ContributionMismatch),
    ("leaves", "ChooseTwin", chosen, flip("leaves", 40), errors.LeavesMismatch),
    ("leaves cut", "ChooseTwin", chosen, put("leaves", lambda x: x[:-1]), errors.AnswerMalformed),
    ("no leaves", "ChooseTwin", chosen, put("leaves", lambda _: b""), errors.LeavesMismatch),
    ("openings in mode shoe", "ChooseTwin", chosen, put("openings.k", int), errors.AnswerMalformed),
    ("no openings", "ChooseTwin", chosen_in_full, unset_openings, errors.AnswerMalformed),
    ("item in full", "ChooseTwin", chosen_in_full, put("openings.items.5", lambda x: x ^ 1), errors.OpeningMismatch),
    ("leaves before it", "BatchSealShuffle", twin_batch, put("leaves", lambda _: bytes(32)), errors.AnswerMalformed),
    ("contributions less", "BatchSealShuffle", twin_batch, cut("contribution_leaves"), errors.AnswerMalformed),
    ("leaves", "BatchChooseTwin", twin_batch, flip("leaves.1", 40), errors.LeavesMismatch),
    ("leaves less", "BatchChooseTwin", twin_batch, cut("leaves"), errors.AnswerMalformed),
    ("no openings", "BatchChooseTwin", twin_batch, cut("openings"), errors.AnswerMalformed),
    ("leaves", "Reshuffle", reshuffled, flip("leaves"), errors.LeavesMismatch),
    ("openings in mode shoe", "Reshuffle", reshuffled, put("openings.k", int), errors.AnswerMalformed),
    ("k", "OpenCards", opened, put("openings.k", add_one), errors.OpeningMismatch),
    ("place", "OpenCards", opened, put("openings.places.1", add_one), errors.OpeningMismatch),
    ("place less", "OpenCards", opened, cut("openings.places"), errors.OpeningMismatch),
    ("item", "OpenCards", opened, put("openings.items.0", lambda x: x ^ 1), errors.OpeningMismatch),
    ("item less", "OpenCards", opened, cut("openings.items"), errors.OpeningMismatch),
    ("salt", "OpenCards", opened, flip("openings.salts"), errors.OpeningMismatch),
    ("salt cut", "OpenCards", opened, put("openings.salts", lambda x: x[:-1]), errors.OpeningMismatch),
    ("nothing", "OpenCards", opened, unset_openings, errors.OpeningMismatch),
    ("value", "DrawNumbers", drawn, put("values.2", lambda x: x ^ 1), errors.AnswerMalformed),
    ("value less", "DrawNumbers", drawn, cut("values"), errors.AnswerMalformed),
    ("contribution", "DrawNumbers", drawn, flip("contribution_leaves"), errors.ContributionMismatch),
    ("state", "GetHand", found_again, put("state", add_one), errors.AnswerMalformed),
    ("an entry withheld", "GetHand", found_again, cut("entries"), errors.AnswerMalformed),
    ("order", "GetHand", found_again, lambda x: x.entries.reverse(), errors.AnswerMalformed),
    ("not opened", "GetHand", found_and_closed, put("opened.0.places.0", lambda _: 9), errors.EntryMismatch),
    ("newest root", "GetCheckpoint", newest, put("checkpoint", another_root), errors.CheckpointRejected),
    ("consistency", "GetConsistencyProof", table_of, flip("proof"), errors.LogForked),
    ("consistency cut", "GetConsistencyProof", table_of, put("proof", lambda x: x[:-1]), errors.AnswerMalformed),
    ("consistency more", "GetConsistencyProof", table_of, put("proof", lambda x: x + bytes(32)), errors.LogForked),
    ("entry", "GetProof", one_entry, flip("logged.entry", 9), errors.InclusionUnproven),
    ("index", "GetProof", one_entry, put("logged.index", add_one), errors.AnswerMalformed),
    ("proof", "GetProof", one_entry, flip("logged.proof"), errors.InclusionUnproven),
    ("entry", "StreamEntries", all_entries, flip("entries.1", 9), errors.InclusionUnproven),
    ("entry less", "StreamEntries", all_entries, cut("entries"), errors.AnswerMalformed),
    ("everything less", "StreamEntries", all_entries, withhold, errors.AnswerMalformed),
    ("a longer edge", "GetProof", later_entries, put("logged.proof", lambda x: x + bytes(32)), errors.AnswerMalformed),
    ("first", "StreamEntries", all_entries, put("first", add_one), errors.AnswerMalformed),
    ("root", "StreamEntries", all_entries, put("checkpoint", another_root), errors.CheckpointRejected),
    ("later entry", "StreamEntries", later_entries, flip("entries.1", 9), errors.InclusionUnproven),
    ("entry before", "GetProof", later_entries, flip("logged.entry", 9), errors.InclusionUnproven),
    ("start entry", "Sample", sampled, only("start", flip("start.logged.entry", 9)), errors.InclusionUnproven),
    ("data", "Sample", sampled, only("chunk", flip("chunk")), errors.SampleMismatch),
    ("data less", "Sample", sampled, only("chunk", put("chunk", lambda x: x[:-1])), errors.SampleMismatch),
    ("half a number", "Sample", sampled_numbers, only("chunk", put("chunk", lambda x: x[:-1])), errors.AnswerMalformed),
    ("all data", "Sample", sampled, only("chunk", withhold), errors.SampleMismatch),
    ("no end", "Sample", sampled, only("end", withhold), errors.SampleMismatch),
    ("no start", "Sample", sampled, only("start", become_data), errors.AnswerMalformed),
    ("two starts", "Sample", sampled, only("chunk", become_another_start), errors.AnswerMalformed),
    ("digest", "Sample", sampled, only("end", flip("end.sha256")), errors.SampleMismatch),
    ("bytes", "Sample", sampled, only("end", put("end.byte_count", add_one)), errors.SampleMismatch),
    ("items", "Sample", sampled, only("end", put("end.item_count", add_one)), errors.SampleMismatch),
    ("last root", "Sample", sampled, only("end", put("end.checkpoint", another_root)), errors.CheckpointRejected),
    ("leaves", "OpenHand", opened_for_the_auditor, flip("shuffles.0.leaves"), errors.LeavesMismatch),
    ("other verdict", "RecordResult", judged, in_proposal(put("to_sign", said_fail)), errors.EntryMismatch),
    ("no entry", "RecordResult", judged, in_proposal(put("to_sign", lambda _: b"")), errors.AnswerMalformed),
    ("verdict", "RecordResult", judged, in_entry(flip("entry", 9)), errors.InclusionUnproven),
    ("battery", "RecordResult", examined, in_entry(flip("entry", 9)), errors.InclusionUnproven),
    ("no close", "OpenHand", opened_for_the_auditor, cut("entries"), errors.AnswerMalformed),
    ("which shuffle", "OpenHand", opened_for_the_auditor, put("shuffles.0.k", add_one), errors.LeavesMismatch),
    ("contributed", "OpenHand", opened_for_the_auditor, flip("contributed_seeds.0"), errors.RevealMismatch),
    ("seed", "OpenHand", opened_for_the_auditor, flip("seed"), errors.RevealMismatch),
    ("index", "BatchReserveHands", batch, put("logged.indexes.1", add_one), errors.InclusionUnproven),
    ("row less", "BatchReserveHands", batch, cut("logged.proofs"), errors.AnswerMalformed),
    ("entry", "BatchSealShuffle", batch, flip("logged.entries.1", 9), errors.InclusionUnproven),
    ("leaves", "BatchSealShuffle", batch, flip("leaves", 700), errors.LeavesMismatch),
    ("leaves cut", "BatchSealShuffle", batch, put("leaves", lambda x: x[:-1]), errors.AnswerMalformed),
    ("contributions less", "BatchSealShuffle", batch, cut("contribution_leaves"), errors.AnswerMalformed),
    ("no openings", "BatchSealShuffle", batch, cut("openings"), errors.AnswerMalformed),
    ("root", "BatchSealShuffle", batch, put("logged.checkpoint", another_root), errors.CheckpointRejected),
    ("item", "BatchOpenCards", batch, put("items.1", lambda x: x ^ 1), errors.OpeningMismatch),
    ("salt", "BatchOpenCards", batch, flip("salts"), errors.OpeningMismatch),
    ("item less", "BatchOpenCards", batch, cut("items"), errors.AnswerMalformed),
    ("proof", "BatchCloseHand", batch, flip("logged.proofs.0"), errors.InclusionUnproven),
    ("a failure of no item", "BatchCloseHand", batch, a_failure_of_no_item, errors.AnswerMalformed),
]  # fmt: skip


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("title", "method", "scene", "lie", "expected"), LIES, ids=[f"{row[1]}: {row[0]}" for row in LIES]
)
async def test_a_changed_answer_is_refused_by_name(
    service: RunningService, title: str, method: str, scene: Scene, lie: Lie, expected: type[Exception]
) -> None:
    lies: dict[str, Lie] = {}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency="always") as client,
    ):
        lies[method] = lie
        with pytest.raises(errors.Unproven) as raised:
            await scene(client)
        assert type(raised.value) is expected


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "scene",
    [
        *(closed, reshuffled, drawn, found_again, found_and_closed, sealed_in_full, batch),
        *(chosen, chosen_in_full, chosen_and_found_again, unchosen_closed, twin_batch),
        *(newest, one_entry, all_entries, later_entries),
        *(sampled, sampled_numbers, opened_for_the_auditor, judged, examined, results),
    ],
)
async def test_the_same_scenes_pass_without_a_lie(service: RunningService, scene: Scene) -> None:
    async with (
        lying_server(service.grpc, {}) as target,
        await Client.connect(target, log_key=service.log_key, consistency="always") as client,
    ):
        await scene(client)


# --- What only the service itself could do ---


def said(**members: Any) -> Callable[[Entry], Entry]:
    return lambda entry: replace(entry, **members)


def other_deck(entry: Any) -> Entry:
    return replace(entry, deck=1 - entry.deck)


def first_commitment_again(entry: Any) -> Entry:
    return replace(entry, commitments=(entry.commitments[0],) * 2)


def with_fitting_context(**members: Any) -> Callable[[Any], Entry]:
    """Change what goes into HC_0, and HC_0 with it."""

    def change(entry: Any) -> Entry:
        changed = replace(entry, **members)
        commitment = bytes(32)
        hc = hand_context("ephemeral.example/rng", entry.table, entry.seq, commitment, changed.cr, changed.pre)
        return replace(changed, hc=hc)

    return change


OTHER = os.urandom(16)
HASH = bytes(32)
FORGERIES: list[tuple[str, str, Scene, Callable[[Any], Entry], type[Exception]]] = [
    ("another mode", "RegisterTable", table_of, said(mode="full"), errors.EntryMismatch),
    ("another table", "RegisterTable", table_of, said(table=OTHER), errors.EntryMismatch),
    ("another table", "ReserveHands", promised, said(table=OTHER), errors.EntryMismatch),
    ("other hands", "ReserveHands", promised, said(first=2), errors.EntryMismatch),
    ("more hands", "ReserveHands", promised, first_commitment_again, errors.AnswerMalformed),
    ("other hands", "PromiseSeeds", promised, said(first=2), errors.EntryMismatch),
    ("no promise", "PromiseSeeds", promised, said(promises=((),)), errors.EntryMismatch),
    ("another promise", "PromiseSeeds", promised, said(promises=(((b"me", bytes(32)),),)), errors.EntryMismatch),
    ("another hand", "SealShuffle", sealed, said(seq=2), errors.EntryMismatch),
    ("another deck", "SealShuffle", sealed, said(n=51), errors.EntryMismatch),
    ("another context", "SealShuffle", sealed, said(hc=bytes(32)), errors.ContextMismatch),
    ("another root", "SealShuffle", sealed, said(root=bytes(32)), errors.LeavesMismatch),
    ("absent all the same", "SealShuffle", sealed, said(absent=(0,)), errors.EntryMismatch),
    ("other contributions", "SealShuffle", sealed, with_fitting_context(cr=EMPTY_ROOT), errors.ContributionMismatch),
    ("other promises", "SealShuffle", sealed, said(pre=bytes(32)), errors.EntryMismatch),
    ("another commitment", "SealShuffle", sealed, with_fitting_context(), errors.ContextMismatch),
    ("an ordinary table", "RegisterTable", unchosen, said(twin=None), errors.EntryMismatch),
    ("a twin table", "RegisterTable", table_of, said(twin=1), errors.EntryMismatch),
    ("one commitment", "ReserveHands", unchosen, said(twin_commitments=None), errors.EntryMismatch),
    ("no choice promised", "PromiseSeeds", unchosen, said(promises=(((b"me", bytes(32)),),)), errors.EntryMismatch),
    ("another choice", "PromiseSeeds", unchosen, said(promises=(((b"me", HASH, HASH),),)), errors.EntryMismatch),
    ("one deck", "SealShuffle", unchosen, said(twin_hc=None, twin_root=None, twin_used=None), errors.EntryMismatch),
    ("another context of 1", "SealShuffle", unchosen, said(twin_hc=bytes(32)), errors.ContextMismatch),
    ("another hand", "ChooseTwin", chosen, said(seq=2), errors.EntryMismatch),
    ("another choice", "ChooseTwin", chosen, said(choices=(SEED,)), errors.ChoiceMismatch),
    ("a choice dropped", "ChooseTwin", chosen, said(choices=(b"",)), errors.ChoiceMismatch),
    ("a choice more", "ChooseTwin", chosen, said(choices=(CHOICE, CHOICE)), errors.ChoiceMismatch),
    ("the other deck", "ChooseTwin", chosen, other_deck, errors.ChoiceMismatch),
    ("another seed", "ChooseTwin", chosen, said(seed=bytes(48)), errors.TwinMismatch),
    ("one seed kept", "CloseHand", unchosen_closed, said(twin_seed=None), errors.EntryMismatch),
    ("another twin seed", "CloseHand", unchosen_closed, said(twin_seed=bytes(48)), errors.RevealMismatch),
    ("another number", "Reshuffle", reshuffled, said(k=2), errors.EntryMismatch),
    ("other locations", "Reshuffle", reshuffled, said(inputs=((0, 8), (0, 9), (0, 11))), errors.EntryMismatch),
    ("another context", "Reshuffle", reshuffled, said(hc=bytes(32)), errors.ContextMismatch),
    ("another purpose", "DrawNumbers", drawn, said(purpose=b"lottery"), errors.EntryMismatch),
    ("another modulus", "DrawNumbers", drawn, said(m=1001), errors.EntryMismatch),
    ("fewer values", "DrawNumbers", drawn, said(values=(1,)), errors.EntryMismatch),
    ("another context", "DrawNumbers", drawn, said(hc=bytes(32)), errors.ContextMismatch),
    ("another hand", "CloseHand", closed, said(seq=2), errors.EntryMismatch),
    ("another outcome", "CloseHand", closed, said(outcome="aborted", reason="misdeal"), errors.EntryMismatch),
    ("an opening kept quiet", "CloseHand", closed, said(opened=()), errors.EntryMismatch),
    ("openings of nothing", "CloseHand", closed, said(opened=None), errors.EntryMismatch),
    ("another seed", "CloseHand", closed, said(seed=bytes(48)), errors.RevealMismatch),
    ("an escrow instead", "CloseHand", closed, said(seed=None, escrow=bytes(96)), errors.EntryMismatch),
    ("another contribution", "CloseHand", closed, said(seeds=(bytes(32),)), errors.RevealMismatch),
    ("absent at last", "CloseHand", closed, said(seeds=(b"",)), errors.RevealMismatch),
    ("one contribution more", "CloseHand", closed, said(seeds=(SEED, SEED)), errors.RevealMismatch),
    ("no contributions", "CloseHand", closed, said(seeds=None), errors.EntryMismatch),
    ("another verdict", "RecordResult", judged, said(verdict="fail"), errors.EntryMismatch),
    ("another report", "RecordResult", examined, said(results=(bytes(32), "pass")), errors.EntryMismatch),
]  # fmt: skip


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("title", "method", "scene", "forgery", "expected"), FORGERIES, ids=[f"{row[1]}: {row[0]}" for row in FORGERIES]
)
async def test_a_signed_entry_that_does_not_fit_is_refused_by_name(
    service: RunningService,
    title: str,
    method: str,
    scene: Scene,
    forgery: Callable[[Any], Entry],
    expected: type[Exception],
) -> None:
    """Consistency is off here, so that the forged log of one entry is not noticed before the entry itself."""
    forger = Forger(service)

    def lie(answer: Any) -> None:
        if answer.HasField("logged"):  # a verdict is proposed before it is logged
            answer.logged.CopyFrom(forger.logged(forgery(parse_entry(answer.logged.entry))))

    lies: dict[str, Lie] = {}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency="off") as client,
    ):
        lies[method] = lie
        with pytest.raises(errors.Unproven) as raised:
            await scene(client)
        assert type(raised.value) is expected


@pytest.mark.asyncio
async def test_what_is_in_the_log_but_is_no_entry_is_refused(service: RunningService) -> None:
    def lie(answer: Any) -> None:
        answer.logged.CopyFrom(Forger(service).logged_raw(b"{}"))

    lies: dict[str, Lie] = {"RegisterTable": lie}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency="off") as client,
    ):
        with pytest.raises(errors.AnswerMalformed, match="is in the log but is none"):
            await table_of(client)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("method", "part", "scene", "expected"),
    [
        ("StreamEntries", "checkpoint", all_entries, errors.AnswerMalformed),
        ("Sample", "end.checkpoint", sampled, errors.SampleMismatch),
    ],
)
async def test_a_checkpoint_from_before_proves_nothing_of_what_came_after(
    service: RunningService, method: str, part: str, scene: Scene, expected: type[Exception]
) -> None:
    lies: dict[str, Lie] = {}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency="off") as client,
    ):
        old = client.newest_checkpoint.note
        stale = put(part, lambda _: old)
        lies[method] = only("end", stale) if method == "Sample" else stale
        await table_of(client)
        with pytest.raises(expected):
            await scene(client)


@pytest.mark.asyncio
async def test_only_results_are_results(service: RunningService) -> None:
    lies: dict[str, Lie] = {}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency="off") as client,
    ):
        table = Forger(service).logged((await table_of(client)).terms)
        lies["ListResults"] = lambda answer: answer.results[0].CopyFrom(table)
        with pytest.raises(errors.EntryMismatch):
            await client.audit.results()


@pytest.mark.asyncio
async def test_a_hand_of_a_table_with_other_terms_is_refused(service: RunningService) -> None:
    forger = Forger(service)

    def lie(answer: Any) -> None:
        terms: Any = parse_entry(answer.entries[0].entry)
        answer.entries[0].CopyFrom(forger.logged(replace(terms, ttl=60)))

    lies: dict[str, Lie] = {}
    async with (
        lying_server(service.grpc, lies) as target,
        await Client.connect(target, log_key=service.log_key, consistency="off") as client,
    ):
        hand = await promised(client)
        lies["GetHand"] = lie
        with pytest.raises(errors.EntryMismatch):
            await hand.table.hand(1)
