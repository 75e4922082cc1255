"""A PostgreSQL server for the campaign, on a socket in its own folder, that can be restarted or killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

DEBIAN_BINARIES = "/usr/lib/postgresql/15/bin"
NAMES = ("initdb", "pg_ctl", "createdb", "psql", "setpriv")


def programs() -> dict[str, str]:
    """Return the server's programs by name; empty where one is missing."""
    search = os.pathsep.join([os.environ["PATH"], DEBIAN_BINARIES])
    paths = {name: shutil.which(name, path=search) for name in NAMES}
    return {name: path for name, path in paths.items() if path} if all(paths.values()) else {}


class Server:
    """The server; databases are made by name."""

    def __init__(self) -> None:
        self.programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="gpufleet-faults-pg-"))
        self.user: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            self.user = [self.programs["setpriv"], "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            shutil.chown(self.folder, "nobody", "nogroup")
        self.data = self.folder / "data"
        self._call("initdb", "-D", self.data, "-U", "test", "-A", "trust", "--no-sync")
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder}"
        self._call("pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self, mode: str) -> None:
        """Stop it: ``fast`` ends sessions in order, ``immediate`` is a crash."""
        self._call("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def database(self, name: str, template: str = "template0") -> str:
        """Make a database; return its URL."""
        self._call("createdb", "-h", self.folder, "-U", "test", "-T", template, name)
        return f"postgresql+psycopg://test@/{name}?host={self.folder}"

    def require_password(self, password: str) -> None:
        """Create a database ``registry`` and require this password from now on."""
        self._call("createdb", "-h", self.folder, "-U", "test", "registry")
        quoted = password.replace("'", "''")
        statement = f"ALTER USER test PASSWORD '{quoted}'"
        self._call("psql", "-h", self.folder, "-U", "test", "registry", text=statement)
        (self.data / "pg_hba.conf").write_text("local all all scram-sha-256\n")
        self._call("pg_ctl", "-D", self.data, "reload")

    def close(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, program: str, *arguments: object, text: str = "") -> None:
        subprocess.run(
            [*self.user, self.programs[program], *map(str, arguments)],
            check=True, cwd=self.folder, timeout=120, input=text.encode(), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
