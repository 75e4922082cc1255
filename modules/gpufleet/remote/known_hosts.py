"""Whether a host's key is the one that the known-hosts files name, by OpenSSH's own reading of these files.

``ssh-keygen -F`` finds a host's lines with the code that ssh uses: hashed names, patterns, negations, ports and
markers. What the lines mean for a key follows ``hostfile.c`` and ``sshconnect.c`` of OpenSSH.
"""

from __future__ import annotations

import binascii
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault

SSH_PORT = 22
REVOKED, AUTHORITY = "@revoked", "@cert-authority"
SECONDS = 30

HostKeyProblem = Literal["unknown_host_key", "changed_host_key", "revoked_host_key"]


class HostKeyRefusedError(Exception):
    """A host's key is not accepted: ``reason`` says why, the message names the line that decided."""

    def __init__(self, reason: HostKeyProblem, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class KnownHostLine:
    """A line for one host: its marker (empty without one), the key's type and blob, and ``file:line``."""

    marker: str
    key_type: str
    blob: bytes
    place: str


class KnownHosts:
    """The known-hosts files that this user can read; EnvironmentFault where there is none, or no ssh-keygen."""

    def __init__(self, files: Iterable[Path]) -> None:
        named = list(files)
        self.files = [file for file in named if file.is_file() and os.access(file, os.R_OK)]
        if not self.files:
            places = ", ".join(map(make_printable, named))
            hint = "host keys are always checked: it must be a file that this user can read"
            raise EnvironmentFault(f"no known hosts file at {places}", hint=hint)
        program = shutil.which("ssh-keygen")
        if program is None:
            raise EnvironmentFault("ssh-keygen not found", hint="install OpenSSH's client")
        self._program = program

    def find_lines(self, host: str, port: int = SSH_PORT) -> list[KnownHostLine]:
        """Return the well-formed lines that mean a host at a port, in the order of the files."""
        name = host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"
        return [line for file in self.files for line in self._search(file, name)]

    def check_key(self, host: str, port: int, blob: bytes, lines: Sequence[KnownHostLine]) -> None:
        """Raise HostKeyRefusedError unless ``lines`` (of ``find_lines``) accept the key for the host."""
        for line in lines:
            if line.marker == REVOKED and line.blob == blob:
                raise HostKeyRefusedError("revoked_host_key", f"{line.place} revokes the key that it has")
        own = [line for line in lines if not line.marker]
        if any(line.blob == blob for line in own):
            return
        if own:
            raise HostKeyRefusedError("changed_host_key", f"it has another key than {own[0].place} names")
        if port != SSH_PORT:  # a line without a port means the host at every port that no other line names
            portless = [*self.find_lines(host), *(line for line in lines if line.marker == AUTHORITY)]
            self.check_key(host, SSH_PORT, blob, portless)
            return
        authority = next((line.place for line in lines if line.marker == AUTHORITY), None)
        if authority:
            detail = f"{authority} names a certificate authority, and a probe checks no certificates: add its own key"
            raise HostKeyRefusedError("unknown_host_key", detail)
        places = ", ".join(map(make_printable, self.files))
        raise HostKeyRefusedError("unknown_host_key", f"its key was not found in {places}")

    def _search(self, file: Path, name: str) -> Iterator[KnownHostLine]:
        """Yield the lines of a file; a file that became unreadable has none, as for ssh."""
        command = [self._program, "-F", name, "-f", str(file)]
        found = subprocess.run(
            command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=SECONDS
        )
        number = ""
        for text in found.stdout.decode("utf-8", "replace").splitlines():
            if text.startswith("# Host "):
                number = text.partition(" found: line ")[2].split()[0]
            elif line := _parse_line(text, f"{make_printable(file)}:{number}"):
                yield line


def list_preferred_types(lines: Sequence[KnownHostLine]) -> set[str]:
    """Return the types of which ssh first asks the host for a key: those whose first known key is not revoked."""
    revoked = {line.blob for line in lines if line.marker == REVOKED}
    first = {line.key_type: line.blob for line in reversed(lines) if not line.marker}
    return {key_type for key_type, blob in first.items() if blob not in revoked}


def _parse_line(text: str, place: str) -> KnownHostLine | None:
    """Return a line that ssh-keygen printed; None if its key is malformed: ssh passes over it too."""
    fields = text.split()
    marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
    if len(fields) < 3:  # noqa: PLR2004 - hosts, type and key
        return None
    key_type = fields[1]
    try:
        blob = binascii.a2b_base64(fields[2], strict_mode=True)
    except ValueError:
        return None
    prefix = len(key_type).to_bytes(4, "big") + key_type.encode()
    return KnownHostLine(marker, key_type, blob, place) if blob.startswith(prefix) else None
