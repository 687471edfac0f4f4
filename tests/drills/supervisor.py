"""What systemd or Kubernetes does for the nodes of a log: starts each again when it has ended."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from rngsvc.commands.exit_codes import ExitCode
from tests.drills.account import Failed
from tests.simulation.process import ServerProcess

PAUSE_S = 0.5


class Supervisor:
    """Keeps ``nodes`` running while the context lasts. ``exit_codes`` are those of nodes that ended by themselves."""

    def __init__(self, nodes: Sequence[ServerProcess]) -> None:
        self.nodes = nodes
        self.exit_codes: list[int] = []
        self._active: ServerProcess | None = None
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._keep, args=[node], daemon=True) for node in nodes]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for node in self.nodes:
            if node.process:
                node.process.kill()
        for thread in self._threads:
            thread.join(30)

    def wait_for_active(self, within_s: float = 60) -> ServerProcess:
        """Return the node that serves now."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if (node := self._active) and node.process and node.process.poll() is None:
                return node
            time.sleep(0.05)
        raise Failed(f"no node serves within {within_s:g} s")

    def _keep(self, node: ServerProcess) -> None:
        while not self._stop.is_set():
            node.launch()
            with suppress(AssertionError):  # it ends without having served: its exit code says why
                node.wait_until_ready()
                self._active = node
            code = node.ended()
            if self._stop.is_set():
                return
            self.exit_codes.append(code)
            if code == ExitCode.CONFIGURATION:
                return  # as RestartPreventExitStatus=78 does
            self._stop.wait(PAUSE_S)
