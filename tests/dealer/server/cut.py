"""A wire to PostgreSQL that is cut in a commit: before the server has it, or before its answer is back."""

import contextlib
import socket
import threading
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from dealer.store.location import Location

COMMIT: Final = b"COMMIT\x00"


class Wire:
    """Listens in ``folder`` and forwards to the server of ``store``. ``location`` is the store through it."""

    def __init__(self, folder: Path, store: str) -> None:
        where = Location.parse(store)
        self._server = f"{parse_qs(urlsplit(where.uri).query)['host'][0]}/.s.PGSQL.5432"
        self.location = Location.parse(f"postgresql://rngsvc@/postgres?host={folder}&schema={where.schema}")
        self._cut_at = ""
        self._is_commit_seen = False
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{folder}/.s.PGSQL.5432")
        self._listening.listen()
        self._ends = [self._listening]
        self._threads: list[threading.Thread] = []
        self._start(self._serve)

    def cut(self, when: str) -> None:
        """Cut the wire at the next commit: `before` the server sees it, `after` it has answered; or `silently`, now."""
        self._cut_at = when

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._ends += [client, server]
                self._start(self._forward, client, server, True)
                self._start(self._forward, server, client, False)

    def _forward(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65_536):
                if to_server and self._cut_at and COMMIT in chunk:
                    self._is_commit_seen = True
                    if self._cut_at == "before":
                        self._cut_at, self._is_commit_seen = "", False
                        break
                elif self._is_commit_seen and self._cut_at == "after":
                    self._cut_at, self._is_commit_seen = "", False
                    break  # the server has said that it is done
                if self._cut_at != "silently":
                    sink.sendall(chunk)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End everything."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()
