"""Maker of `docs/certification.md`: which requirement is met by which code, shown by which test and evidence.

    python -m stats_tests.requirements > docs/certification.md

The tests of the battery name the requirements that ask for them (`Entry.clauses`); this page adds everything else. A
test compares the page with what this module makes, and looks for every path that is named.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stats_tests.battery import CATALOGUE

DOCS: Final = Path(__file__).parent.parent / "docs"
SELFTEST: Final = "`stats_tests selftest --evidence`"
REPORT: Final = "`stats_tests run --report`"
DAILY: Final = "`stats_tests daily`, logged as `integrity`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement.

    Attributes:
        id: as the catalogue's entries name it.
        asked_by: rules and clauses.
        asks: what is asked, in our words.
        code: files and folders that meet it.
        tests: files and folders that show it.
        evidence: what an auditor gets, by the command that makes it.
        laboratory: what no software can show; empty if nothing is left.
    """

    id: str
    asked_by: tuple[str, ...]
    asks: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    evidence: str
    laboratory: str = ""


REQUIREMENTS: Final = (
    Requirement(
        id="R01",
        asked_by=(
            "GLI-19 3.2.1",
            "PA 58 Pa. Code 810a.5(a)",
            "UKGC testing strategy 3",
        ),
        asks="The source of generator, scaling and shuffle can be read, and nothing is hidden in it",
        code=("rngsvc/protocol/derivation.py", "rngsvc/protocol/hand-protocol.md", "rngsvc/drbg.py"),
        tests=("tests/rngsvc/protocol", "tests/rngsvc/generator"),
        evidence="module hashes in every report; `stats_tests collect`",
        laboratory="reading the source and building it",
    ),
    Requirement(
        id="R02",
        asked_by=("GLI-19 3.2.2",),
        asks="Final outcomes pass a battery that is judged as a whole at 99 %",
        code=("stats_tests/p_values.py", "stats_tests/battery.py", "stats_tests/shuffles"),
        tests=("tests/stats_tests/test_p_values.py", "tests/stats_tests/test_selftest.py"),
        evidence=REPORT,
        laboratory="the laboratory's own battery and opinion",
    ),
    Requirement(
        id="R03",
        asked_by=("PA 58 Pa. Code 810a.5(c)",),
        asks="Fifteen named tests, read at 95 % too",
        code=("stats_tests/numbers", "stats_tests/shuffles"),
        tests=("tests/stats_tests/test_numbers.py", "tests/stats_tests/test_shuffles.py"),
        evidence=REPORT,
    ),
    Requirement(
        id="R04",
        asked_by=("25 CFR 547.14(b)",),
        asks="Outcomes are uniform one by one and in the combinations that the game uses; no periodic pattern",
        code=("stats_tests/shuffles/positions.py", "stats_tests/shuffles/hands.py", "stats_tests/shuffles/order.py"),
        tests=("tests/stats_tests/test_shuffles.py",),
        evidence=REPORT,
    ),
    Requirement(
        id="R05",
        asked_by=(
            "VA 11VAC20-20-510",
            "SD 48:02:08:02",
            "NM 15.1.7.13",
            "WV 29-22B-909",
        ),
        asks="Each position is uniform; no correlation within a deal or with the deal before; runs",
        code=(
            "stats_tests/shuffles/positions.py",
            "stats_tests/shuffles/pairs.py",
            "stats_tests/shuffles/successive.py",
        ),
        tests=("tests/stats_tests/test_shuffles.py",),
        evidence=REPORT,
    ),
    Requirement(
        id="R06",
        asked_by=("Ontario AGCO 5.1.2, 19.3, 21.1.2",),
        asks="Frequency, runs and serial correlation over the very ranges and deck sizes in use",
        code=("stats_tests/catalogue.py", "stats_tests/numbers", "stats_tests/shuffles"),
        tests=("tests/stats_tests/test_shuffles.py", "tests/stats_tests/test_numbers.py"),
        evidence=f"{REPORT} for each `--n` and `--range` in use",
        laboratory="judging a shuffle of an unusual game",
    ),
    Requirement(
        id="R07",
        asked_by=("Ontario AGCO Registrar's Standards 4.26, 4.27",),
        asks=(
            "Instances are uncorrelated; neither stake nor load has an effect; faults are noticed and handled; drawing "
            "can be monitored"
        ),
        code=(
            "stats_tests/comparison.py",
            "stats_tests/monitoring.py",
            "rngsvc/health_tests.py",
            "rngsvc/protocol/hand-protocol.md",
        ),
        tests=(
            "tests/stats_tests/test_comparison.py",
            "tests/stats_tests/test_monitoring.py",
            "tests/rngsvc/protocol",
        ),
        evidence=(
            f"`stats_tests compare` of samples idle and under load, and of two instances; {DAILY}; no stake is among "
            "what a deck is derived from"
        ),
    ),
    Requirement(
        id="R08",
        asked_by=("UKGC RTS 7A with guidance",),
        asks="Outcomes are uniform and cannot be predicted, no instance is in step with another, scaling keeps this",
        code=("rngsvc/generator.py", "stats_tests/numbers", "stats_tests/shuffles/duplicates.py"),
        tests=("tests/rngsvc/generator", "tests/stats_tests/test_selftest.py"),
        evidence=f"{REPORT}, on bits and on decks",
        laboratory="the opinion that prediction is infeasible",
    ),
    Requirement(
        id="R09",
        asked_by=(
            "UKGC RTS 7B-7E",
            "25 CFR 547.14(e)",
            "GLI-19 4.5.2",
        ),
        asks="Outcomes are used in order, none is dropped, refused draws are accounted for",
        code=("rngsvc/sampling.py", "stats_tests/rejections.py", "rngsvc/protocol/verify.py"),
        tests=("tests/rngsvc/sampling", "tests/stats_tests/test_live.py"),
        evidence="words read and refused in every report on the live service; `rngsvc audit`",
    ),
    Requirement(
        id="R10",
        asked_by=(
            "GLI-19 3.2.3",
            "25 CFR 547.14(f)",
            "NJ 13:69E-1.28G(b)6",
            "PA 58 Pa. Code 810a.5(d)",
        ),
        asks="Scaling has no bias",
        code=("rngsvc/protocol/derivation.py", "stats_tests/byte_rule.py", "stats_tests/selftest.py"),
        tests=("tests/stats_tests/test_byte_rule.py", "tests/stats_tests/test_selftest.py"),
        evidence=f"exhaustion of all words in {SELFTEST}",
    ),
    Requirement(
        id="R11",
        asked_by=("GLI-19 3.2.4, 3.2.5",),
        asks="No outcome tells of another; the state is larger than the number of decks",
        code=("rngsvc/protocol/hand-protocol.md", "stats_tests/shuffles/successive.py"),
        tests=("tests/stats_tests/test_shuffles.py", "tests/rngsvc/protocol"),
        evidence=REPORT,
    ),
    Requirement(
        id="R12",
        asked_by=(
            "GLI-19 3.3.1",
            "PA 58 Pa. Code 810a.5(a)",
        ),
        asks="The generator is cryptographically strong; each implementation is certified by itself",
        code=("rngsvc/drbg.py", "rngsvc/self_test.py"),
        tests=("tests/rngsvc/generator",),
        evidence="known answers at each start; module hashes in every report",
        laboratory="the certificate, and CAVP validation of the very build",
    ),
    Requirement(
        id="R13",
        asked_by=("GLI-19 3.3.2",),
        asks="No weak or shared seeds; fresh entropy limits a compromise",
        code=("rngsvc/entropy.py", "rngsvc/generator.py"),
        tests=("tests/rngsvc/generator",),
        evidence="reseeds in every report on the live service",
        laboratory="cryptanalysis, and the entropy source on the very machine",
    ),
    Requirement(
        id="R14",
        asked_by=("GLI-19 3.3.3",),
        asks="Output is monitored while it is used, and stops when it fails",
        code=("rngsvc/health_tests.py", "stats_tests/bits/health.py", "stats_tests/monitoring.py"),
        tests=(
            "tests/rngsvc/generator",
            "tests/stats_tests/bits/test_health.py",
            "tests/stats_tests/test_monitoring.py",
        ),
        evidence=DAILY,
    ),
    Requirement(
        id="R15",
        asked_by=(
            "GLI-11 3.3.4",
            "NJ 13:69E-1.28G(b)4",
            "25 CFR 547.14(c)(2)",
        ),
        asks="The generator cycles between games, or is reseeded",
        code=("rngsvc/generator.py",),
        tests=("tests/rngsvc/generator",),
        evidence="a fresh seed for each hand, committed in the log",
    ),
    Requirement(
        id="R16",
        asked_by=(
            "NJ 13:69O-1.1, 1.5(c)(d)",
            "GLI-19 2.3.2",
        ),
        asks="The programs authenticate themselves at start, each day and on demand",
        code=("rngsvc/manifest.py", "stats_tests/manifest.py", "stats_tests/commands/daily.py"),
        tests=("tests/stats_tests/test_live.py", "tests/rngsvc/service"),
        evidence="`integrity` entries in the log",
        laboratory="the independent program that checks the binaries",
    ),
    Requirement(
        id="R17",
        asked_by=("UKGC testing strategy 3",),
        asks="Both raw output and shuffled decks are tested",
        code=("stats_tests/live.py", "stats_tests/commands/collect.py"),
        tests=("tests/stats_tests/test_live.py",),
        evidence=f"{REPORT} with `--kind bits` and with `--n`",
    ),
    Requirement(
        id="R18",
        asked_by=("GLI's page on submitting a generator",),
        asks="Tools that collect raw output and final outcomes, with checksums",
        code=("stats_tests/commands/collect.py", "rngsvc/commands/sample.py"),
        tests=("tests/stats_tests/test_commands.py", "tests/stats_tests/test_live.py"),
        evidence="`stats_tests collect`",
        laboratory="saying which formats and sizes it takes",
    ),
    Requirement(
        id="R19",
        asked_by=("GLI-19 4.4.4",),
        asks="Cards are dealt from the shuffled deck as it lies; no reshuffle but by rule",
        code=("dealer/stub.py", "rngsvc/protocol/card_seal.py"),
        tests=("tests/dealer", "tests/rngsvc/protocol"),
        evidence="hand histories with openings, checked by `rngsvc verify`",
    ),
    Requirement(
        id="R20",
        asked_by=(
            "UKGC testing strategy, Annex A",
            "Gibraltar RTOS 12.2(5)",
        ),
        asks="A change to generator, scaling or mapping is seen",
        code=("stats_tests/manifest.py",),
        tests=("tests/stats_tests/test_requirements.py",),
        evidence="the set of module hashes in every report and from `stats_tests collect`",
        laboratory="deciding whether a change needs a new certificate",
    ),
    Requirement(
        id="R21",
        asked_by=(
            "Isle of Man 2007 s.2",
            "Malta",
            "Denmark SCP.01.03",
            "Nevada Reg. 14.040",
        ),
        asks="A certificate by an approved house: uniformity, independence, runs",
        code=("stats_tests/battery.py",),
        tests=("tests/stats_tests/test_tally.py",),
        evidence=REPORT,
        laboratory="the certificate",
    ),
    Requirement(
        id="R22",
        asked_by=("Alderney practice",),
        asks="Suits, ranks and cards over samples of 1,000 to millions of decks, shoes too, raw output beside",
        code=("stats_tests/shuffles/positions.py", "stats_tests/shuffles/deck.py"),
        tests=("tests/stats_tests/test_shuffles.py",),
        evidence=f"{REPORT} with `--n 52` and `--n 416`",
        laboratory="Diehard on raw files: `stats_tests collect --format dieharder`",
    ),
    Requirement(
        id="R23",
        asked_by=(
            "SP 800-90A, B, C",
            "FIPS 140-3",
        ),
        asks="Known answers at start, limits on reseeding, health tests of the source",
        code=("rngsvc/drbg.py", "rngsvc/health_tests.py", "rngsvc/self_test.py"),
        tests=("tests/rngsvc/generator",),
        evidence="the start's `integrity` entry",
        laboratory="validation of the module and of the entropy source",
    ),
    Requirement(
        id="R24",
        asked_by=("AIS 20/31",),
        asks="Classes DRG.3 and DRG.4; statistical tests T0 to T8",
        code=("rngsvc/generator.py", "rngsvc/health_tests.py", "stats_tests/bits/ais_31.py"),
        tests=("tests/rngsvc/generator", "tests/stats_tests/bits/test_ais_31.py"),
        evidence=f"{REPORT} with `--kind bits`: T0 to T8 by name, exploratory; online tests as in R14",
        laboratory="evaluation by an approved body",
    ),
    Requirement(
        id="R25",
        asked_by=("NIST notice of 2022 on SP 800-22",),
        asks="SP 800-22 is not taken for a proof of security",
        code=("stats_tests/power.py", "stats_tests/bits/sp800_22.py"),
        tests=("tests/stats_tests/bits/test_published_answers.py",),
        evidence="the limits in every report",
    ),
)


