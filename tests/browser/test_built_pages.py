"""The pages that are sent are the ones that their sources give."""

import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "rngsvc" / "pages"


def test_the_built_pages_are_current() -> None:
    command = [sys.executable, ROOT / "deploy" / "build_pages.py", "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "stale: nothing\n")


@pytest.mark.parametrize("name", ["verify", "status"])
def test_a_page_names_the_hash_of_all_that_it_runs_and_loads_nothing(name: str) -> None:
    page = (PAGES / f"{name}.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", page, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert " src=" not in page.split("<script")[0]
    assert not re.search(r"^(import|export) ", page, re.MULTILINE)
    assert "innerHTML" not in page


def test_the_module_imports_nothing() -> None:
    module = (PAGES / "rs1.js").read_text(encoding="utf-8")
    assert not re.search(r"^import |\bimport\(|\brequire\(", module, re.MULTILINE)
