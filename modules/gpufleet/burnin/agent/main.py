"""The agent's command line: run a profile, or be the peer that another node's network check sends to."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn, TextIO

from . import AGENT_VERSION
from .attempt import Attempt
from .command import run_command
from .crash_memory import DISK_SECONDS, CrashMemory
from .host import HostAccess
from .journal import AttemptJournal, JournalLockedError
from .node_lock import NodeLock, NodeLockedError, default_lock_path
from .orphan import build_orphan_check
from .profiles import CHECKS, PROFILES, build_check_parameters
from .settings import SettingError, parse_settings
from .spill import OutputSpill
from .supervisor import SupervisionPolicy, run_supervised
from .workers import run_job_with_deadline

USAGE, LOCKED, BUSY_NODE = 2, 4, 5
MAX_PORT, MAX_ATTEMPT_CHARACTERS = 65_535, 128


def remove_control_characters(text: str) -> str:
    """Return a text that changes no terminal: escape sequences in arguments and paths lose their effect."""
    return "".join(character if character.isprintable() else "?" for character in text)


def report_error(message: str) -> None:
    """Print one line on standard error."""
    print(f"agent: {remove_control_characters(message)}", file=sys.stderr)


class OneLineParser(argparse.ArgumentParser):
    """Answers wrong arguments with one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and exit."""
        report_error(message)
        sys.exit(USAGE)


def parse_key_value(text: str) -> list[str]:
    """Split KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return [key, value]


def parse_attempt(text: str) -> str:
    """Return an attempt's id; names of files are made of it with other characters replaced."""
    if not (text.isprintable() and 1 <= len(text) <= MAX_ATTEMPT_CHARACTERS):
        raise argparse.ArgumentTypeError(f"must be 1 to {MAX_ATTEMPT_CHARACTERS} printable characters")
    return text


def parse_port(text: str) -> int:
    """Return a TCP port."""
    if not (text.isdecimal() and 1 <= int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"must be from 1 to {MAX_PORT}")
    return int(text)


def build_argument_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = OneLineParser(
        prog="agent.pyz",
        description="gpufleet burn-in agent: measures only; the controller judges the results",
    )
    top.add_argument("--version", action="version", version=AGENT_VERSION)
    verbs = top.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a profile's checks; JSON lines on standard output")
    run.add_argument("--profile", choices=sorted(PROFILES), default="quick")
    run.add_argument(
        "--attempt", required=True, type=parse_attempt, help="id of this attempt, from the controller"
    )
    run.add_argument("--out", help="write the record to this file; an unfinished attempt in it is resumed")
    run.add_argument(
        "--resume", action="store_true", help="resume an unfinished attempt of any id, if it is the same work"
    )  # fmt: skip
    run.add_argument(
        "--state", type=Path, help="folder on the node's disk for raw outputs and the memory of crashes"
    )
    run.add_argument("--lock", help=f"file that one agent a node holds (default: {default_lock_path()})")
    run.add_argument("--only", action="append", choices=list(CHECKS), help="only this check; may be repeated")
    run.add_argument("--attached", action="store_true", help="stop when the caller or its SSH session ends")
    run.add_argument("--session", type=int, default=0, help="with --attached: the process of the SSH session")
    run.add_argument("-p", "--param", action="append", type=parse_key_value, default=[], metavar="KEY=VALUE")
    peer = verbs.add_parser("serve", help="receive other nodes' network throughput checks")
    peer.add_argument("--address", default="0.0.0.0")  # noqa: S104 - other nodes must reach it
    peer.add_argument("--port", type=parse_port, required=True)
    peer.add_argument("--seconds", type=float, default=600.0)
    add_pair_arguments(verbs)
    return top


