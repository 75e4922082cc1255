"""Ask many nodes at once who they are, over SSH with strict host keys."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal

from gpufleet.errors import EnvironmentFault
from gpufleet.remote.facts import COMMAND, ProbedFacts, parse_probe_answer
from gpufleet.remote.known_hosts import HostKeyRefusedError, KnownHosts, list_preferred_types

if TYPE_CHECKING:
    import paramiko

MAX_PARALLEL = 32
ANSWER_LIMIT_BYTES = 64 * 1024
ANSWER_TIMEOUTS = 3  # the whole answer, in units of the time that one part may take

Reason = Literal[
    "refused",  # the host is there, nothing listens
    "timeout",  # no answer at all
    "no_route",  # the network says that it can't get there
    "bad_address",  # the name is unknown
    "unknown_host_key",  # this host's key is not in known_hosts
    "changed_host_key",  # another key than the one we know
    "revoked_host_key",  # a key that known_hosts revokes
    "key_refused",  # the host does not accept our key
    "protocol",  # something answers, but not as SSH should
    "no_answer",  # logged in, but the questions were not answered
]


@dataclass(frozen=True)
class ReachableHost:
    """A node that answered."""

    address: str
    facts: ProbedFacts
    text: str = ""
    """The answer as the node gave it, at most ``ANSWER_LIMIT_BYTES`` long."""


@dataclass(frozen=True)
class UnreachableHost:
    """A node that did not, and why; ``detail`` is the library's own wording."""

    address: str
    reason: Reason
    detail: str


Answer = ReachableHost | UnreachableHost


def probe_hosts(
    addresses: Iterable[str],
    *,
    user: str,
    key: Path,
    known_hosts: Iterable[Path],
    timeout: float = 10.0,
    port: int = 22,
    max_parallel: int = MAX_PARALLEL,
) -> dict[str, Answer]:
    """Ask every address, at most ``max_parallel`` at a time; each takes at most six times ``timeout``.

    A host is asked only if a file of ``known_hosts`` names its key as ssh reads these files.
    """
    unique_addresses = list(dict.fromkeys(addresses))
    login = load_private_key(key)
    host_keys = KnownHosts(known_hosts)

    def probe_address(address: str) -> Answer:
        return probe_host(address, port=port, user=user, key=login, known_hosts=host_keys, timeout=timeout)

    with ThreadPoolExecutor(max_workers=max(1, min(max_parallel, len(unique_addresses)))) as pool:
        return dict(zip(unique_addresses, pool.map(probe_address, unique_addresses), strict=True))


def load_private_key(path: Path) -> paramiko.PKey:
    """Read the private key once, whatever its kind."""
    import paramiko

    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError as missing:
        raise EnvironmentFault(f"no SSH key at {path}") from missing
    except (paramiko.SSHException, ValueError, OSError) as error:
        raise EnvironmentFault(f"cannot use the SSH key {path}: {error}") from error


def probe_host(
    address: str, *, port: int, user: str, key: paramiko.PKey, known_hosts: KnownHosts, timeout: float
) -> Answer:
    """Ask one node; whatever goes wrong becomes a typed reason."""
    import paramiko

    from gpufleet.remote.host_key_policy import HostKeyPolicy, make_transport

    lines = known_hosts.find_lines(address, port)
    client = paramiko.SSHClient()  # knows no keys of its own, so that the policy judges every one
    client.set_missing_host_key_policy(HostKeyPolicy(known_hosts, address, port, lines))
    try:
        client.connect(
            address, port, user, pkey=key, allow_agent=False, look_for_keys=False,
            timeout=timeout, banner_timeout=timeout, auth_timeout=timeout,
            transport_factory=partial(make_transport, list_preferred_types(lines)),
        )  # fmt: skip
        return read_host_facts(address, client, timeout)
    except HostKeyRefusedError as refused:
        return UnreachableHost(address, refused.reason, str(refused))
    except (OSError, EOFError, paramiko.SSHException) as error:
        return UnreachableHost(address, classify_ssh_error(error), str(error) or type(error).__name__)
    finally:
        client.close()


def read_host_facts(address: str, client: paramiko.SSHClient, timeout: float) -> Answer:
    """Run the question and read a bounded answer in bounded time."""
    _, output, _ = client.exec_command(COMMAND, timeout=timeout)
    text = _read_until(output.channel, monotonic() + ANSWER_TIMEOUTS * timeout).decode("utf-8", "replace")
    facts = parse_probe_answer(text)
    if not facts.arch:
        return UnreachableHost(address, "no_answer", "the login does not accept commands")
    return ReachableHost(address, facts, text)


def _read_until(channel: paramiko.Channel, deadline: float) -> bytes:
    """Return what a command prints up to the limit; TimeoutError for one that drips until the deadline."""
    parts, size = [], 0
    while size < ANSWER_LIMIT_BYTES and (part := channel.recv(ANSWER_LIMIT_BYTES - size)):
        parts.append(part)
        size += len(part)
        if monotonic() > deadline:
            raise TimeoutError("its answer takes too long")
    return b"".join(parts)


def classify_ssh_error(error: Exception) -> Reason:
    """Return the reason for an exception of the connection."""
    import paramiko

    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        return classify_ssh_error(next(iter(error.errors.values())))
    if isinstance(error, paramiko.AuthenticationException):
        return "key_refused"
    if isinstance(error, paramiko.SSHException):
        return "protocol"
    kinds: dict[type[Exception], Reason] = {
        ConnectionRefusedError: "refused",
        TimeoutError: "timeout",
        socket.gaierror: "bad_address",
        EOFError: "protocol",
        ConnectionResetError: "protocol",
    }
    return next((reason for kind, reason in kinds.items() if isinstance(error, kind)), "no_route")
