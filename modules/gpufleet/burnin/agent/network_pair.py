"""Measure the network between two nodes: both directions, retransmits, datagram loss and the frames that pass.

One node listens on its own address, for one partner and a bounded time; the partner drives the session. Every
request is a JSON line on the partner's first connection. Data goes over a second one, from which iperf3 takes over
where both nodes have it. Frames are probed over IPv4 only.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .collective import drive_all_reduce, inspect_gpus, join_all_reduce
from .network_stream import (
    DATAGRAMS,
    RECEIVE_BUFFER_BYTES,
    collect_datagrams,
    is_listening,
    read_retransmits,
    receive_to_end,
    resolve_addresses,
    send_datagrams,
    send_for,
    to_mbit,
)
from .rdma_pair import SECONDS_A_DEVICE, list_active_devices, measure_rdma, start_rdma_server
from .workers import run_job_with_deadline

CONNECT_SECONDS = 5.0
# Drivers and libraries load slowly the first time; a communicator over a fabric needs seconds.
GPU_SECONDS, COLLECTIVE_SECONDS = 30.0, 60.0
# What a request may take beyond the seconds that it measures.
MARGIN_SECONDS = 10.0
ROUND_TRIPS = 10
# linux/in.h; Python has no names for them.
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE, IP_MTU = 10, 3, 14
UDP_HEADERS = 28
DISCARD_PORT = 9  # RFC 863; connecting a datagram socket sends nothing
# Frames to try below the interface's own size: jumbo, Ethernet, common tunnels, and the smallest of IPv6 and IPv4.
FRAME_SIZES = (9000, 8900, 4096, 1500, 1492, 1450, 1400, 1280, 576)
PROBE_TRIES, PROBE_SECONDS = 3, 0.2
IPERF3_STREAMS = 4
MAX_COMMAND_LINE_BYTES = 1 << 12


class PairListener:
    """One node's end of a session: answers its partner's requests, and nobody else's."""

    def __init__(self, listener: socket.socket, partner: str, deadline: float) -> None:
        self.listener = listener
        self.partner = partner
        self.partner_addresses = resolve_addresses(partner)
        self.deadline = deadline
        self.datagrams: socket.socket | None = None
        self.partner_endpoint: Any = None

    def accept_partner(self) -> socket.socket:
        """Return the next connection of the partner; others are closed at once."""
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the partner did not come")
            self.listener.settimeout(left)
            connection, (address, *_) = self.listener.accept()
            connection.settimeout(left)
            if address in self.partner_addresses:
                return connection
            connection.close()

    def serve(self) -> None:
        """Answer the requests of one session."""
        with self.accept_partner() as control, control.makefile("rw", encoding="utf-8") as lines:
            for line in lines:
                answer = self.answer_request(json.loads(line))
                lines.write(json.dumps(answer) + "\n")
                lines.flush()

    def answer_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks for; return the answer."""
        operation, seconds = request.get("do"), min(float(request.get("seconds", 0.0)), 60.0)
        if operation == "receive":
            with self.accept_partner() as connection:
                return receive_to_end(connection)
        if operation == "send":
            with self.accept_partner() as connection:
                send_for(connection, seconds)
                return {"retransmits": read_retransmits(connection)}
        if operation == "datagrams":
            return self.open_datagram_socket()
        if operation == "count":
            return {"received": self.count_datagrams()}
        if operation == "return":
            return self.send_datagrams_back()
        if operation == "echo":
            return self.echo_datagram()
        if operation == "gpus":
            return dict(run_job_with_deadline(inspect_gpus, GPU_SECONDS))
        if operation == "collective":
            return dict(run_job_with_deadline(lambda: join_all_reduce(request), COLLECTIVE_SECONDS))
        if operation == "rdma_devices":
            return {"devices": list_active_devices()}
        if operation == "rdma":
            return {"ready": start_rdma_server(str(request["device"]), int(request["port"]), seconds)}
        if operation == "iperf3":
            return self.start_iperf3(int(request["port"]), seconds)
        return {"trip": True}

    def open_datagram_socket(self) -> dict[str, Any]:
        """Open the socket for datagrams and frames on the listener's address; return its port."""
        host, port, *_ = self.listener.getsockname()
        self.datagrams = socket.socket(self.listener.family, socket.SOCK_DGRAM)
        self.datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self.datagrams.bind((host, port))
        return {"port": port, "mtu": self.read_own_mtu()}

    def read_own_mtu(self) -> int | None:
        """Return the frame size of the interface towards the partner; IPv4 only."""
        if self.listener.family != socket.AF_INET:
            return None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((self.partner, DISCARD_PORT))
            return probe.getsockopt(socket.IPPROTO_IP, IP_MTU)

    def count_datagrams(self) -> int:
        """Return how many different datagrams of the partner arrived, and remember where it sends from."""
        if not self.datagrams:
            return 0
        numbers, self.partner_endpoint = collect_datagrams(self.datagrams, self.partner_addresses)
        return numbers

    def send_datagrams_back(self) -> dict[str, Any]:
        """Send as many datagrams to where the partner's came from."""
        if self.datagrams and self.partner_endpoint:
            endpoint = self.partner_endpoint
            send_datagrams(lambda data: self.datagrams.sendto(data, endpoint) if self.datagrams else 0)
        return {"sent": self.partner_endpoint is not None}

    def echo_datagram(self) -> dict[str, Any]:
        """Return the size of the next datagram, None when none arrives in time."""
        if not self.datagrams or not select.select([self.datagrams], [], [], PROBE_SECONDS)[0]:
            return {"size": None}
        data, _ = self.datagrams.recvfrom(1 << 16)
        return {"size": len(data)}

    def start_iperf3(self, port: int, seconds: float) -> dict[str, Any]:
        """Start an iperf3 server for one test on the same address; it ends after the test or the time."""
        if shutil.which("iperf3") is None:
            return {"ready": False}
        host = self.listener.getsockname()[0]
        limit = str(int(seconds + MARGIN_SECONDS))
        argv = ["timeout", limit, "iperf3", "-s", "-1", "-B", host, "-p", str(port)]
        null = subprocess.DEVNULL
        deadline = time.monotonic() + CONNECT_SECONDS
        while is_listening(port) and time.monotonic() < deadline:
            time.sleep(0.05)  # the server of the first direction has had its test, and ends
        process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null)
        deadline = time.monotonic() + CONNECT_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if is_listening(port):  # a connection to find out would be its one test
                return {"ready": True}
            time.sleep(0.05)
        return {"ready": False}


