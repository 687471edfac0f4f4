"""The command line: what it prints, what it writes, what it exits with."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from rngsvc.protocol.signed_note import NoteKey
from stats_tests import evidence
from stats_tests.__main__ import COMMANDS, EXTRA, cli
from stats_tests.battery import CATALOGUE
from stats_tests.bits.known_answers import expansion, vectors
from stats_tests.catalogue import Mode
from stats_tests.manifest import code_hash

GOOD = ("run", "--source", "generator:good", "--workers", "1")


def stats_tests(*arguments: str, code: int = 0, input_: bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], input=input_)
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    path = tmp_path_factory.mktemp("keys") / "auditor.pem"
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return path, NoteKey("auditor", public).vkey


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, key: tuple[Path, str]) -> Path:
    path = tmp_path_factory.mktemp("reports") / "report.json"
    stats_tests(*GOOD, "--count", "12000", "--report", path, "--key", key[0], "--time", "2026-11-29T12:00:00Z")
    return path


def test_every_command_says_what_it_does() -> None:
    for command in COMMANDS:
        assert stats_tests(command, "--help").stdout.startswith("Usage: ")


def test_shells_can_complete() -> None:
    assert "_STATS_TESTS_COMPLETE" in stats_tests("completion", "bash").stdout


def test_list_names_every_test() -> None:
    listed = json.loads(stats_tests("list", "--json").stdout)
    assert [test["id"] for test in listed] == list(CATALOGUE)
    assert "shuffles.cycles" in stats_tests("list", "--kind", "shuffles").stdout


def test_list_names_the_tests_that_a_jurisdiction_or_a_clause_asks_for() -> None:
    pennsylvania = json.loads(stats_tests("list", "--jurisdiction", "pennsylvania", "--json").stdout)
    asked = {clause for test in pennsylvania for clause in test["asked_by"]}
    assert asked == {"PA 58 Pa. Code 810a.5(a)", "PA 58 Pa. Code 810a.5(c)"}
    assert {"numbers.poker", "shuffles.hands-of-5"} <= {test["id"] for test in pennsylvania}
    of_clause = json.loads(stats_tests("list", "--clause", "r24", "--json").stdout)
    assert len(of_clause) == 11
    assert all(test["asked_by"] == ["AIS 20/31"] for test in of_clause)
    assert "25 CFR 547.14(b)" in stats_tests("list", "--clause", "R04").stdout
    assert "docs/certification.md says" in stats_tests("list", "--clause", "R15").stdout


def test_plan_says_what_a_bias_needs() -> None:
    plan = json.loads(stats_tests("plan", "--detect", "0.1%", "--alpha", "1e-6", "--json").stdout)
    # 0.33 % at 10^6 decks: 0.1 % needs about (0.33 / 0.1)^2 times as many.
    assert plan["power"]["items"] == pytest.approx(1.087e7, rel=0.01)
    assert "chance 99%" in stats_tests("plan", "--battery", "certification").stdout


@pytest.mark.parametrize("constant", ["pi", "e"])
def test_published_p_values_come_out_of_a_file(tmp_path: Path, constant: str) -> None:
    path = tmp_path / "data"
    path.write_text("".join(map(str, expansion(constant).bits.tolist())), encoding="ascii")
    arguments = ("run", "--source", f"file:{path}", "--format", "ascii-bits", "--battery", "sp800-22")
    printed = json.loads(stats_tests(*arguments, "--mode", "nist-compat", "--json").stdout)
    seen = {row["test"]: row["p"] for row in printed["results"] if "p" in row}
    published = vectors(Mode.NIST_COMPAT)["constants"][constant]["p_values"]
    assert len(published) > 20
    assert {test: seen[test] for test in published} == pytest.approx(published, abs=0.51e-6)
    assert {"test", "statistic", "p", "adjusted_p"} <= set(printed["results"][0])
    assert printed["verdict"] == "pass"


def test_the_plan_is_printed_before_the_data_are_read(tmp_path: Path) -> None:
    path = tmp_path / "decks"
    path.write_bytes(b"no decks at all")
    result = stats_tests("run", "--source", f"file:{path}", "--format", "decks-u8", "--n", "5", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith('plan: {"battery": "smoke"')
    assert "byte offset 0: card 1 of deck 1 is 110; 5 cards" in result.stderr


def decks_of(name: str, path: Path, count: int) -> None:
    stats_tests("collect", "--source", f"generator:{name}", "--format", "decks-text", "--count", str(count), "-o", path)


VERDICTS = [
    # generator, decks, exit code, verdict
    ("good", 10_000, 0, "pass"),
    ("sattolo", 10_000, 1, "fail"),
    ("good", 9_999, 3, "undecided"),
    ("sattolo", 9_999, 3, "undecided"),
]


@pytest.mark.parametrize(("name", "count", "code", "verdict"), VERDICTS)
def test_a_file_of_decks_is_judged(tmp_path: Path, name: str, count: int, code: int, verdict: str) -> None:
    path = tmp_path / "decks"
    decks_of(name, path, count)
    arguments = ("run", "--source", f"file:{path}", "--format", "decks-text", "--json")
    printed = json.loads(stats_tests(*arguments, code=code).stdout)
    assert printed["verdict"] == verdict


@pytest.mark.parametrize(
    ("mode", "sequences", "code"),
    # NIST's second level cannot tell two sequences that fail from chance: undecided, never a pass.
    [("corrected", 1, 1), ("corrected", 2, 1), ("nist-compat", 1, 1), ("nist-compat", 2, 3), ("nist-compat", 3, 1)],
)
def test_zeros_never_pass(tmp_path: Path, mode: str, sequences: int, code: int) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(bytes(125_000 * sequences))
    arguments = ("--format", "raw", "--battery", "sp800-22", "--mode", mode)
    stats_tests("run", "--source", f"file:{path}", *arguments, code=code)


def test_standard_input_is_judged_as_a_file_is(tmp_path: Path) -> None:
    path = tmp_path / "decks"
    decks_of("good", path, 10_000)
    from_file = stats_tests("run", "--source", f"file:{path}", "--format", "decks-text", "--json").stdout
    from_stdin = stats_tests(
        "run", "--source", "stdin", "--format", "decks-text", "--json", input_=path.read_bytes()
    ).stdout
    assert from_file == from_stdin


@pytest.mark.parametrize(
    ("content", "format_"), [(b"", "decks-u8"), (b"", "decks-text"), (b"", "raw"), (b"", "ascii-bits")]
)
def test_an_empty_file_is_too_little_data(tmp_path: Path, content: bytes, format_: str) -> None:
    path = tmp_path / "empty"
    path.write_bytes(content)
    result = stats_tests("run", "--source", f"file:{path}", "--format", format_, code=3)
    assert "verdict: undecided" in result.stdout


def test_a_doubtful_generator_is_drawn_again_and_a_doubtful_file_fails(tmp_path: Path) -> None:
    # By chance (about one seed in a hundred) the good generator's seed 72 is doubtful at 10,000 decks.
    arguments = ("--seed", "72", "--count", "10000")
    printed = json.loads(stats_tests(*GOOD, *arguments, "--report", tmp_path / "report", "--json").stdout)
    assert [(one["items"], one["verdict"]) for one in printed["campaigns"]] == [(10_000, "doubtful"), (40_000, "pass")]
    assert printed["verdict"] == "pass"
    assert set(verified(tmp_path / "report", code=0).values()) == {True, None}

    path = tmp_path / "decks"
    stats_tests("collect", "--source", "generator:good", *arguments, "--format", "decks-u8", "-o", path)
    judged = stats_tests("run", "--source", f"file:{path}", "--format", "decks-u8", "--json", code=1)
    assert json.loads(judged.stdout)["verdict"] == "fail"


def test_shards_by_the_command_line_give_the_state_and_results_of_one_run(tmp_path: Path) -> None:
    stats_tests(*GOOD, "--count", "12000", "--state", tmp_path / "whole")
    shards = []
    for start, count in ((0, 5000), (5000, 1), (5001, 6999)):
        shards.append(tmp_path / f"shard-{start}")
        stats_tests(*GOOD, "--start", start, "--count", count, "--state", shards[-1], code=3)
    merged = stats_tests("merge", *reversed(shards), "--state", tmp_path / "merged", "--json")
    assert (tmp_path / "merged").read_bytes() == (tmp_path / "whole").read_bytes()
    assert json.loads(merged.stdout)["verdict"] == "pass"
    stats_tests("merge", shards[0], shards[2], code=2)


def test_the_same_run_gives_the_same_report(report: Path, key: tuple[Path, str], tmp_path: Path) -> None:
    again = tmp_path / "report.json"
    arguments = ("--count", "12000", "--report", again, "--key", key[0], "--time", "2026-11-29T12:00:00Z")
    stats_tests("run", "--source", "generator:good", "--workers", "2", *arguments)
    assert again.read_bytes() == report.read_bytes()
    assert Path(f"{again}.note").read_bytes() == Path(f"{report}.note").read_bytes()


def verified(report: Path, *arguments: str, code: int) -> dict[str, object]:
    printed = json.loads(stats_tests("verify", report, "--json", *arguments, code=code).stdout)
    return {step["what"].split(":")[0]: step["holds"] for step in printed["steps"]}


def test_a_report_is_verified_to_the_data(report: Path, key: tuple[Path, str]) -> None:
    steps = verified(report, "--public-key", key[1], code=0)
    assert set(steps.values()) == {True}
    assert len(steps) == 6


def test_a_signature_by_another_key_is_refused(report: Path) -> None:
    other = NoteKey("auditor", bytes(Ed25519PrivateKey.generate().public_key().public_bytes_raw())).vkey
    assert verified(report, "--public-key", other, code=1)["the report is signed by auditor"] is False


def rewritten(report: Path, folder: Path, change: object) -> Path:
    from stats_tests.report.document import encode

    document = json.loads(report.read_bytes())
    change(document)
    path = folder / "changed.json"
    path.write_bytes(encode(document))
    return path


def _other_verdict(document: dict) -> None:
    document["verdict"] = "fail"


def _other_p(document: dict) -> None:
    document["campaigns"][0]["results"][3]["p"] += 1e-9


def _other_count(document: dict) -> None:
    counts = document["campaigns"][0]["counts"]["tests"]["shuffles.cycles"]["counts"]
    counts[4], counts[5] = counts[5], counts[4]


def _missing_result(document: dict) -> None:
    document["campaigns"][0]["results"].pop()


def _other_clause(document: dict) -> None:
    document["asked_for_by"][0]["clauses"] = ["GLI-19 9.9.9"]


def _other_plan(document: dict) -> None:
    document["plan"]["tests"].pop()


def _other_root(document: dict) -> None:
    document["campaigns"][0]["sample"]["merkle_root"] = "00" * 32


@pytest.mark.parametrize(
    "change", [_other_verdict, _other_p, _other_count, _missing_result, _other_plan, _other_root, _other_clause]
)
def test_a_changed_report_does_not_verify(report: Path, tmp_path: Path, change: object) -> None:
    steps = verified(rewritten(report, tmp_path, change), code=1)
    assert False in steps.values()


def test_a_report_that_is_not_canonical_does_not_verify(report: Path, tmp_path: Path) -> None:
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(json.loads(report.read_bytes()), indent=1))
    assert verified(path, code=1) == {"the report is a canonical document": False}


def test_html_and_pdf_are_the_same_each_time_and_fetch_nothing(report: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        stats_tests("report", report, "--html", tmp_path / f"{name}.html", "--pdf", tmp_path / f"{name}.pdf")
    page = (tmp_path / "one.html").read_text()
    assert page == (tmp_path / "two.html").read_text()
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "two.pdf").read_bytes()
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF-")
    assert page.count("<svg") == 4
    assert "<td>Ontario, AGCO</td><td>Ontario AGCO 5.1.2, 19.3, 21.1.2</td><td>R06</td>" in page
    for fetched in ("<script", "src=", "@import", 'href="http'):
        assert fetched not in page
    assert "signed by auditor" in page


def test_a_report_without_a_key_says_unsigned(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert "(UNSIGNED)" in stats_tests(*GOOD, "--count", "10000", "--report", path).stdout
    stats_tests("report", path, "--html", tmp_path / "page.html")
    assert "UNSIGNED" in (tmp_path / "page.html").read_text()


def test_the_ledger_keeps_every_attempt(tmp_path: Path) -> None:
    ledger, report = tmp_path / "ledger", tmp_path / "report.json"
    broken = tmp_path / "broken"
    broken.write_bytes(b"123456")
    stats_tests("run", "--source", f"file:{broken}", "--format", "decks-u8", "--n", "6", "--ledger", ledger, code=2)
    stats_tests(*GOOD, "--count", "10000", "--ledger", ledger, "--report", report)
    events = [line["event"] for line in json.loads(report.read_bytes())["ledger"]]
    assert events == ["begin", "begin", "end"]
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[1:]))
    stats_tests(*GOOD, "--count", "10000", "--ledger", ledger, code=2)


def evidence_file(path: Path, **changes: object) -> Path:
    content = {"schema": evidence.SCHEMA, "code": code_hash(), "passed": True, "full": True, "time": "", **changes}
    path.write_bytes(evidence.encode(content))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"code": "00"}, "of other code"), ({"passed": False}, "failed"), ({"schema": "x"}, "not a self-test")],
)
def test_evidence_of_other_code_or_a_failure_is_refused(tmp_path: Path, changes: dict, message: str) -> None:
    path = evidence_file(tmp_path / "evidence", **changes)
    assert message in stats_tests(*GOOD, "--count", "10", "--evidence", path, code=2).stderr


def test_certification_needs_evidence_of_this_code(tmp_path: Path) -> None:
    arguments = (*GOOD, "--battery", "certification", "--count", "1000")
    assert "full self-test" in stats_tests(*arguments, code=2).stderr
    quick = evidence_file(tmp_path / "quick", full=False)
    assert "full self-test" in stats_tests(*arguments, "--evidence", quick, code=2).stderr
    stats_tests(*arguments, "--evidence", evidence_file(tmp_path / "full"), code=3)


USAGE = [
    (("--source", "file:x"), "needs --format"),
    (("--source", "file:x", "--format", "raw"), "there is no such file"),
    (("--source", "file:x", "--format", "raw", "--kind", "numbers"), "holds bits, not numbers"),
    (("--source", "file:x", "--format", "numbers"), "needs --range"),
    (("--source", "elsewhere:x"), "must be file:PATH"),
    (("--source", "x.bits", "--format", "ascii-bits"), "must be file:PATH"),
    (("--source", "generator:none"), "no generator 'none'"),
    (("--source", "generator:sattolo", "--kind", "bits"), "makes shuffles, not bits"),
    (("--source", "generator:byte-modulo", "--n", "300"), "decks of up to 256 cards"),
    (("--source", "generator:good", "--n", "52", "--range", "10"), "do not go together"),
    (("--source", "generator:good", "--battery", "sp800-22", "--kind", "numbers"), "takes bits, not numbers"),
    (("--source", "generator:good", "--mode", "nist-compat"), "for comparison only"),
    (("--source", "rngsvc:127.0.0.1:1"), "needs --log-key"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_wrong_usage_is_told(arguments: tuple[str, ...], message: str) -> None:
    assert message in stats_tests("run", *arguments, code=2).stderr


def test_collected_bits_are_read_back_in_every_format(tmp_path: Path) -> None:
    first = tmp_path / "raw"
    stats_tests("collect", "--source", "generator:good", "--format", "raw", "--count", "4000", "-o", first)
    for format_ in ("ascii-bits", "dieharder"):
        path, back = tmp_path / format_, tmp_path / f"{format_}-back"
        arguments = ("--source", f"file:{first}", "--from-format", "raw")
        stats_tests("collect", *arguments, "--format", format_, "-o", path)
        stats_tests("collect", "--source", f"file:{path}", "--from-format", format_, "--format", "raw", "-o", back,
                    "--count", "4000")  # fmt: skip
        assert back.read_bytes() == first.read_bytes()


def test_a_collection_names_the_modules_that_decide_fairness(tmp_path: Path) -> None:
    arguments = ("collect", "--source", "generator:good", "--format", "decks-u8", "--count", "10", "--json")
    facts = json.loads(stats_tests(*arguments, "-o", tmp_path / "decks").stdout)
    printed = stats_tests(*arguments[:-1], "-o", tmp_path / "decks").stdout.splitlines()
    assert printed[1] == "# SHA-256 of the modules that decide fairness:"
    assert len(printed) == 2 + len(facts["fairness_relevant_modules"])
    assert facts["items"] == 10
    assert {"rngsvc/drbg.py", "rngsvc/protocol/derivation.py"} <= set(facts["fairness_relevant_modules"])


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "stats_tests", "list", "--json"], capture_output=True, check=True)
    assert len(json.loads(done.stdout)) == len(CATALOGUE)


WITHOUT = [
    # what is not installed, the command
    (EXTRA, ("list",)),
    (EXTRA, ("vkey", "--help")),
    (EXTRA, ("report", "--help")),
    (("rfc8785",), ("run", "--source", "generator:good")),
    (("matplotlib",), ("report", "REPORT", "--html", "page.html")),
]


@pytest.mark.parametrize(("modules", "arguments"), WITHOUT)
def test_without_the_extra_it_says_what_to_install(
    report: Path, tmp_path: Path, modules: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    gone = f"import sys; sys.path.insert(0, {str(Path.cwd())!r}); sys.modules.update(dict.fromkeys({modules!r}))"
    program = f"{gone}; from stats_tests.__main__ import main; main()"
    given = [str(report) if argument == "REPORT" else argument for argument in arguments]
    done = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, check=False, text=True, cwd=tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'sealed-shoe[stats]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_module_of_the_extra_is_known_as_such() -> None:
    """Whatever the package imports comes with the base or `cluster`, or is in the extra `stats` and in EXTRA."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[^A-Za-z0-9.-]", requirement, maxsplit=1)[0].lower() for requirement in requirements}

    imported = set()
    for path in Path("stats_tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    distributions = packages_distributions()
    others = imported - sys.stdlib_module_names - {"stats_tests", "rngsvc"}
    provided = {module: {name.lower() for name in distributions[module]} for module in others}
    extras = project["optional-dependencies"]
    elsewhere = names(project["dependencies"]) | names(extras["cluster"]) | {"dask"}
    of_the_extra = {module for module, by in provided.items() if not by & elsewhere}
    assert all(provided[module] & names(extras["stats"]) for module in of_the_extra)
    assert of_the_extra == set(EXTRA)