def add_pair_arguments(verbs: argparse._SubParsersAction[OneLineParser]) -> None:
    """Describe the two ends of a measurement between nodes."""
    listen = verbs.add_parser("pair-serve", help="listen in the background for one partner's pair-measure")
    measure = verbs.add_parser("pair-measure", help="measure the network to a partner that listens")
    measure.add_argument(
        "--no-iperf3", action="store_true", help="do not use iperf3, even if both nodes have it"
    )
    measure.add_argument(
        "--collective-mib", type=int, default=0, choices=range(4097), metavar="MIB",
        help="also an all-reduce of so much over the GPUs of both nodes, where NCCL or RCCL is installed",
    )  # fmt: skip
    for verb, meaning in (
        (listen, "seconds after which it gives up"),
        (measure, "seconds for each direction"),
    ):
        verb.add_argument("--address", required=True, help="the node's own address")
        verb.add_argument("--partner", required=True, help="the partner's address")
        verb.add_argument("--port", type=parse_port, required=True)
        verb.add_argument("--seconds", type=float, required=True, help=meaning)


def run_attempt(
    args: argparse.Namespace, params: dict[str, object], memory: CrashMemory, lock: NodeLock, stream: TextIO
) -> int:
    """Run an attempt; the exit code says whether the agent worked, never whether the node is well."""
    try:
        journal = AttemptJournal(stream, args.out)
    except JournalLockedError as busy:
        report_error(f"{busy}: {args.out}")
        return LOCKED
    except OSError as error:
        report_error(f"cannot write {args.out}: {error.strerror}")
        return USAGE
    os.register_at_fork(after_in_child=journal.close_file)
    os.register_at_fork(after_in_child=lock.close)
    host = HostAccess(params=params)
    if args.state:
        spill = OutputSpill(args.state, args.attempt)
        run_job_with_deadline(spill.prepare, DISK_SECONDS)
        host = HostAccess(params=params, run=partial(run_command, spill=spill))
    attempt = Attempt(args.attempt, args.profile, args.only or list(CHECKS), host, journal, memory)
    busy_reason = attempt.run(continues_any=args.resume)
    if busy_reason:
        report_error(f"the node is busy: {busy_reason}")
        return BUSY_NODE
    return 0


def choose_lock_path(args: argparse.Namespace, params: dict[str, object]) -> str:
    """Return the lock that this run takes: checks that only read, and rehearsals on a shared machine, need none."""
    is_load = any(CHECKS[name].is_load for name in args.only or CHECKS)
    return args.lock or (default_lock_path() if is_load and not params["rehearsal"] else "")


def run_profile(args: argparse.Namespace) -> int:
    """Check the settings, take the node's lock, and run the attempt under supervision."""
    try:
        params = build_check_parameters(args.profile, parse_settings(dict(args.param)))
        lock = NodeLock(choose_lock_path(args, params))
    except SettingError as error:
        report_error(str(error))
        return USAGE
    except NodeLockedError as error:
        report_error(str(error))
        return LOCKED
    except OSError as error:
        report_error(f"cannot lock {error.filename}: {error.strerror}")
        return USAGE
    memory = CrashMemory(args.state)
    reason = memory.open()
    if reason:
        report_error(f"crashes cannot be remembered in {args.state}: {reason}")
    policy = SupervisionPolicy(on_end=memory.note_end)
    if args.attached:
        policy = SupervisionPolicy(is_orphaned=build_orphan_check(args.session), on_end=memory.note_end)
    return run_supervised(lambda: run_attempt(args, params, memory, lock, sys.stdout), policy)


def run_pair(args: argparse.Namespace) -> int:
    """Run one end of a measurement between nodes."""
    from .network_pair import measure_pair, serve_pair

    if args.verb == "pair-measure":
        facts = measure_pair(
            args.address,
            args.partner,
            args.port,
            args.seconds,
            may_use_iperf3=not args.no_iperf3,
            collective_mib=args.collective_mib,
        )
        print(json.dumps(facts))
        return 0
    try:
        return serve_pair(args.address, args.port, args.partner, args.seconds)
    except OSError as error:
        report_error(f"cannot listen on {args.address}:{args.port}: {error.strerror}")
        return USAGE


def main(argv: list[str] | None = None) -> int:
    """Run the agent's command line."""
    args = build_argument_parser().parse_args(argv)
    if args.verb == "run":
        return run_profile(args)
    if args.verb.startswith("pair-"):
        return run_pair(args)
    from .network_stream import receive_from_senders

    with socket.create_server((args.address, args.port)) as listener:
        print(f"received data from {receive_from_senders(listener, args.seconds)} senders", file=sys.stderr)
    return 0
