"""What `rngsvc.ports.Store` promises, held against every store there is. A new store passes all of it unchanged."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from rngsvc.ports import Commit, DataKeyRow, Head, HeadMoved, SampleRow, Store, StoreRefused, TableRow, TileRow
from tests.conformance.stores import (
    OTHER_TABLE,
    PLACES,
    TABLE,
    StorePlace,
    Writer,
    everything,
    head,
    rows_of_everything,
    step,
)
from tests.scale import scaled

pytestmark = pytest.mark.asyncio


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StorePlace:
    return PLACES[request.param](tmp_path)


@pytest_asyncio.fixture
async def store(place: StorePlace) -> AsyncIterator[Store]:
    store = place.handle()
    assert await store.open() is None
    yield store
    await store.close()


async def reopened(place: StorePlace, store: Store) -> tuple[Store, Head | None]:
    await store.close()
    again = place.handle()
    return again, await again.open()


# --- Taking the store ---


async def test_a_new_store_has_no_head_and_holds_nothing(store: Store) -> None:
    assert await everything(store) == {
        "entries": [],
        "tables": [None, None],
        "unclosed": [],
        "sequence": [(0, 0), (0, 0)],
        "steps": [[], []],
        "data_keys": [None] * 4,
        "samples": [None] * 3,
        "results": [],
        "key_entries": [],
    }


async def test_a_second_writer_is_refused_while_the_first_holds_the_store(place: StorePlace, store: Store) -> None:
    writer = Writer(store)
    await writer.commit()
    second = place.handle()
    with pytest.raises(StoreRefused):
        await second.open()
    # Letting go of what one never got takes nothing from the holder.
    await second.close()
    third = place.handle()
    with pytest.raises(StoreRefused):
        await third.open()
    await third.close()
    await writer.commit()
    again, found = await reopened(place, store)
    assert found == writer.head
    await again.close()


async def test_a_second_process_is_refused_while_the_first_holds_the_store(place: StorePlace, store: Store) -> None:
    if place.elsewhere is None:
        pytest.skip("this store lives and dies with its process")
    script = f"{place.elsewhere}\nimport asyncio\nasyncio.run(store.open())"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode
    assert "StoreHeld" in done.stderr
    await Writer(store).commit()


async def test_a_store_that_was_let_go_is_taken_by_another_process(place: StorePlace, store: Store) -> None:
    if place.elsewhere is None:
        pytest.skip("this store lives and dies with its process")
    written = await Writer(store).commit()
    await store.close()
    script = f"{place.elsewhere}\nimport asyncio\nprint(asyncio.run(store.open()))"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"{written}\n"


async def test_everything_that_was_committed_is_there_after_reopening(place: StorePlace, store: Store) -> None:
    writer = Writer(store)
    await writer.commit(3, **rows_of_everything())
    await writer.commit(2, kind="audit", tables=[TableRow(OTHER_TABLE, 3, "club")])
    before = await everything(store)
    again, found = await reopened(place, store)
    assert found == writer.head
    assert await everything(again) == before
    assert await again.tile(0, 0) == bytes(range(256)) * 32
    await again.close()


# --- Commits: all or nothing, compare and swap ---


FIRST = head(0, 1)
STALE: dict[str, Head | None] = {
    "none where there is one": None,
    "another size": replace(head(3, 1), size=2),
    "another root": replace(head(3, 1), root=bytes(32)),
    "another checkpoint": replace(head(3, 1), checkpoint=b"other"),
    "another time": replace(head(3, 1), time=2),
}


@pytest.mark.parametrize("expected", STALE.values(), ids=STALE)
async def test_a_commit_that_expects_another_head_is_not_stored(store: Store, expected: Head | None) -> None:
    writer = Writer(store)
    await writer.commit(3, time=1, **rows_of_everything())
    before = await everything(store)
    size = expected.size if expected else 0
    stale = Commit(
        expected,
        head(size + 1, 9),
        writer.commits[0].entries[:1],
        [TileRow(0, 1, bytes(8192))],
        [TableRow(OTHER_TABLE, 0, "thief")],
        [step(2, 0, "reserve", 3)],
        [DataKeyRow(TABLE, 2, b"key")],
        [SampleRow(b"\x01" * 16, 0)],
    )
    with pytest.raises(HeadMoved):
        await store.commit(stale)
    assert await everything(store) == before
    with pytest.raises(KeyError):
        await store.tile(0, 1)
    # The store is still good for who knows its head.
    await writer.commit()


async def test_a_commit_on_a_new_store_that_expects_a_head_is_not_stored(place: StorePlace, store: Store) -> None:
    with pytest.raises(HeadMoved):
        await store.commit(Commit(head(1), head(2), Writer(store).commits))
    again, found = await reopened(place, store)
    assert found is None
    await again.close()


async def test_asking_whether_the_store_is_within_reach_disturbs_no_commit(store: Store) -> None:
    writer = Writer(store)
    for size in range(3):
        await asyncio.gather(store.check(), writer.commit(1), store.check(), store.check())
        assert len(await store.entries(0, 9)) == size + 1


async def test_a_head_may_move_its_time_without_an_entry(place: StorePlace, store: Store) -> None:
    writer = Writer(store)
    await writer.commit(1, time=5)
    before = writer.head
    opened = step(1, 0, "open", None, time=9, places=b"\x00\x00")
    await writer.commit(0, time=9, steps=[opened])
    assert before
    again, found = await reopened(place, store)
    assert found == replace(before, time=9)
    assert await again.steps(TABLE, 1, 2) == [opened]
    await again.close()


async def test_readers_see_only_whole_commits(store: Store) -> None:
    writer = Writer(store)
    whole, commits = 50, scaled(40, 1000)
    seen: list[int] = []

    async def read() -> None:
        while not seen or seen[-1] < whole * commits:
            got = await store.entries(0, whole * commits)
            steps = await store.steps(TABLE, 0, commits + 1)
            assert len(got) % whole == 0
            # Read later, so from the same commit or a newer one.
            assert len(steps) * whole >= len(got)
            seen.append(len(got))
            await asyncio.sleep(0)

    reader = asyncio.create_task(read())
    for seq in range(1, commits + 1):
        await writer.commit(whole, steps=[step(seq, 0, "reserve", 0)])
        await asyncio.sleep(0)
    await reader
    assert seen == sorted(seen)


# --- Reading ---


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [(0, 0, []), (0, 1, [0]), (2, 5, [2, 3, 4]), (3, 99, [3, 4]), (5, 9, []), (4, 2, [])],
)
async def test_entries_are_read_in_runs_that_end_where_the_log_ends(
    store: Store, first: int, end: int, expected: list[int]
) -> None:
    await Writer(store).commit(5)
    assert await store.entries(first, end) == [b"entry %d" % position for position in expected]


async def test_entries_are_read_by_position_in_the_order_asked(store: Store) -> None:
    await Writer(store).commit(1500)
    asked = [1499, 0, 7, 7, *range(1200)]
    assert await store.entries_at(asked) == [b"entry %d" % position for position in asked]
    assert await store.entries_at([]) == []


@pytest.mark.parametrize("asked", [[5], [0, 5], [10**15]])
async def test_an_entry_that_is_not_stored_is_a_key_error(store: Store, asked: list[int]) -> None:
    await Writer(store).commit(5)
    with pytest.raises(KeyError):
        await store.entries_at(asked)


@pytest.mark.parametrize(("level", "number"), [(0, 1), (1, 0), (63, 2**50)])
async def test_a_tile_that_is_not_stored_is_a_key_error(store: Store, level: int, number: int) -> None:
    await Writer(store).commit(1, tiles=[TileRow(0, 0, bytes(8192))])
    with pytest.raises(KeyError):
        await store.tile(level, number)


async def test_tiles_are_kept_by_level_and_number(store: Store) -> None:
    tiles = [TileRow(level, number, bytes([level, number]) * 4096) for level in range(3) for number in range(4)]
    await Writer(store).commit(1, tiles=tiles)
    for tile in tiles:
        assert await store.tile(tile.level, tile.number) == tile.hashes


async def test_a_table_keeps_its_owner_and_the_position_of_its_entry(store: Store) -> None:
    rows = [TableRow(TABLE, 0, "casino"), TableRow(OTHER_TABLE, 1, "a name with späces")]
    await Writer(store).commit(2, tables=rows)
    assert [await store.table(row.table) for row in rows] == rows
    assert await store.table(bytes(16)) is None


LIVES: dict[str, tuple[list[tuple[int, str]], tuple[int, int], bool]] = {
    # (seq, kind) in order of commit; (last reserved, last closed); whether hands are unclosed
    "one reserved": ([(1, "reserve")], (1, 0), True),
    "reserved and closed": ([(1, "reserve"), (1, "close")], (1, 1), False),
    "second one open": ([(1, "reserve"), (2, "reserve"), (1, "close"), (2, "seal"), (2, "open")], (2, 1), True),
    "both closed": ([(1, "reserve"), (2, "reserve"), (1, "close"), (2, "close")], (2, 2), False),
    "promised only": ([(1, "reserve"), (2, "reserve"), (1, "promise"), (2, "promise")], (2, 0), True),
    "ten, nine closed": ([(i, kind) for i in range(1, 11) for kind in ("reserve", "close")][:-1], (10, 9), True),
}


@pytest.mark.parametrize(("life", "sequence", "unclosed"), LIVES.values(), ids=LIVES)
async def test_sequence_numbers_and_unclosed_tables_follow_the_steps(
    store: Store, life: list[tuple[int, str]], sequence: tuple[int, int], unclosed: bool
) -> None:
    writer = Writer(store)
    await writer.commit(2, tables=[TableRow(TABLE, 0, "casino"), TableRow(OTHER_TABLE, 1, "club")])
    numbers: dict[int, int] = {}
    for seq, kind in life:
        numbers[seq] = numbers.get(seq, -1) + 1
        assert writer.head
        await writer.commit(steps=[step(seq, numbers[seq], kind, writer.head.size)])
    assert await store.sequence(TABLE) == sequence
    assert await store.sequence(OTHER_TABLE) == (0, 0)
    assert await store.tables_with_unclosed_hands() == ([TABLE] if unclosed else [])


async def test_steps_come_ordered_by_hand_and_number_with_all_their_columns(store: Store) -> None:
    rows = [
        step(1, 0, "reserve", 0, secret=b"s1"),
        step(2, 0, "reserve", 0, secret=b"s2"),
        step(12, 0, "reserve", 5, secret=b"s12"),
        step(2, 1, "promise", 1),
        step(1, 1, "seal", 2, secret=b"contributed", k=0),
        step(1, 2, "open", None, time=2**53 - 1, k=0, places=b"\x00\x33\x03\xfb"),
        step(1, 3, "reshuffle", 3, k=15),
        step(1, 4, "close", 4),
    ]
    await Writer(store).commit(6, steps=[*rows, step(1, 0, "reserve", 5, table=OTHER_TABLE)])
    in_order = sorted(rows, key=lambda row: (row.seq, row.n))
    assert await store.steps(TABLE, 1, 13) == in_order
    assert await store.steps(TABLE, 2, 12) == [row for row in in_order if row.seq == 2]
    assert await store.steps(TABLE, 3, 3) == []


async def test_the_newest_logged_step_of_each_hand_is_given_page_by_page(store: Store) -> None:
    """An opening is no entry of the log, so the hand's newest entry is still that of the seal."""
    rows = [
        step(1, 0, "reserve", 0),
        step(1, 1, "close", 4),
        step(2, 0, "reserve", 1),
        step(2, 1, "seal", 5),
        step(2, 2, "open", None, time=7, places=b"\x00\x00"),
        step(3, 0, "reserve", 2),
    ]
    await Writer(store).commit(6, steps=rows)
    newest = [rows[1], rows[3], rows[5]]
    assert await store.last_steps(TABLE, 0, 100) == newest
    assert await store.last_steps(TABLE, 0, 2) == newest[:2]
    assert await store.last_steps(TABLE, 2, 2) == newest[2:]
    assert await store.last_steps(TABLE, 3, 2) == []
    assert await store.last_steps(TABLE, 2**53 - 1, 2) == []
    assert await store.last_steps(OTHER_TABLE, 0, 2) == []


