"""The head guard's file: whatever happens to one write, the checkpoint before it is still remembered."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from rngsvc.commands.exit_codes import ExitCode
from rngsvc.head_guard import FileGuard
from rngsvc.keys.signing import SigningKey
from rngsvc.protocol.checkpoint import Checkpoint
from rngsvc.protocol.signed_note import NoteKey
from tests.rngsvc.service.world import World
from tests.simulation.process import ServerProcess

WORLD = World()


def note(size: int) -> bytes:
    """A signed checkpoint over so many entries."""
    key: SigningKey = WORLD.signing_key
    return (
        Checkpoint("x.example/log", size, bytes([size % 256]) * 32)
        .sign(NoteKey("x.example/log", key.public_key), key.sign)
        .encode()
    )


def test_the_newest_checkpoint_is_remembered_over_restarts(tmp_path: Path) -> None:
    path = tmp_path / "guard"
    assert FileGuard(path).remembered() == []
    for size in range(1, 30):
        guard = FileGuard(path)
        guard.advance(note(size))
        guard.close()
        guard = FileGuard(path)
        assert note(size) in guard.remembered()
        guard.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("writes_before", [1, 2, 3, 4])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_write_that_is_torn_anywhere_leaves_the_one_before(
    tmp_path: Path, writes_before: int, restarted: bool
) -> None:
    path = tmp_path / "guard"
    guard = FileGuard(path)
    for size in range(1, writes_before + 1):
        guard.advance(note(size))
    before = path.read_bytes()
    if restarted:
        guard.close()
        guard = FileGuard(path)
    guard.advance(note(writes_before + 1))
    guard.close()
    after = path.read_bytes().ljust(2048, b"\0")
    before = before.ljust(2048, b"\0")
    changed = [i for i in range(2048) if before[i] != after[i]]
    for cut in range(changed[0], changed[-1] + 2):
        path.write_bytes(after[:cut] + before[cut:])
        torn = FileGuard(path)
        assert note(writes_before) in torn.remembered(), cut
        torn.close()


def test_a_write_that_the_disk_takes_only_in_part_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = FileGuard(tmp_path / "guard")
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: whole(fd, data[:100], at))
    with pytest.raises(OSError, match="No space left"):
        guard.advance(note(1))
    guard.close()


def test_a_guard_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, (f"--head-guard={tmp_path / 'missing' / 'guard'}",))
    refused = subprocess.run(server.command(), capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == ExitCode.CONFIGURATION
    assert "head_guard" in refused.stderr
    assert "Traceback" not in refused.stderr
