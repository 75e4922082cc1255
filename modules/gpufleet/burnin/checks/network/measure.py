"""Network: link and error counters of the main interface, round trips and throughput to a peer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...agent.host import HostAccess, RawCheckResult, build_error_result
from ...agent.network_stream import CHUNK_BYTES, receive_and_confirm_bytes

COUNTERS = ("rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_crc_errors")
LOOPBACK = "127.0.0.1"
# RFC 863's discard port: no service listens there, and the refusal that comes back is a round trip too.
DISCARD_PORT = 9
DNS_PORT = 53
MAX_PEERS = 4
TRIP_COUNT = 10
TRIP_TIMEOUT_SECONDS = 1.0


def parse_default_route(text: str) -> tuple[str | None, str | None]:
    """Return interface and gateway of the default route in /proc/net/route."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[1] == "00000000":  # noqa: PLR2004 - interface, destination, gateway
            packed = bytes.fromhex(fields[2])[::-1]
            return fields[0], socket.inet_ntoa(packed)
    return None, None


def choose_main_interface(host: HostAccess) -> str | None:
    """Return the interface that carries the default route, else the first other one that is up."""
    routed, _ = parse_default_route(host.read_text_file("/proc/net/route") or "")
    names = [name for name in host.list_folder("/sys/class/net") if name != "lo"]
    ups = (
        name for name in names if host.read_text_file(f"/sys/class/net/{name}/operstate") in {"up", "unknown"}
    )
    return routed or next(ups, None)


def read_interface_link(host: HostAccess, interface: str) -> dict[str, Any]:
    """Return link state, speed and counters of an interface; None where its driver has no answer."""
    base = f"/sys/class/net/{interface}"
    facts: dict[str, Any] = {
        "interface": interface,
        "operstate": host.read_text_file(f"{base}/operstate"),
        "speed_mbit": host.read_integer_file(f"{base}/speed"),
        "duplex": host.read_text_file(f"{base}/duplex"),
        "carrier_changes": host.read_integer_file(f"{base}/carrier_changes"),
    }
    facts.update({counter: host.read_integer_file(f"{base}/statistics/{counter}") for counter in COUNTERS})
    return facts


class NetworkPeer(NamedTuple):
    """An address to measure against, a TCP port there, and how it was chosen."""

    address: str
    port: int
    chosen_by: str


