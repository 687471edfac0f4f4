"""axe-core, the accessibility checker: fetched from npm for the tests, never part of the project."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Page

VERSION = "4.14.1"


def source(cache: Path) -> str:
    """Return axe's JavaScript, from ``cache`` or npm; skips the test where neither has it."""
    file = cache / f"axe-{VERSION}.min.js"
    if not file.exists():
        npm = shutil.which("npm")
        if not npm:
            pytest.skip("npm is not installed, so that axe-core cannot be fetched (Debian: npm)")
        command = [npm, "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", str(cache)]
        packed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if packed.returncode:
            pytest.skip(f"npm cannot fetch axe-core: {packed.stderr.strip()[-200:]}")
        with tarfile.open(cache / f"axe-core-{VERSION}.tgz") as archive:
            script = archive.extractfile("package/axe.min.js")
            assert script, "the package holds it"
            part = cache / f"axe-{os.getpid()}.part"
            part.write_bytes(script.read())
        part.rename(file)  # at once: other tests may be waiting for it
    return file.read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[str]:
    """Return what axe finds wrong, with the elements concerned."""
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes']][:3]}" for each in found]
