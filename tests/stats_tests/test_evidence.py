"""The evidence that the documents show is whole: what it says is what its page says."""

import json
from pathlib import Path

import pytest

from rngsvc.protocol.signed_note import NoteKey, SignedNote
from stats_tests.report.document import decode
from stats_tests.report.signature import verify_signature

FOLDER = Path(__file__).parent.parent.parent / "docs/evidence/ten-million-live-decks"
KEY = NoteKey.from_vkey("evidence+9cec957f+AbdRnfjUesLosubMqScQvuj28EyZXLSCnwKAM1HA1cBb")


def test_the_run_on_ten_million_live_decks_is_signed_and_says_what_its_page_says() -> None:
    raw = (FOLDER / "report.json").read_bytes()
    report = decode(raw)
    verify_signature(report, raw, (FOLDER / "report.json.note").read_text(encoding="utf-8"), KEY)
    campaign = report["campaigns"][0]
    sample = campaign["sample"]
    page = (FOLDER / "README.md").read_text()
    assert report["verdict"] == "pass"
    assert (sample["source"], sample["items"], report["plan"]["size"]) == ("rngsvc", 10_000_000, 52)
    assert f"{campaign['decision']['hypotheses']} primary results" in page
    assert f"{sample['words_refused']:,} of {sample['words_read']:,}" in page
    smallest = min(row["p"] for row in campaign["results"] if "p" in row)
    assert f"{smallest:.4f}" in page
    assert campaign["power"]["smallest_rms_relative_bias"] == pytest.approx(0.00094, abs=5e-6)


def test_its_self_test_is_of_the_same_code() -> None:
    evidence = json.loads(SignedNote.parse((FOLDER / "selftest.note").read_text()).verified([KEY]))
    report = json.loads((FOLDER / "report.json").read_bytes())
    assert evidence["passed"] is True
    assert evidence["code"] == report["code"]["stats_tests"] == report["selftest"]["code"]
