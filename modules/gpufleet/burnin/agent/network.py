"""Network: link and error counters of the main interface, round trips and throughput to a peer."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from .host import Host, Result, failed

COUNTERS = ("rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_crc_errors")
LOOPBACK = "127.0.0.1"
# RFC 863's discard port: nobody listens, and the refusal that comes back is a round trip all the same.
DISCARD_PORT = 9
CHUNK = 1 << 18
TRIPS = 10
TRIP_SECONDS = 1.0


def default_route(text: str) -> tuple[str | None, str | None]:
    """Return interface and gateway of the default route in /proc/net/route."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[1] == "00000000":  # noqa: PLR2004 - interface, destination, gateway
            packed = bytes.fromhex(fields[2])[::-1]
            return fields[0], socket.inet_ntoa(packed)
    return None, None


def interface(host: Host) -> str | None:
    """Return the interface that carries the default route, else the first other one that is up."""
    routed, _ = default_route(host.text("/proc/net/route") or "")
    names = [name for name in host.names("/sys/class/net") if name != "lo"]
    ups = (name for name in names if host.text(f"/sys/class/net/{name}/operstate") in {"up", "unknown"})
    return routed or next(ups, None)


def link(host: Host, name: str) -> dict[str, Any]:
    """Return link state, speed and counters of an interface; None where its driver has no answer."""
    base = f"/sys/class/net/{name}"
    found: dict[str, Any] = {
        "interface": name,
        "operstate": host.text(f"{base}/operstate"),
        "speed_mbit": host.number(f"{base}/speed"),
        "duplex": host.text(f"{base}/duplex"),
        "carrier_changes": host.number(f"{base}/carrier_changes"),
    }
    found.update({counter: host.number(f"{base}/statistics/{counter}") for counter in COUNTERS})
    return found


def choose_peer(host: Host) -> tuple[str, str]:
    """Return whom to measure against, and how that was chosen."""
    if host.param("peer", ""):
        return host.param("peer", ""), "parameter"
    controller = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    if controller:
        return controller, "the SSH session's other end"
    _, gateway = default_route(host.text("/proc/net/route") or "")
    return (gateway, "default gateway") if gateway else (LOOPBACK, "loopback: no peer is known")


def round_trip(address: str, port: int) -> float | None:
    """Return milliseconds until a TCP connection is accepted or refused; None when nothing comes back."""
    started = time.perf_counter()
    try:
        socket.create_connection((address, port), timeout=TRIP_SECONDS).close()
    except ConnectionRefusedError:
        pass
    except OSError:
        return None
    return (time.perf_counter() - started) * 1000


def round_trips(address: str, port: int, count: int) -> dict[str, Any]:
    """Measure several round trips; two lost at the start are answer enough."""
    times: list[float | None] = []
    while len(times) < count and times[:2] != [None, None]:
        times.append(round_trip(address, port))
    came = sorted(ms for ms in times if ms is not None)
    return {
        "sent": len(times),
        "lost": len(times) - len(came),
        "median_ms": round(came[len(came) // 2], 3) if came else None,
        "worst_ms": round(came[-1], 3) if came else None,
    }


def drain(connection: socket.socket) -> None:
    """Read a sender to its end, then tell it how many bytes arrived."""
    with connection, contextlib.suppress(OSError):
        buffer, total = bytearray(CHUNK), 0
        while True:
            got = connection.recv_into(buffer)
            if not got:
                break
            total += got
        connection.sendall(total.to_bytes(8, "big"))


def serve(listener: socket.socket, seconds: float) -> int:
    """Take one sender after the other for a time; return how many came."""
    deadline, senders = time.monotonic() + seconds, 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return senders
        listener.settimeout(left)
        try:
            connection, _ = listener.accept()
        except OSError:
            continue
        connection.settimeout(max(left, 1.0))
        senders += 1
        drain(connection)


def send(address: str, port: int, seconds: float) -> float:
    """Send for a time; return the Mbit/s that the other end confirms to have received."""
    data = bytes(CHUNK)
    with socket.create_connection((address, port), timeout=10.0) as connection:
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        confirmed = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
        return confirmed * 8 / (time.perf_counter() - started) / 1e6


@contextlib.contextmanager
def loopback_sink() -> Iterator[int]:
    """Serve one sender on loopback; give the port."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=lambda: drain(listener.accept()[0]), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5.0)


def iperf3(host: Host, peer: str, port: int, seconds: float) -> dict[str, Any]:
    """Measure with iperf3 against its server on the peer."""
    if host.which("iperf3") is None:
        return {"method": "iperf3", "error": "iperf3 is not installed"}
    done = host.run(
        ["iperf3", "-c", peer, "-p", str(port), "-t", f"{max(1, round(seconds))}", "-J"], seconds + 20
    )
    try:
        rate = json.loads(done.out)["end"]["sum_received"]["bits_per_second"] / 1e6
    except (ValueError, KeyError, TypeError):
        return {"method": "iperf3", "error": (done.err or done.out)[-300:] or f"exit {done.code}"}
    return {"method": "iperf3", "mbit": round(rate, 1)}


def throughput(host: Host, peer: str) -> dict[str, Any]:
    """Measure to the peer where a port is given, else over loopback, and name which."""
    seconds, port = host.param("network_seconds", 3.0), host.param("peer_port", 0)
    if host.param("iperf3_port", 0):
        return iperf3(host, peer, host.param("iperf3_port", 0), seconds)
    if port:
        try:
            return {"method": "built-in sink", "mbit": round(send(peer, port, seconds), 1)}
        except OSError as error:
            return {"method": "built-in sink", "error": str(error)}
    with loopback_sink() as own:
        return {"method": "loopback", "mbit": round(send(LOOPBACK, own, seconds), 1)}


def check(host: Host) -> Result:
    """Read the link, then measure round trips and throughput."""
    name = interface(host)
    if name is None:
        return failed("no network interface besides loopback is up")
    peer, chosen = choose_peer(host)
    raw: dict[str, Any] = {"link": link(host, name), "peer": peer, "peer_chosen_by": chosen}
    raw["round_trip"] = round_trips(peer, host.param("peer_port", 0) or DISCARD_PORT, TRIPS)
    raw["throughput"] = throughput(host, peer)
    return Result("ran", measured=raw["round_trip"]["median_ms"], unit="ms", raw=raw)
