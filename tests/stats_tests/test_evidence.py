"""The evidence that the documents show is whole: what it says is what its page says."""

import json
from pathlib import Path

import pytest

from rngsvc.protocol.signed_note import NoteKey, SignedNote
from stats_tests.report.document import decode
from stats_tests.report.signature import verify_signature

FOLDER = Path(__file__).parent.parent.parent / "docs/evidence/certification-battery"
KEY = NoteKey.from_vkey("evidence+604107e2+AVyB4ukPs6UDkwb0rIdkSH88o+Ey6IJIDNCM40mqe+Be")
REPORTS = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_a_report_is_signed_passes_and_says_what_its_page_says(file: Path) -> None:
    raw = file.read_bytes()
    report = decode(raw)
    verify_signature(report, raw, file.with_name(f"{file.name}.note").read_text(encoding="utf-8"), KEY)
    (campaign,) = report["campaigns"]
    sample = campaign["sample"]
    (row,) = [line for line in (FOLDER / "README.md").read_text().splitlines() if line.startswith(f"| `{file.name}`")]
    assert (report["verdict"], report["plan"]["battery"], sample["source"]) == ("pass", "certification", "rngsvc")
    assert f"| {sample['items']:,} " in row
    assert f"pass: {campaign['decision']['hypotheses']} primary results" in row
    smallest = min(each["p"] for each in campaign["results"] if "p" in each)
    assert f"| {smallest:.4f} |" in row
    if "words_read" in sample:
        assert f"{sample['words_refused']:,} of {sample['words_read']:,}" in row
    if "smallest_rms_relative_bias" in (power := campaign["power"] or {}):
        assert f"| {power['smallest_rms_relative_bias']:.3%}".replace("%", " %") in row


def test_the_self_test_is_of_the_same_code_and_was_made_in_full() -> None:
    evidence = json.loads(SignedNote.parse((FOLDER / "selftest.note").read_text()).verified([KEY]))
    assert evidence["passed"] is True
    (uniformity,) = [check["facts"] for check in evidence["checks"] if check["name"] == "uniformity/shuffles"]
    assert uniformity["seeds"] == 1000
    for file in REPORTS:
        report = json.loads(file.read_bytes())
        assert evidence["code"] == report["code"]["stats_tests"] == report["selftest"]["code"]
