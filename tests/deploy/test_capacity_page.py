"""The capacity page shows what was measured, and what its script calculates from that."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.capacity import Mark, measured_table, plan_table, read

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "capacity.md").read_text()
MARKS = read(ROOT / "docs" / "capacity.json")

MARK = Mark(
    store="sqlite",
    hands=1000,
    entries=3000,
    log_bytes=1_200_000,
    store_bytes=2_000_000,
    memory_mib=90.0,
    start_cpu_s=0.5,
    batch_hand_us=360.0,
    single_hand_us=3600.0,
    seal_ms=1.0,
    proof_ms=0.5,
    consistency_ms=0.5,
    audit_entries_per_cpu_s=10_000.0,
)


@pytest.mark.parametrize("table", [measured_table(MARKS), plan_table(MARKS)], ids=["measured", "plan"])
def test_the_pages_tables_are_those_of_the_script(table: str) -> None:
    assert table in PAGE


def test_both_stores_were_measured_at_ten_and_a_hundred_thousand_hands_at_least() -> None:
    for store in ("sqlite", "postgres"):
        assert {10_000, 100_000} <= {mark.hands for mark in MARKS if mark.store == store}


def test_memory_was_flat() -> None:
    for store in ("sqlite", "postgres"):
        memory = [mark.memory_mib for mark in MARKS if mark.store == store]
        assert max(memory) < 1.25 * min(memory)


def test_a_plan_is_in_proportion_but_for_proofs() -> None:
    cells = [
        cell.strip()
        for cell in plan_table([MARK, replace(MARK, store="postgres")], [10**9]).splitlines()[-1].split("|")
    ]
    assert cells[1:-1] == [
        "1,000,000,000",
        "31.69 hands/s",
        "3,000,000,000",
        "1,200.0 GB",
        "2,000.0 GB",
        "2,000.0 GB",
        "32",
        "100.0 h",
        "1,000.0 h",
        "83.3 h",
    ]