def find_ssh_client(host: HostAccess) -> str:
    """Return the address of the SSH session's client, or nothing.

    sudo removes SSH_CONNECTION from the environment; the processes above it still have it.
    """
    pid, text = os.getpid(), os.environ.get("SSH_CONNECTION", "")
    while not text and pid > 1:
        environment = host.read_text_file(f"/proc/{pid}/environ") or ""
        found = [entry for entry in environment.split("\0") if entry.startswith("SSH_CONNECTION=")]
        text = found[0].partition("=")[2] if found else ""
        fields = (host.read_text_file(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return text.split(" ")[0]


def list_nameservers(host: HostAccess) -> list[str]:
    """Return the name servers outside this host."""
    text = host.read_text_file("/run/systemd/resolve/resolv.conf") or host.read_text_file("/etc/resolv.conf")
    found = re.findall(r"^nameserver\s+(\S+)", text or "", flags=re.MULTILINE)
    return [address for address in found if not address.startswith("127.") and address != "::1"]


def list_test_peers(host: HostAccess) -> list[NetworkPeer]:
    """Return peers in the order in which they are tried: a firewall may drop what the first ones get."""
    port = host.get_parameter("peer_port", 0) or DISCARD_PORT
    if host.get_parameter("peer", ""):
        return [NetworkPeer(host.get_parameter("peer", ""), port, "parameter")]
    _, gateway = parse_default_route(host.read_text_file("/proc/net/route") or "")
    peers = [NetworkPeer(find_ssh_client(host), port, "the client of the SSH session")]
    peers.append(NetworkPeer(gateway or "", port, "default gateway"))
    peers += [NetworkPeer(address, DNS_PORT, "name server") for address in list_nameservers(host)]
    return [peer for peer in peers if peer.address] or [
        NetworkPeer(LOOPBACK, port, "loopback: no peer is known")
    ]


def measure_first_answering_peer(peers: list[NetworkPeer]) -> tuple[NetworkPeer, dict[str, Any]]:
    """Return the first peer that answers with its round trips; without one, the first of all."""
    trips = []
    for peer in peers[:MAX_PEERS]:
        trips.append(measure_round_trips(peer.address, peer.port, TRIP_COUNT))
        if trips[-1]["lost"] < trips[-1]["sent"]:
            return peer, trips[-1]
    return peers[0], trips[0]


def measure_round_trip_ms(address: str, port: int) -> float | None:
    """Return milliseconds until a TCP connection is accepted or refused; None when nothing comes back."""
    started = time.perf_counter()
    try:
        socket.create_connection((address, port), timeout=TRIP_TIMEOUT_SECONDS).close()
    except ConnectionRefusedError:
        pass
    except OSError:
        return None
    return (time.perf_counter() - started) * 1000


def measure_round_trips(address: str, port: int, count: int) -> dict[str, Any]:
    """Measure several round trips; two lost at the start are answer enough."""
    times: list[float | None] = []
    while len(times) < count and times[:2] != [None, None]:
        times.append(measure_round_trip_ms(address, port))
    answered = sorted(ms for ms in times if ms is not None)
    return {
        "sent": len(times),
        "lost": len(times) - len(answered),
        "median_ms": round(answered[len(answered) // 2], 3) if answered else None,
        "worst_ms": round(answered[-1], 3) if answered else None,
    }


def measure_send_mbit_per_s(address: str, port: int, seconds: float) -> float:
    """Send for a time; return the Mbit/s that the other end confirms to have received."""
    data = bytes(CHUNK_BYTES)
    with socket.create_connection((address, port), timeout=10.0) as connection:
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        confirmed = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
        return confirmed * 8 / (time.perf_counter() - started) / 1e6


@contextlib.contextmanager
def serve_loopback_sink() -> Iterator[int]:
    """Serve one sender on loopback; give the port."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=lambda: receive_and_confirm_bytes(listener.accept()[0]), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5.0)


def run_iperf3(host: HostAccess, peer: str, port: int, seconds: float) -> dict[str, Any]:
    """Measure with iperf3 against its server on the peer."""
    if host.which("iperf3") is None:
        return {"method": "iperf3", "error": "iperf3 is not installed"}
    done = host.run(
        ["iperf3", "-c", peer, "-p", str(port), "-t", f"{max(1, round(seconds))}", "-J"], seconds + 20
    )
    # With -J it ends with 0 whatever happened. A server that ends in the middle leaves an error and a rate of 0.
    if error := find_iperf3_error(done.out):
        return {"method": "iperf3", "error": error}
    try:
        rate = json.loads(done.out)["end"]["sum_received"]["bits_per_second"] / 1e6
    except (ValueError, KeyError, TypeError):
        return {"method": "iperf3", "error": (done.out or done.err)[-300:] or f"exit {done.code}"}
    return {"method": "iperf3", "mbit": round(rate, 1)}


def find_iperf3_error(text: str) -> str:
    """Return the error in iperf3's JSON report: its server is busy, not there, or ended; empty without one."""
    try:
        return str(json.loads(text)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return ""


def measure_throughput(host: HostAccess, peer: str) -> dict[str, Any]:
    """Measure to the peer where a port is given, else over loopback, and name which."""
    seconds, port = host.get_parameter("network_seconds", 3.0), host.get_parameter("peer_port", 0)
    if host.get_parameter("iperf3_port", 0):
        return run_iperf3(host, peer, host.get_parameter("iperf3_port", 0), seconds)
    if port:
        try:
            return {"method": "built-in sink", "mbit": round(measure_send_mbit_per_s(peer, port, seconds), 1)}
        except OSError as error:
            return {"method": "built-in sink", "error": str(error)}
    with serve_loopback_sink() as sink_port:
        return {"method": "loopback", "mbit": round(measure_send_mbit_per_s(LOOPBACK, sink_port, seconds), 1)}


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read the link, then measure round trips and throughput."""
    name = choose_main_interface(host)
    if name is None:
        return build_error_result("no network interface besides loopback is up")
    peers = list_test_peers(host)
    peer, trips = measure_first_answering_peer(peers)
    raw: dict[str, Any] = {
        "link": read_interface_link(host, name),
        "peer": peer.address,
        "peer_port": peer.port,
        "peer_chosen_by": peer.chosen_by,
        "round_trip": trips,
        "throughput": measure_throughput(host, peers[0].address),
    }
    return RawCheckResult("ran", measured=raw["round_trip"]["median_ms"], unit="ms", raw=raw)
