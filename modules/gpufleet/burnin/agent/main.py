"""The agent's command line: run a profile, or be the peer that another node's network check sends to."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from dataclasses import asdict
from typing import Any, TextIO

from . import AGENT_VERSION
from .host import HostAccess, RawCheckResult
from .identity import read_host_identity
from .journal import AttemptJournal, JournalLockedError, Record, count_check_starts, list_finished_checks
from .network import receive_from_senders
from .profiles import CHECKS, PROFILES, build_check_parameters, compute_time_limit_s
from .supervisor import SupervisionPolicy, build_orphan_check, run_supervised
from .workers import run_job_with_deadline

# A check that was begun this often and never finished takes the host or the agent down with it.
TRIES = 2
USAGE, BUSY = 2, 4


def utc_timestamp() -> str:
    """Return the time, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def run_check(check_name: str, host: HostAccess) -> RawCheckResult:
    """Run one check in a process of its own and turn whatever happens into a result."""
    answer = run_job_with_deadline(
        lambda: asdict(CHECKS[check_name].run(host)), compute_time_limit_s(check_name, host.params)
    )
    return (
        RawCheckResult("error", answer["error"]) if "error" in answer else RawCheckResult(**answer["value"])
    )


def run_and_record_check(
    check_name: str, host: HostAccess, journal: AttemptJournal, start_count: int
) -> Record:
    """Run one check and record it; give up on one that never finishes."""
    started = utc_timestamp()
    if start_count >= TRIES:
        result = RawCheckResult(
            "error",
            f"begun {start_count} times and never finished: the agent or the host stopped during this check",
        )
    else:
        journal.append_record({"type": "begin", "name": check_name, "started_at": started})
        result = run_check(check_name, host)
    record = {
        "type": "check",
        "name": check_name,
        **asdict(result),
        "started_at": started,
        "ended_at": utc_timestamp(),
    }
    journal.append_record(record)
    return record


def run_burnin_attempt(
    attempt: str, profile: str, check_names: list[str], host: HostAccess, journal: AttemptJournal
) -> None:
    """Run an attempt's remaining checks, from its start record to its end record."""
    before = journal.resume_attempt(attempt)
    journal.replay_records_to_stream(before)
    if any(record.get("type") == "end" for record in before):
        return
    if not before:
        journal.append_record(build_start_record(attempt, profile, host))
    done, tried = list_finished_checks(before), count_check_starts(before)
    records = [
        run_and_record_check(name, host, journal, tried[name]) for name in check_names if name not in done
    ]
    checks = [record for record in before if record.get("type") == "check"] + records
    statuses = [str(record["status"]) for record in checks]
    counts = {status: statuses.count(status) for status in ("ran", "not_run", "error")}
    journal.append_record({"type": "end", "attempt": attempt, "ended_at": utc_timestamp(), **counts})


def build_start_record(attempt: str, profile: str, host: HostAccess) -> Record:
    """Return the record with attempt, profile, parameters and host."""
    return {
        "type": "start",
        "attempt": attempt,
        "profile": profile,
        "agent_version": AGENT_VERSION,
        "started_at": utc_timestamp(),
        "rehearsal": host.params["rehearsal"],
        "params": host.params,
        "host": read_host_identity(host),
    }


def parse_key_value(text: str) -> list[str]:
    """Split KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return [key, value]


def build_argument_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(
        prog="agent.pyz",
        description="gpufleet burn-in agent: measures only; the controller judges the results",
    )
    top.add_argument("--version", action="version", version=AGENT_VERSION)
    verbs = top.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a profile's checks; JSON lines on standard output")
    run.add_argument("--profile", choices=sorted(PROFILES), default="quick")
    run.add_argument("--attempt", required=True, help="id of this attempt, from the controller")
    run.add_argument("--out", help="write the record to this file; an unfinished attempt in it is resumed")
    run.add_argument("--only", action="append", choices=list(CHECKS), help="only this check; may be repeated")
    run.add_argument("--attached", action="store_true", help="stop when the caller or its SSH session ends")
    run.add_argument("--session", type=int, default=0, help="with --attached: the process of the SSH session")
    run.add_argument("-p", "--param", action="append", type=parse_key_value, default=[], metavar="KEY=VALUE")
    peer = verbs.add_parser("serve", help="receive other nodes' network throughput checks")
    peer.add_argument("--address", default="0.0.0.0")  # noqa: S104 - other nodes must reach it
    peer.add_argument("--port", type=int, required=True)
    peer.add_argument("--seconds", type=float, default=600.0)
    return top


def run_agent(args: argparse.Namespace, stream: TextIO) -> int:
    """Run an attempt; the exit code says whether the agent worked, never whether the node is well."""
    params: dict[str, Any] = {key: value for key, value in args.param}  # noqa: C416 - pairs are lists
    host = HostAccess(params=build_check_parameters(args.profile, params))
    try:
        journal = AttemptJournal(stream, args.out)
    except JournalLockedError as busy:
        print(f"agent: {busy}: {args.out}", file=sys.stderr)
        return BUSY
    except OSError as error:
        print(f"agent: cannot write {args.out}: {error.strerror}", file=sys.stderr)
        return USAGE
    os.register_at_fork(after_in_child=journal.close_file)
    run_burnin_attempt(args.attempt, args.profile, args.only or list(CHECKS), host, journal)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the agent's command line."""
    args = build_argument_parser().parse_args(argv)
    if args.verb == "run":
        policy = (
            SupervisionPolicy(is_orphaned=build_orphan_check(args.session))
            if args.attached
            else SupervisionPolicy()
        )
        return run_supervised(lambda: run_agent(args, sys.stdout), policy)
    with socket.create_server((args.address, args.port)) as listener:
        print(f"received data from {receive_from_senders(listener, args.seconds)} senders", file=sys.stderr)
    return 0