@dataclass(frozen=True, slots=True)
class Jurisdiction:
    """Who asks.

    Attributes:
        name: in full.
        begins: how its clauses begin.
    """

    name: str
    begins: tuple[str, ...]


JURISDICTIONS: Final[Mapping[str, Jurisdiction]] = {
    "gli": Jurisdiction("Gaming Laboratories International (GLI-11, GLI-19)", ("GLI",)),
    "uk": Jurisdiction("Great Britain, Gambling Commission", ("UKGC",)),
    "ontario": Jurisdiction("Ontario, AGCO", ("Ontario",)),
    "us-tribal": Jurisdiction("United States, tribal gaming (NIGC)", ("25 CFR",)),
    "nevada": Jurisdiction("Nevada", ("Nevada",)),
    "new-jersey": Jurisdiction("New Jersey", ("NJ",)),
    "new-mexico": Jurisdiction("New Mexico", ("NM",)),
    "pennsylvania": Jurisdiction("Pennsylvania", ("PA",)),
    "south-dakota": Jurisdiction("South Dakota", ("SD",)),
    "virginia": Jurisdiction("Virginia", ("VA",)),
    "west-virginia": Jurisdiction("West Virginia", ("WV",)),
    "alderney": Jurisdiction("Alderney", ("Alderney",)),
    "denmark": Jurisdiction("Denmark, and the Netherlands by reference", ("Denmark",)),
    "gibraltar": Jurisdiction("Gibraltar", ("Gibraltar",)),
    "isle-of-man": Jurisdiction("Isle of Man", ("Isle of Man",)),
    "malta": Jurisdiction("Malta", ("Malta",)),
    "nist": Jurisdiction("NIST", ("SP 800", "FIPS", "NIST")),
    "bsi": Jurisdiction("BSI, Germany", ("AIS",)),
}