class PairSession:
    """The other end: drives a session with a listening partner."""

    def __init__(self, own_address: str, partner: str, port: int) -> None:
        self.own_address = own_address
        self.address = (partner, port)
        self.control = self.connect()
        self.lines = self.control.makefile("rw", encoding="utf-8")

    def connect(self) -> socket.socket:
        """Open one connection to the partner."""
        source = (self.own_address, 0)  # the listener knows its partner by this address
        return socket.create_connection(self.address, timeout=CONNECT_SECONDS, source_address=source)

    def write_request(self, do: str, **arguments: Any) -> None:
        """Send a request."""
        self.lines.write(json.dumps({"do": do, **arguments}) + "\n")
        self.lines.flush()

    def read_answer(self, seconds: float = 0.0) -> dict[str, Any]:
        """Return the partner's answer."""
        self.control.settimeout(seconds + MARGIN_SECONDS)
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the partner ended the session")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, *, wait_s: float = 0.0, **arguments: Any) -> dict[str, Any]:
        """Send a request and return its answer, whose work may take ``wait_s``."""
        self.write_request(do, **arguments)
        return self.read_answer(wait_s)

    def ask_slowly(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and return its answer, which may wait for a program to start."""
        return self.ask(do, wait_s=CONNECT_SECONDS, **arguments)

    def measure_round_trip_ms(self) -> float:
        """Return the median time of a request."""
        times = []
        for _ in range(ROUND_TRIPS):
            started = time.perf_counter()
            self.ask("trip")
            times.append((time.perf_counter() - started) * 1000)
        return round(sorted(times)[ROUND_TRIPS // 2], 3)

    def measure_sending(self, seconds: float) -> dict[str, Any]:
        """Send for a time; return the rate that the partner received, and what was sent again."""
        self.write_request("receive")
        with self.connect() as connection:
            connection.settimeout(seconds + MARGIN_SECONDS)
            send_for(connection, seconds)
            received = self.read_answer(seconds)
            return {"sent_mbit": to_mbit(received), "sent_retransmits": read_retransmits(connection)}

    def measure_receiving(self, seconds: float) -> dict[str, Any]:
        """Let the partner send for a time; return the rate that arrived, and what it sent again."""
        self.write_request("send", seconds=seconds)
        with self.connect() as connection:
            connection.settimeout(seconds + MARGIN_SECONDS)
            received = receive_to_end(connection)
        answer = self.read_answer(seconds)
        return {"received_mbit": to_mbit(received), "received_retransmits": answer.get("retransmits")}

    def measure_iperf3(self, seconds: float) -> dict[str, Any]:
        """Measure both directions with iperf3; nothing where a node has none or a run fails."""
        facts: dict[str, Any] = {}
        port = self.address[1] + 1
        for name, options in (("sent", ()), ("received", ("-R",))):
            if shutil.which("iperf3") is None or not self.ask("iperf3", port=port, seconds=seconds).get(
                "ready"
            ):
                return {}
            argv = [
                "iperf3",
                "-c",
                self.address[0],
                "-p",
                str(port),
                "-B",
                self.own_address,
                "-J",
                "-P",
                str(IPERF3_STREAMS),
            ]
            argv += ["-t", str(max(1, round(seconds))), *options]
            try:
                done = subprocess.run(
                    argv, capture_output=True, timeout=seconds + MARGIN_SECONDS, check=False
                )
                report = json.loads(done.stdout)
                if "error" in report:  # a server that ends in the middle leaves a rate of 0
                    return {}
                end = report["end"]
                facts[f"{name}_mbit"] = round(end["sum_received"]["bits_per_second"] / 1e6, 1)
                facts[f"{name}_retransmits"] = end["sum_sent"].get("retransmits")
            except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
                return {}
        return {"method": "iperf3", **facts}

    def measure_datagrams(self) -> dict[str, Any]:
        """Send numbered datagrams and let the partner send as many; return what arrived, and the frames that pass."""
        answer = self.ask("datagrams")
        with socket.socket(self.control.family, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            sender.bind((self.own_address, 0))
            sender.connect((self.address[0], answer["port"]))
            send_datagrams(sender.send)
            received = self.ask("count")["received"]
            self.ask("return")
            returned, _ = collect_datagrams(sender, {self.control.getpeername()[0]})
            facts = {
                "datagrams_sent": 2 * DATAGRAMS,
                "datagrams_received": received + returned,
                "partner_mtu": answer["mtu"],
            }
            return {**facts, **(self.probe_frames(sender) if sender.family == socket.AF_INET else {})}

    def probe_frames(self, sender: socket.socket) -> dict[str, Any]:
        """Return the interface's frame size, and the largest that reaches the partner unfragmented."""
        sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        local = sender.getsockopt(socket.IPPROTO_IP, IP_MTU)
        sizes = [local, *(size for size in FRAME_SIZES if size < local)]
        passing = next((size for size in sizes if self.does_frame_pass(sender, size)), None)
        return {"local_mtu": local, "path_mtu": passing}

    def does_frame_pass(self, sender: socket.socket, size: int) -> bool:
        """Return whether a frame of a size reaches the partner in one piece."""
        for _ in range(PROBE_TRIES):
            try:
                sender.send(bytes(size - UDP_HEADERS))
            except OSError:
                return False
            if self.ask("echo")["size"] == size - UDP_HEADERS:
                return True
        return False

    def measure_collective(self, mib: int) -> dict[str, Any]:
        """Return bus bandwidth and wrong values of an all-reduce over both nodes' GPUs, or why there was none."""
        both = [run_job_with_deadline(inspect_gpus, GPU_SECONDS), self.ask("gpus", wait_s=GPU_SECONDS)]
        found = [
            answer.get("value") or {"missing": answer.get("error"), "on_bus": "unknown"} for answer in both
        ]
        reason = next((str(gpus["missing"]) for gpus in found if "missing" in gpus), "")
        if not reason and len({gpus["vendor"] for gpus in found}) > 1:
            reason = "the nodes have GPUs of different vendors"
        if reason:
            idle = {
                f"{end}_collective_missing": str(gpus["missing"])
                for end, gpus in (("own", found[0]), ("partner", found[1]))
                if gpus.get("on_bus")
            }
            return {"collective_missing": reason, **idle}
        own_gpus = int(found[0]["gpus"])
        ranks = own_gpus + int(found[1]["gpus"])

        def announce(unique_id: bytes) -> None:  # in the job's process, which shares the session
            self.write_request("collective", id=unique_id.hex(), ranks=ranks, first_rank=own_gpus, mib=mib)

        job = run_job_with_deadline(lambda: drive_all_reduce(ranks, mib, announce), COLLECTIVE_SECONDS)
        facts: dict[str, Any] = {"collective_gpus": ranks, "collective_mib": mib}
        if any(gpus.get("fake") for gpus in found):
            facts["collective_is_fake"] = True
        if "error" in job:  # the partner may not have been asked
            return {**facts, "collective_error": str(job["error"])}
        answer = self.read_answer(COLLECTIVE_SECONDS)
        if "error" in answer:
            return {**facts, "collective_error": f"the partner: {answer['error']}"}
        ends = (job["value"], answer["value"])
        facts["collective_gb_per_s"] = min(float(end["gb_per_s"]) for end in ends)
        return {**facts, "collective_wrong_values": sum(int(end["wrong_values"]) for end in ends)}


def measure_pair(
    own_address: str,
    partner: str,
    port: int,
    seconds: float,
    *,
    may_use_iperf3: bool,
    collective_mib: int = 0,
) -> dict[str, Any]:
    """Run a session with a listening partner; return what it measured, or at which step it failed."""
    facts: dict[str, Any] = {"method": "built-in"}
    step = "connect"
    try:
        session = PairSession(own_address, partner, port)
        with session.control, session.lines:
            steps: dict[str, Callable[[], dict[str, Any]]] = {
                "round trips": lambda: {"round_trip_ms": session.measure_round_trip_ms()},
                "datagrams": session.measure_datagrams,
                "sending": lambda: session.measure_sending(seconds),
                "receiving": lambda: session.measure_receiving(seconds),
            }
            if may_use_iperf3:
                steps["iperf3"] = lambda: session.measure_iperf3(seconds)
            steps["rdma"] = lambda: measure_rdma(
                partner, port + 1, min(seconds, SECONDS_A_DEVICE), session.ask_slowly
            )
            if collective_mib:  # the last one: after an error in it, the session cannot be used
                steps["collective"] = lambda: session.measure_collective(collective_mib)
            for step, measure in steps.items():  # noqa: B007 - the error names the step
                facts.update(measure())
    except (OSError, ValueError, KeyError) as error:
        facts.update(error=str(error) or type(error).__name__, failed_step=step)
    return facts


def stop_earlier_listeners(address: str, port: int) -> None:
    """Stop listeners that were started with the same address and port, found by their command line."""
    wanted = {b"pair-serve", f"--address={address}".encode(), f"--port={port}".encode()}
    stopped = False
    for entry in os.listdir("/proc"):  # noqa: PTH208 - the agent starts without pathlib
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/cmdline", "rb") as file:  # noqa: PTH123
                arguments = set(file.read(MAX_COMMAND_LINE_BYTES).split(b"\0"))
            if wanted <= arguments:
                os.kill(int(entry), signal.SIGTERM)
                stopped = True
    deadline = time.monotonic() + CONNECT_SECONDS
    while stopped and is_listening(port) and time.monotonic() < deadline:
        time.sleep(0.05)


def serve_pair(address: str, port: int, partner: str, seconds: float) -> int:
    """Listen for one partner in the background; return once the port is open. The listener ends by itself.

    A listener of an earlier round, whose partner did not come, is stopped: it would refuse the partner of this one.
    """
    stop_earlier_listeners(address, port)
    listener = socket.create_server(
        (address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET
    )
    if os.fork():
        listener.close()
        return 0
    try:
        os.setsid()
        signal.alarm(int(seconds) + 1)  # even if it hangs
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        with listener, contextlib.suppress(OSError, ValueError, KeyError):
            PairListener(listener, partner, time.monotonic() + seconds).serve()
    finally:
        os._exit(0)
