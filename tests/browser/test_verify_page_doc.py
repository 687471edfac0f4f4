"""docs/verify-page.md: its commands and its program run as they stand there, and it names what there is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.dealt import Croupier
from tests.rngsvc.conftest import RunningService

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verify-page.md").read_text(encoding="utf-8")
MODULE = (ROOT / "rngsvc" / "pages" / "rs1.js").read_text(encoding="utf-8")


def test_the_program_on_the_page_checks_a_receipt(service: RunningService, croupier: Croupier, tmp_path: Path) -> None:
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed (Debian: nodejs)")
    (program,) = re.findall(r"```js\n(.*?)```", PAGE, re.DOTALL)
    script = tmp_path / "check.mjs"
    script.write_text(program.replace("./rngsvc/", f"{ROOT.as_uri()}/rngsvc/"), encoding="utf-8")
    receipt = croupier.hand(0).receipt
    for document, code in ((receipt, 0), (receipt.replace('"salt": "', '"salt": "00', 1), 1)):
        file = tmp_path / "receipt.json"
        file.write_text(document, encoding="utf-8")
        ran = subprocess.run(
            [node, script, file, service.log_key], capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == code, ran.stderr
        assert ("checked\tcheckpoints\t" in ran.stdout) is (code == 0)


def test_a_saved_copy_is_compared_with_the_log_as_the_page_says(service: RunningService, tmp_path: Path) -> None:
    key_block, block = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    shutil.copy(ROOT / "rngsvc" / "pages" / "verify.html", tmp_path)
    script = block.replace("http://HOST:PORT", service.http).replace("LOG_KEY", f"'{service.log_key}'")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-euc", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    copy, listed, manifest, *integrity = ran.stdout.splitlines()
    assert copy.split()[0] == listed.split()[0]
    assert listed.split()[1] == "rngsvc/pages/verify.html"
    assert manifest.split()[0] in "".join(integrity)
    assert "sha256sum" in key_block


def test_the_program_on_the_page_has_ten_lines_at_most() -> None:
    (program,) = re.findall(r"```js\n(.*?)```", PAGE, re.DOTALL)
    assert len(program.splitlines()) <= 10


def test_every_exported_function_has_the_types_of_its_parameters_and_result() -> None:
    exported = re.findall(
        r"/\*\*((?:(?!\*/).)*)\*/\nexport (?:async )?(?:function |const )(\w+)(?: = )?\(([^)]*)\)", MODULE, re.DOTALL
    )
    assert {name for _, name, _ in exported} == set(
        re.findall(r"^export (?:async )?(?:function|const) (\w+)", MODULE, re.MULTILINE)
    )
    for comment, name, parameters in exported:
        expected = [each.split("=")[0].strip() for each in parameters.split(",") if each.strip()]
        assert re.findall(r"@param \{[^\n]+\} \[?(\w+)\]?", comment) == expected, name
        assert comment.count("@returns {") == 1, name


def test_the_page_names_every_export_that_programs_use() -> None:
    exported = set(re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", MODULE, re.MULTILINE))
    named = set(re.findall(r"`(\w+)`", PAGE))
    for the_page_only in (
        "toBytes",
        "toHex",
        "missingCryptography",
        "fingerprint",
        "parseDocument",
        "loadJson",
        "seal",
    ):
        exported.discard(the_page_only)
    for primitive in ("verifyEd25519", "hkdfSha512", "leafHash", "rootOf", "fisherYates", "verify"):
        exported.discard(primitive)
    assert {name for name in exported if not name.endswith("Error")} <= named
