"""The known-hosts files as paramiko's client uses them; a module of its own because importing paramiko takes long."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import paramiko

from gpufleet.remote.known_hosts import KnownHostLine, KnownHosts


@dataclass(frozen=True)
class HostKeyPolicy(paramiko.MissingHostKeyPolicy):
    """Judges the key that a host showed; raises HostKeyRefusedError."""

    known_hosts: KnownHosts
    address: str
    port: int
    lines: Sequence[KnownHostLine]

    def missing_host_key(self, _client: paramiko.SSHClient, _name: str, key: paramiko.PKey) -> None:
        self.known_hosts.check_key(self.address, self.port, key.asbytes(), self.lines)


def make_transport(
    preferred_types: Collection[str], connection: socket.socket, **options: Any
) -> paramiko.Transport:
    """Return a transport that asks for these types of host keys first, as ssh does: a host has several keys."""
    transport = paramiko.Transport(connection, **options)
    security = transport.get_security_options()
    security.key_types = sorted(
        security.key_types,
        key=lambda name: ("ssh-rsa" if name.startswith("rsa-sha2") else name) not in preferred_types,
    )
    return transport
