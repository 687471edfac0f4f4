"""Verdicts in the log: an auditor's in two steps, a battery's on what was really sent, and lists of both."""

from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256

import pytest
import pytest_asyncio

from rngsvc.errors import InvalidField, Reason, TryAgain
from rngsvc.log import Logged
from rngsvc.protocol.entries import AuditEntry, IntegrityEntry, parse_entry
from rngsvc.results import MAX_AHEAD_MS, PROPOSAL_MS, AuditVerdict, BatteryVerdict
from rngsvc.sampling import SampleRequest, Totals
from tests.rngsvc.service.world import AUDITOR_SIGNING, World, running

pytestmark = pytest.mark.asyncio

VERDICT = AuditVerdict(0, 2, sha256(b"report").digest(), "pass", AUDITOR_SIGNING.public_key)
SAMPLE_ID = bytes(range(16))


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with running() as world:
        await world.play(0)
        await world.play(1)
        await world.play(2)
        yield world


async def signed(world: World, verdict: AuditVerdict = VERDICT) -> AuditVerdict:
    """Ask for a proposal and sign it."""
    to_sign = await world.results.audit(verdict)
    assert isinstance(to_sign, bytes)
    time = int(to_sign.partition(b'"time":')[2].partition(b",")[0])
    return replace(verdict, time=time, sig=AUDITOR_SIGNING.sign(to_sign))


async def test_an_auditor_signs_the_very_entry_that_stands_in_the_log(world: World) -> None:
    verdict = await signed(world)
    logged = await world.results.audit(verdict)
    assert isinstance(logged, Logged)
    entry = parse_entry(logged.entry)
    assert isinstance(entry, AuditEntry)
    entry.verify()
    assert (entry.first, entry.last, entry.result, entry.verdict) == (0, 2, VERDICT.result, "pass")
    assert entry.time == world.clock.ms + PROPOSAL_MS


async def test_asking_for_a_proposal_logs_nothing(world: World) -> None:
    size = world.log.size
    await signed(world)
    assert world.log.size == size


FORGERIES = {
    "another verdict": {"verdict": "fail"},
    "another report": {"result": bytes(32)},
    "another stretch": {"last": 1},
    "another signer": {"signer": bytes(32)},
    "another time": {"time": 7},
    "another signature": {"sig": bytes(64)},
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
async def test_a_signature_over_anything_else_is_refused(world: World, change: dict[str, object]) -> None:
    verdict = replace(await signed(world), **change)  # type: ignore[arg-type]
    await world.refused(Reason.BAD_SIGNATURE, world.results.audit(verdict), "signature")


@pytest.mark.parametrize("last", [3, 4, 2**53 - 1])
async def test_a_verdict_covers_only_what_is_logged(world: World, last: int) -> None:
    with pytest.raises(InvalidField, match=r"last_index: must be 0\.\.2"):
        await world.results.audit(replace(VERDICT, last=last))


async def test_a_proposal_runs_out(world: World) -> None:
    verdict = await signed(world)
    world.clock.advance(PROPOSAL_MS / 1000 + 0.001)
    await world.refused(Reason.OUT_OF_SEQUENCE, world.results.audit(verdict), "time_ms")
    await world.results.audit(await signed(world))


async def test_a_time_far_ahead_is_refused(world: World) -> None:
    entry = AuditEntry(
        time=world.clock.ms + 60_000,
        first=0,
        last=2,
        result=VERDICT.result,
        verdict="pass",
        signer=VERDICT.signer,
        sig=bytes(64),
    )
    verdict = replace(VERDICT, time=entry.time, sig=AUDITOR_SIGNING.sign(entry.signed_bytes()))
    await world.refused(Reason.OUT_OF_SEQUENCE, world.results.audit(verdict), "time_ms")


@pytest.mark.parametrize("behind_s", [0, 55, 59.9])
async def test_many_verdicts_in_a_row_never_take_the_logs_time_away_from_the_clock(
    world: World, behind_s: float
) -> None:
    """Each moves the log's time on by two seconds; 31 in a second would otherwise stop the signing."""
    world.clock.advance(-behind_s)
    told_to_wait = 0
    for _ in range(100):
        try:
            await world.results.audit(await signed(world))
        except TryAgain:
            told_to_wait += 1
    assert told_to_wait
    assert world.log.head
    assert world.log.head.time <= max(world.clock.ms + MAX_AHEAD_MS, world.clock.ms + int(behind_s * 1000))
    await (await world.play(9)).reserve(1)
    assert not world.sequencer.stopped


# --- Batteries ---


async def a_sample(world: World, *, whole: bool = True) -> bytes:
    request = SampleRequest(SAMPLE_ID, "bits", 1000)
    logged = await world.sampler.begin(request)
    totals = Totals()
    async for _ in world.sampler.chunks(request, totals):
        pass
    if whole:
        await world.sampler.end(logged, request, totals)
    return totals.digest.digest()


async def test_a_battery_is_logged_with_its_reports_hash_and_the_code_that_ran(world: World) -> None:
    digest = await a_sample(world)
    logged = await world.results.battery(BatteryVerdict(SAMPLE_ID, digest, b"signed report", "fail"))
    entry = parse_entry(logged.entry)
    assert isinstance(entry, IntegrityEntry)
    assert (entry.kind, entry.code) == ("daily", world.results.code)
    assert entry.results == (sha256(b"signed report").digest(), "fail")


async def test_a_battery_on_data_that_were_not_sent_is_refused(world: World) -> None:
    def verdict(sha: bytes) -> BatteryVerdict:
        return BatteryVerdict(SAMPLE_ID, sha, b"report", "pass")

    await world.refused(Reason.UNKNOWN_SAMPLE, world.results.battery(verdict(bytes(32))), "sample_id")
    digest = await a_sample(world)
    await world.refused(Reason.OTHER_CONTENT, world.results.battery(verdict(bytes(32))), "sample_sha256")
    await world.restart()
    await world.results.battery(verdict(digest))


async def test_a_battery_on_a_sample_that_was_broken_off_is_refused(world: World) -> None:
    digest = await a_sample(world, whole=False)
    verdict = BatteryVerdict(SAMPLE_ID, digest, b"report", "pass")
    await world.refused(Reason.WRONG_STATE, world.results.battery(verdict), "not sent to its end")


# --- Lists ---


async def test_results_are_listed_newest_first_page_by_page(world: World) -> None:
    positions = []
    for number in range(7):
        logged = await (world.results.start(b"%d" % number) if number % 2 else world.results.audit(await signed(world)))
        assert isinstance(logged, Logged)
        positions.append(logged.position)
        world.clock.advance(5)
        await world.play(10 + number)
    newest = positions[::-1]

    async def listed(before: int, limit: int) -> list[int]:
        return [each.position for each in await world.results.newest(before, limit)]

    assert await listed(0, 100) == newest
    assert await listed(0, 3) == newest[:3]
    assert await listed(newest[2], 3) == newest[3:6]
    assert await listed(newest[-1], 3) == []
    assert await listed(2**63, 3) == newest[:3]
