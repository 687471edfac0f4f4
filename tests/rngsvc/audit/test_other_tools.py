"""Somebody else's tools read our log: Go's checksum-database packages `sumdb/note` and `sumdb/tlog`, from Debian.

They know signed notes, checkpoints' trees and tiles, and share no code with us. Debian packages: golang-go and
golang-golang-x-mod-dev.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rngsvc.protocol import signed_note
from rngsvc.protocol.entries import SampleEntry
from rngsvc.protocol.errors import ProofError
from rngsvc.protocol.merkle import InclusionProver, consistency_proof, root_of
from rngsvc.protocol.signed_note import NoteKey
from tests.rngsvc.audit.books import Book, evening
from tests.scale import scaled

GO_PATH = Path("/usr/share/gocode")
PACKAGE = GO_PATH / "src/golang.org/x/mod/sumdb/tlog"
SOURCE = Path(__file__).parent / "go" / "readlog.go"

pytestmark = pytest.mark.skipif(
    shutil.which("go") is None or not PACKAGE.is_dir(),
    reason="needs Debian's golang-go and golang-golang-x-mod-dev",
)

MOST_PROOFS = 2_000  # of a log; its size decides how they are spread

Tool = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """The reader, built from Debian's sources alone: nothing is fetched."""
    folder = tmp_path_factory.mktemp("go")
    program = folder / "readlog"
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOFLAGS": "",
        "GOPATH": str(GO_PATH),
        "GOCACHE": str(folder / "cache"),
        "GOPROXY": "off",
        "CGO_ENABLED": "0",
    }
    subprocess.run(["go", "build", "-o", program, SOURCE], check=True, env=environment, cwd=folder, timeout=300)

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [str(program), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.fixture(scope="module")
def book() -> Book:
    return asyncio.run(evening())


def samples(book: Book, count: int) -> Book:
    made = [SampleEntry(time=i, id=b"%d" % i, kind="bits", count=1).encode() for i in range(count)]
    return Book(book.key, book.signer, made)


def our_proofs(book: Book) -> dict[str, Any]:
    leaves = book.leaves
    size = len(leaves)
    known: dict[tuple[int, int], bytes] = {}

    def node(level: int, i: int) -> bytes:
        if (level, i) not in known:
            known[level, i] = root_of(leaves[i << level : (i + 1) << level])
        return known[level, i]

    prover = InclusionProver(size, node)
    older = sorted({1, 2, 3, size // 2, size - 1, size, *(1 << k for k in range(17))} & set(range(1, size + 1)))
    return {
        "Inclusion": {
            str(index): [each.hex() for each in prover.proof(index)]
            for index in range(0, size, 1 + size // MOST_PROOFS)
        },
        "Older": {str(old): root_of(leaves[:old]).hex() for old in older},
        "Grown": {str(old): [each.hex() for each in consistency_proof(old, size, node)] for old in older},
    }


def read(tool: Tool, book: Book, folder: Path) -> "subprocess.CompletedProcess[str]":
    book.write(folder)
    proofs = folder / "proofs.json"
    proofs.write_text(json.dumps(our_proofs(book)))
    return tool(folder, book.key.vkey, proofs)


def test_go_reads_what_the_service_logged(tool: Tool, book: Book, tmp_path: Path) -> None:
    ran = read(tool, book, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    size = len(book.entries_raw)
    assert (found["origin"], found["key"], found["size"]) == (book.key.name, book.key.name, size)
    assert found["root"] == root_of(book.leaves).hex()
    assert found["inclusion"] == size


@pytest.mark.parametrize("size", [1, 2, 3, 255, 256, 257, 513, scaled(700, 66_000)])
def test_go_reads_a_log_of_any_size(tool: Tool, book: Book, tmp_path: Path, size: int) -> None:
    ran = read(tool, samples(book, size), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["inclusion"] >= min(size, MOST_PROOFS // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


DAMAGES = [
    ("checkpoint", "checkpoint"),
    ("tile/0/001", "tile"),
    ("tile/0/002.p/1", "tile"),
    ("tile/1/000.p/2", "tile"),
    ("tile/entries/001", "entry 511"),
    ("proofs.json", "hash|invalid|our proof|unexpected"),
]


@pytest.mark.parametrize(("path", "said"), DAMAGES)
def test_go_refuses_what_was_damaged(tool: Tool, book: Book, tmp_path: Path, path: str, said: str) -> None:
    """That it says yes to everything else would mean nothing if it could not say no."""
    log = samples(book, 513)
    assert read(tool, log, tmp_path).returncode == 0
    flip(tmp_path / path)
    ran = tool(tmp_path, log.key.vkey, tmp_path / "proofs.json")
    assert ran.returncode == 1, ran.stdout
    assert re.search(said, ran.stderr), ran.stderr


@pytest.mark.parametrize("kind", ["Inclusion", "Grown", "Older"])
def test_go_refuses_proofs_of_another_log(tool: Tool, book: Book, tmp_path: Path, kind: str) -> None:
    log = samples(book, 300)
    read(tool, log, tmp_path)
    other = our_proofs(Book(log.key, log.signer, log.entries_raw[::-1]))
    (tmp_path / "proofs.json").write_text(json.dumps({**our_proofs(log), kind: other[kind]}))
    ran = tool(tmp_path, log.key.vkey, tmp_path / "proofs.json")
    assert ran.returncode == 1
    assert "our " in ran.stderr


def test_go_refuses_another_key(tool: Tool, book: Book, tmp_path: Path) -> None:
    read(tool, book, tmp_path)
    ran = tool(tmp_path, NoteKey(book.key.name, bytes(32)).vkey, tmp_path / "proofs.json")
    assert ran.returncode == 1
    assert "checkpoint" in ran.stderr


@pytest.mark.parametrize("text", ["a\n", "origin.example/log\n7\nAAAA\n", "ä – Ω\n\nblank line above\n"])
def test_we_read_what_go_signed(tool: Tool, text: str) -> None:
    ran = tool("sign", text)
    assert ran.returncode == 0, ran.stderr
    signed = json.loads(ran.stdout)
    key = NoteKey.from_vkey(signed["vkey"])
    assert key.vkey == signed["vkey"]
    assert signed_note.verify(signed["note"], [key]) == text
    changed = signed["note"].replace(text[0], "b", 1)
    with pytest.raises(ProofError):
        signed_note.verify(changed, [key])
