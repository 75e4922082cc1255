"""Streams and datagrams between two nodes: send, receive, count."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

CHUNK_BYTES = 1 << 18
# Few and small: the reader's buffer (425,984 bytes at most) holds them all, so that only the network loses any.
RECEIVE_BUFFER_BYTES = 1 << 20
DATAGRAMS, DATAGRAM_BYTES, DATAGRAM_SECONDS = 200, 200, 0.5
# linux/tcp.h: struct tcp_info; Python has no name for it.
TCP_INFO_TOTAL_RETRANS_OFFSET = 100
# /proc/net/tcp: its address is the second column, its state the fourth (net/tcp_states.h: TCP_LISTEN).
LISTENING, MIN_COLUMNS = "0A", 4


def read_retransmits(connection: socket.socket) -> int | None:
    """Return the segments that a connection sent again, None where the kernel does not say."""
    end = TCP_INFO_TOTAL_RETRANS_OFFSET + 4
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return None
    return struct.unpack("I", info[end - 4 : end])[0] if len(info) >= end else None


def send_for(connection: socket.socket, seconds: float) -> None:
    """Send for a time, then end the stream."""
    data, deadline = bytes(CHUNK_BYTES), time.monotonic() + seconds
    while time.monotonic() < deadline:
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def receive_to_end(connection: socket.socket) -> dict[str, float]:
    """Read a stream to its end; return bytes and the seconds from the first byte to the last."""
    buffer, total, started = bytearray(CHUNK_BYTES), 0, 0.0
    while True:
        count = connection.recv_into(buffer)
        if not count:
            return {"bytes": total, "seconds": time.monotonic() - started if started else 0.0}
        started = started or time.monotonic()
        total += count


def to_mbit(received: dict[str, Any]) -> float | None:
    """Return the rate of a stream; None for one without data."""
    seconds = float(received.get("seconds") or 0.0)
    return round(float(received["bytes"]) * 8 / seconds / 1e6, 1) if seconds > 0 else None


def resolve_addresses(name: str) -> set[str]:
    """Return the addresses of a name or address."""
    return {str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}


def is_listening(port: int) -> bool:
    """Return whether a program of this node listens on a TCP port."""
    tables = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:  # noqa: PTH123 - one line
            tables += [line.split() for line in file]
    return any(
        row[1].endswith(f":{port:04X}") and row[3] == LISTENING for row in tables if len(row) > MIN_COLUMNS
    )


def send_datagrams(send: Callable[[bytes], int]) -> None:
    """Send numbered datagrams at a low rate; one that cannot be sent is lost."""
    for number in range(DATAGRAMS):
        with contextlib.suppress(OSError):
            send(struct.pack("I", number).ljust(DATAGRAM_BYTES, b"\0"))
        time.sleep(DATAGRAM_SECONDS / DATAGRAMS)


def collect_datagrams(receiver: socket.socket, senders: set[str]) -> tuple[int, Any]:
    """Return how many different datagrams arrived, for the network may repeat one, and from which endpoint."""
    seen, endpoint = set(), None
    while select.select([receiver], [], [], 0.2)[0]:
        try:
            data, source = receiver.recvfrom(2048)
        except OSError:  # the partner's port refused an earlier datagram
            continue
        if source[0] in senders:
            seen.add(data[:4])
            endpoint = source
    return len(seen), endpoint


def receive_and_confirm_bytes(connection: socket.socket) -> None:
    """Read a sender to its end, then tell it how many bytes arrived."""
    with connection, contextlib.suppress(OSError):
        buffer, total = bytearray(CHUNK_BYTES), 0
        while True:
            received = connection.recv_into(buffer)
            if not received:
                break
            total += received
        connection.sendall(total.to_bytes(8, "big"))


def receive_from_senders(listener: socket.socket, seconds: float) -> int:
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
        receive_and_confirm_bytes(connection)
