"""Listing commands ask the database a constant number of questions, however many nodes there are."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, event

from gpufleet.cli.burnin import burnin_command
from gpufleet.cli.nodes import nodes_command
from gpufleet.cli.repairs import repairs_command
from gpufleet.console import report_data
from gpufleet.errors import CheckFailed
from gpufleet.nodes import NodeIdentity, NodeObservation, PartObservation, Registry, SourceReport
from gpufleet.nodes.part import ObservedFault, ObservedPart
from gpufleet.operations import billed_nodes, configure
from gpufleet.remote import RunOutcome
from gpufleet.remote.progress import HostProgress

START = datetime(2026, 11, 21, tzinfo=UTC)
FEW, MANY = 10, 60
EXPORTERS = {"exporters": [{"name": "node", "port": 9100, "scheme": "http"}]}
DRIVERS = {"installed": "580.95.05", "loaded": "580.95.05", "user_space": "580.95.05", "held": []}
VERSIONS = {"type": "check", "name": "versions", "status": "ran", "raw": {"parts": {"kernel": ["6.1"]}}}

COMMANDS = {
    "nodes list": (nodes_command, "list"),
    "nodes list --fold": (nodes_command, "list", "--fold"),
    "nodes list RANGE": (nodes_command, "list", "gpu[0000-0009]"),
    "nodes targets": (nodes_command, "targets"),
    "nodes drivers": (nodes_command, "drivers"),
    "nodes versions": (nodes_command, "versions"),
    "nodes show": (nodes_command, "show", "gpu0001"),
    "nodes history": (nodes_command, "history", "gpu0001"),
    "burnin report": (burnin_command, "report"),
    "burnin report --html": (burnin_command, "report", "--html", "{folder}"),
    "burnin report NODE": (burnin_command, "report", "gpu0001"),
    "burnin compare": (burnin_command, "compare"),
    "burnin rejudge": (burnin_command, "rejudge"),
    "burnin rejudge --since": (burnin_command, "rejudge", "--since", "2026-01-01"),
    "repairs list": (repairs_command, "list"),
    "repairs list --all": (repairs_command, "list", "--all"),
    "repairs show": (repairs_command, "show", "GPU-0001"),
}


def fill(url, count):
    """Register nodes with drivers, exporters, a burn-in result each, and a part with a fault."""
    with Registry(url) as registry:
        observed = {"drivers": DRIVERS, "configuration_monitoring": EXPORTERS}
        declared = {"kind": "gpu_server", "machine": "h100", "stack": "lab", "cloud": "aws"}
        seen = [
            NodeObservation(
                "pulumi:lab", f"gpu{n:04}", NodeIdentity(instance_id=f"i-{n:08}"),
                declared=declared, observed=observed | {"address": f"10.0.0.{n + 1}"}, observed_at=START,
            )
            for n in range(count)
        ]  # fmt: skip
        registry.apply_source_report(SourceReport("pulumi:lab", START, seen))
        with registry.transaction():
            for n in range(count):
                store_result(registry, f"gpu{n:04}", n)


def store_result(registry, name, number):
    attempt = registry.start_attempt(name, "burn_in", f"attempt-{name}")
    report = {"attempt": attempt, "node": name, "profile": "quick", "verdict": "faulty", "started_at": None,
              "ended_at": None, "checks": []}  # fmt: skip
    seen = PartObservation(
        (ObservedPart("gpu", uuid=f"GPU-{number:04}", position="0"),),
        (ObservedFault("gpu_compute.wrong", "gpu_compute", "wrong answers", "gpu", "0"),),
    )
    registry.record_burn_in_result(name, attempt, report, [VERSIONS], reason="wrong answers", seen=seen)


def count_statements(work):
    """Return how many statements the work sent to the database."""
    statements = []

    def note(_connection, _cursor, statement, *_rest):
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return len(statements)


@pytest.fixture(scope="module")
def registries(tmp_path_factory):
    """Give the URLs of two registries: few nodes, and many."""
    folder = tmp_path_factory.mktemp("registries")
    urls = {count: f"sqlite:///{folder}/{count}.db" for count in (FEW, MANY)}
    for count, url in urls.items():
        fill(url, count)
    return urls


@pytest.fixture
def counted(registries, monkeypatch):
    """Return a function that counts the statements of some work on the registry of few nodes, then of many."""
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)

    def count(work):
        counts = []
        for url in registries.values():
            monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
            counts.append(count_statements(work))
        assert counts[0] > 0
        return counts

    return count


@pytest.mark.parametrize("name", COMMANDS)
def test_statements_of_a_listing_do_not_grow_with_nodes(counted, tmp_path, name):
    command, *arguments = COMMANDS[name]
    filled = [argument.format(folder=tmp_path) for argument in arguments]

    def work():
        result = CliRunner().invoke(command, filled)
        assert result.exception is None or isinstance(result.exception, (SystemExit, CheckFailed)), result

    few, many = counted(work)
    assert few == many


@pytest.mark.parametrize("name", ["report", "bill", "run"])
def test_statements_of_a_report_do_not_grow_with_nodes(counted, tmp_path, name):
    def outcomes():
        with Registry(os.environ["GPUFLEET_DATABASE_URL"]) as registry:
            names = [node.name for node in registry.list_nodes()]
            hosts = tuple(HostProgress(name, "ok", done=1) for name in names)
            run = RunOutcome("run", "site", tmp_path, hosts, (), (), interrupted=False, completed=True)
            shown = configure.collect_host_outcomes(run, registry)
        assert all(host.verdict_reason.startswith("faulty: ") for host in shown)

    works = {
        "report": lambda: report_data.collect_report_data("lab", None),
        "bill": lambda: billed_nodes.list_registered_nodes(tmp_path),
        "run": outcomes,
    }
    few, many = counted(works[name])
    assert few == many
