"""The pages and the package's own example say what the code does."""

import doctest
from dataclasses import fields
from pathlib import Path

import rngsvc.protocol
from rngsvc.protocol import receipt
from rngsvc.protocol.verify import STEP_IDS, TWIN_STEP_IDS

PROTOCOL = Path(rngsvc.protocol.__file__).parent
PAGE = (PROTOCOL / "receipt.md").read_text(encoding="utf-8")


def test_the_packages_example_runs():
    result = doctest.testmod(rngsvc.protocol)
    assert result.attempted > 10
    assert result.failed == 0


def test_every_step_of_verification_stands_on_the_page_in_order():
    rows = [line.split("`")[1] for line in PAGE.split("| step |")[1].splitlines() if line.startswith("| `")]
    assert rows == [*STEP_IDS, *TWIN_STEP_IDS, "witnesses"]


def test_every_member_of_a_receipt_stands_on_the_page():
    for kind in (receipt.Receipt, receipt.LoggedEntry, receipt.OwnContribution, receipt.SealedShuffle, receipt.Opening):
        for each in fields(kind):
            assert f"`{each.name}`" in PAGE or f'"{each.name}"' in PAGE
    for each in fields(receipt.CardMove):
        assert f'"{each.name}"' in PAGE
    for word in ("dealt", "burnt", "shown", "shuffle", "cards", "events", receipt.FORMAT):
        assert f"`{word}`" in PAGE


def test_the_pages_link_only_to_what_is_there():
    for page in PROTOCOL.glob("*.md"):
        for target in page.read_text(encoding="utf-8").split("](")[1:]:
            name = target.split(")")[0]
            assert name.startswith("https://") or (PROTOCOL / name).exists(), (page.name, name)