def clauses_of(jurisdiction: Jurisdiction) -> dict[str, list[str]]:
    """Return a jurisdiction's clauses, by the requirement that they come to."""
    found = {one.id: [c for c in one.asked_by if c.startswith(jurisdiction.begins)] for one in REQUIREMENTS}
    return {requirement: clauses for requirement, clauses in found.items() if clauses}


def asked_for_by(clauses: Iterable[str]) -> list[dict[str, Any]]:
    """Return what a report says of the requirements in `clauses`: who asks, where, and for what."""
    wanted = set(clauses)
    return [
        {"jurisdiction": jurisdiction.name, "requirement": one.id, "clauses": found[one.id], "asks": one.asks}
        for jurisdiction in JURISDICTIONS.values()
        for found in [clauses_of(jurisdiction)]
        for one in REQUIREMENTS
        if one.id in wanted and one.id in found
    ]


def entries_of(clause: str) -> list[str]:
    """Return the ids of the battery's tests that name a requirement."""
    return [entry.id for entry in CATALOGUE.values() if clause in entry.clauses]


SHOWS: Final = re.compile(r"^Shows: (R\d\d(?:, R\d\d)*)$", re.MULTILINE)
"""The line by which the page of a folder of evidence says for which requirements it is there."""


def evidence_of(clause: str) -> list[str]:
    """Return the folders of docs/evidence whose pages say that they show a requirement."""
    pages = sorted(DOCS.glob("evidence/*/README.md"))
    shown = {page.parent.name: SHOWS.search(page.read_text(encoding="utf-8")) for page in pages}
    return [name for name, match in shown.items() if match is not None and clause in match[1].split(", ")]


def page() -> str:
    """Return the certification matrix in Markdown."""
    lines = [
        "# Certification matrix",
        "",
        "Made by `python -m stats_tests.requirements`; do not edit. Rules and statutes are named as sources; the",
        "wording is ours. Nothing here is a certificate: what only a test laboratory can do is said in each row.",
        "",
    ]
    for requirement in REQUIREMENTS:
        tests = entries_of(requirement.id)
        lines += [
            f"## {requirement.id}",
            "",
            f"{requirement.asks}. ({'; '.join(requirement.asked_by)})",
            "",
            f"- Code: {', '.join(f'[{path}](../{path})' for path in requirement.code)}",
            f"- Shown by: {', '.join(f'[{path}](../{path})' for path in requirement.tests)}",
            f"- Evidence: {requirement.evidence}",
        ]
        if folders := evidence_of(requirement.id):
            lines.append(f"- Evidence kept: {', '.join(f'[{name}](evidence/{name}/README.md)' for name in folders)}")
        if tests:
            lines.append(f"- Tests of the battery: {', '.join(f'`{test}`' for test in tests)}")
        lines += [f"- Left to a laboratory: {requirement.laboratory or 'nothing beyond its own repetition'}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
