"""A network between this machine's processes that can be cut without either end noticing.

As root, cables between network namespaces meet in a switch (a namespace with a bridge for each network), and cutting
one means taking it out of the switch: no packet arrives, no interface goes down. Elsewhere a TCP proxy stops passing
bytes; that is a milder cut, because kernels still acknowledge bytes, and the end of a process shows on the other side.
"""

import os
import socket
import subprocess
import threading
from contextlib import suppress
from typing import Self


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


def _end_here(number: int) -> str:
    return f"d{os.getpid()}n{number}"


class Cable:
    """A machine's cable into the switch; ``here`` and ``there`` are the two ends' addresses."""

    def __init__(self, switch: str, bridge: str, port: str, here: str, there: str) -> None:
        self._switch, self._bridge, self._port = switch, bridge, port
        self.here, self.there = here, there

    def cut(self) -> None:
        """Let nothing through from now on."""
        _ip("-n", self._switch, "link", "set", self._port, "nomaster")

    def mend(self) -> None:
        """Let everything through again."""
        _ip("-n", self._switch, "link", "set", self._port, "master", self._bridge)


class Machine:
    """A network namespace with a cable to this machine for each of its networks. Addresses are of RFC 2544's range."""

    def __init__(self) -> None:
        self._name = f"drill{os.getpid()}"
        self._switch = f"{self._name}switch"
        self._networks = 0

    @property
    def prefix(self) -> tuple[str, ...]:
        """What begins the command line of a process that runs there."""
        return ("ip", "netns", "exec", self._name)

    def __enter__(self) -> Self:
        for name in (self._name, self._switch):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        # The kernel takes a namespace apart when it likes; the ends on this machine are gone at once only by name.
        doomed = [("link", "del", _end_here(number)) for number in range(self._networks)]
        doomed += [("netns", "del", name) for name in (self._name, self._switch)]
        for command in doomed:
            with suppress(subprocess.CalledProcessError):
                _ip(*command)

    def connect(self) -> Cable:
        """Lay one more network between here and there, both ends plugged into the switch."""
        number = self._networks
        self._networks += 1
        network = f"198.18.{os.getpid() % 250}.{8 * number}"
        here, there = (f"{network.rpartition('.')[0]}.{8 * number + end}" for end in (1, 2))
        bridge, ports = f"net{number}", (f"here{number}", f"there{number}")
        _ip("-n", self._switch, "link", "add", bridge, "type", "bridge")
        _ip("-n", self._switch, "link", "set", bridge, "up")
        ends = (((), _end_here(number), here), (("-n", self._name), f"eth{number}", there))
        for port, (inside, device, address) in zip(ports, ends, strict=True):
            _ip(*inside, "link", "add", device, "type", "veth", "peer", "name", port, "netns", self._switch)
            _ip("-n", self._switch, "link", "set", port, "master", bridge, "up")
            _ip(*inside, "address", "add", f"{address}/29", "dev", device)
            _ip(*inside, "link", "set", device, "up")
        return Cable(self._switch, bridge, ports[1], here, there)


def has_namespaces() -> bool:
    """Whether this machine lets us lay such a network."""
    try:
        with Machine() as machine:
            machine.connect()
    except (OSError, subprocess.SubprocessError):  # no `ip`, not root, or a kernel without bridges
        return False
    return True


class Proxy:
    """Passes bytes between callers of ``port`` and ``target`` until it is cut, and again once it is mended."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Let nothing through from now on."""
        self._open.clear()

    def mend(self) -> None:
        """Let everything through again."""
        self._open.set()

    def _accept(self) -> None:
        while True:
            caller, _ = self._listening.accept()
            callee = socket.create_connection(self._target)
            for source, sink in ((caller, callee), (callee, caller)):
                threading.Thread(target=self._pass, args=[source, sink], daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while received := source.recv(65536):
                while not self._open.wait(0.2) and not _has_ended(source):
                    pass
                if not self._open.is_set():
                    break
                sink.sendall(received)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _has_ended(peer: socket.socket) -> bool:
    try:
        return peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
