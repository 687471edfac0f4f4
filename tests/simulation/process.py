"""A real `rngsvc serve` in a folder of its own, which can be killed and started again on the same store."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from rngsvc.keys.making import make_key_encryption_key, make_signing_key
from rngsvc.protocol.signed_note import NoteKey

ORIGIN = "cardroom.example/killed"


@dataclass
class ServerProcess:
    """Keys and store live in ``folder``; ``flags`` are added to the command line.

    ``prefix`` stands before the command (``ip netns exec NAME``), ``program`` is what Python is told to run.
    """

    folder: Path
    flags: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    program: tuple[str, ...] = ("-m", "rngsvc")
    ready: dict[str, Any] = field(default_factory=dict)
    process: "subprocess.Popen[str] | None" = None

    def __post_init__(self) -> None:
        if not (self.folder / "log.key").exists():
            make_signing_key(self.folder / "log.key", ORIGIN)
            make_key_encryption_key(self.folder / "seeds.key")

    @property
    def store(self) -> Path:
        return self.folder / "log.sqlite3"

    @property
    def log_text(self) -> str:
        """Everything that the process has written on stderr so far."""
        return (self.folder / "stderr").read_text()

    @property
    def note_key(self) -> NoteKey:
        return NoteKey.from_vkey(self.ready["log_key"])

    def command(self) -> list[str]:
        settings = {
            "origin": ORIGIN,
            "signing-key": f"file:{self.folder / 'log.key'}",
            "key-encryption-key": f"file:{self.folder / 'seeds.key'}",
            "store": f"sqlite:{self.store}",
            "listen": "127.0.0.1:0",
            "http-public": "127.0.0.1:0",
            "http-operator": "127.0.0.1:0",
        }
        for flag in self.flags:
            settings.pop(flag.removeprefix("--").partition("=")[0], None)
        serve = [*self.prefix, sys.executable, *self.program, "serve"]
        return [*serve, *(f"--{k}={v}" for k, v in settings.items()), *self.flags]

    def start(self) -> Self:
        """Start it and wait until it is ready; AssertionError with its log if it is not."""
        return self.launch().wait_until_ready()

    def launch(self) -> Self:
        """Start it and do not wait: a standby is ready only when it has taken over."""
        with (self.folder / "stderr").open("a") as log:
            self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, text=True)
        return self

    def wait_until_ready(self) -> Self:
        """Wait until it serves; AssertionError with its log if it ends before."""
        assert self.process
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.log_text[-3000:]
        self.ready = json.loads(line)
        return self

    def kill(self) -> None:
        """End it as a power switch would."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """End it as an operator would; return its exit code."""
        return self._end(signal.SIGTERM)

    def ended(self, within_s: float | None = None) -> int:
        """Wait until it ends by itself; return its exit code. subprocess.TimeoutExpired if it does not in time."""
        assert self.process
        assert self.process.stdout
        code = self.process.wait(within_s)
        self.process.stdout.close()
        return code

    def _end(self, how: signal.Signals) -> int:
        assert self.process
        assert self.process.stdout
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process and self.process.poll() is None:
            self.kill()