async def test_data_keys_are_kept_by_table_and_day(store: Store) -> None:
    rows = [DataKeyRow(TABLE, 1, b"a"), DataKeyRow(TABLE, 20_000, b"b"), DataKeyRow(OTHER_TABLE, 1, b"c")]
    await Writer(store).commit(1, data_keys=rows)
    for row in rows:
        assert await store.data_key(row.table, row.day) == row.wrapped
    assert await store.data_key(OTHER_TABLE, 20_000) is None


async def test_a_sample_gets_its_digest_once_it_is_sent(store: Store) -> None:
    writer = Writer(store)
    begun = SampleRow(b"s" * 16, 0)
    await writer.commit(1, kind="sample", samples=[begun])
    assert await store.sample(begun.sample_id) == begun
    sent = begun._replace(sha256=bytes(range(32)))
    await writer.commit(0, samples=[sent])
    assert await store.sample(begun.sample_id) == sent
    assert await store.sample(bytes(16)) is None


async def test_results_are_the_audit_and_integrity_entries_newest_first(store: Store) -> None:
    writer = Writer(store)
    for kind in ("integrity", "table", "audit", "reserve", "integrity", "sample"):
        await writer.commit(2, kind=kind)
    expected = [9, 8, 5, 4, 1, 0]
    assert await store.results(12, 100) == expected
    assert await store.results(10**15, 3) == expected[:3]
    assert await store.results(5, 100) == [4, 1, 0]
    assert await store.results(0, 100) == []


async def test_key_entries_are_found_in_order_after_reopening_too(place: StorePlace, store: Store) -> None:
    assert await store.key_entries() == []
    writer = Writer(store)
    for kind in ("integrity", "key", "table", "audit", "key"):
        await writer.commit(2, kind=kind)
    assert await store.key_entries() == [2, 3, 8, 9]
    again, _ = await reopened(place, store)
    assert await again.key_entries() == [2, 3, 8, 9]
    await again.close()


async def test_a_writer_that_was_let_go_loses_no_answered_commit(place: StorePlace, store: Store) -> None:
    """Many small commits and reopenings: nothing that was answered is ever missing."""
    writer = Writer(store)
    current: Store = store
    for _ in range(scaled(5, 50)):
        for _ in range(10):
            await writer.commit()
        current, found = await reopened(place, current)
        assert found == writer.head
        writer.store = current
    assert writer.head
    assert len(await current.entries(0, 10_000)) == writer.head.size
    await current.close()
