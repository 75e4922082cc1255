"""Runs inside the sandbox: imports what is heavy and never mutated once, then forks for every run of tests.

Reads one request a line from its input (JSON), answers with one line each on its output.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

HEAVY = (
    "hypothesis", "pulumi", "pulumi_aws.ec2", "pulumi_gcp.compute", "pulumi_azure_native.compute",
    "pulumi_azure_native.network", "alembic.command", "sqlalchemy.orm", "boto3", "moto", "paramiko", "pydantic",
    "ruamel.yaml", "yaml", "click", "altair", "jsonschema", "ansible_runner", "ClusterShell.NodeSet",
    "jinja2", "testinfra", "ansible.plugins.loader", "ansible.playbook", "ansible.executor.task_executor", "gguf",
    "pulumi.automation", "coverage", "defusedxml.ElementTree",
)  # fmt: skip
MEMORY = 6 << 30
OPTIONS = [
    "-q",
    "-x",
    "--no-header",
    "--tb=short",
    "-p",
    "no:cacheprovider",
    "-o",
    "addopts=--import-mode=importlib",
]
UNMARKED = ["-m", "not engine and not hosts"]


class SelectedTests:
    """Select tests, run them in the given order and report which one failed."""

    def __init__(self, tests: list[str], report: int) -> None:
        self.ranks = {test: rank for rank, test in enumerate(tests)}
        self.report = report

    def pytest_collection_modifyitems(self, config, items):
        selected = [item for item in items if item.nodeid in self.ranks]
        items[:] = sorted(selected, key=lambda item: self.ranks[item.nodeid])

    def pytest_runtest_logreport(self, report):
        if report.failed:
            os.write(self.report, f"{report.nodeid}\n".encode())

    def pytest_collectreport(self, report):
        if report.failed:
            os.write(self.report, f"{report.nodeid or 'collection'}\n".encode())


class Measure:
    """Note for coverage, and for the programs that tests start, which test is running; and how long each took."""

    def __init__(self, measured, data: str, source: list[str]) -> None:
        self.measured, self.data, self.source = measured, data, source
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.mark = Path(sys.prefix, "current-test")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.measured.switch_context(item.nodeid)
        self.mark.write_text("\n".join([item.nodeid, self.data, *self.source]))
        try:
            return (yield)
        finally:
            self.mark.unlink(missing_ok=True)
            self.measured.switch_context("")

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)


def run_chosen(request: dict, report: int) -> int:
    """Run the chosen tests; for the child of a fork."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in request["tests"]))
    return pytest.main([*OPTIONS, *files], plugins=[SelectedTests(request["tests"], report)])


def run_measured(request: dict, report: int) -> int:
    """Run a folder of tests under coverage, with a coverage context for each test."""
    import coverage

    measured = coverage.Coverage(
        data_file=request["data"], data_suffix=True, source=request["source"], config_file=False
    )
    plugin = Measure(measured, request["data"], request["source"])
    measured.start()
    options = [option for option in OPTIONS if option != "-x"]
    code = pytest.main([*options, *UNMARKED, request["folder"]], plugins=[plugin])
    measured.stop()
    measured.save()
    Path(request["data"] + ".json").write_text(
        json.dumps({"seconds": plugin.seconds, "failed": sorted(plugin.failed)})
    )
    return int(code)


def fork(request: dict) -> dict:
    """Run one request in a child with a time limit, and stop its remaining processes."""
    started = time.monotonic()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _prepare_child(request["log"])
        code = 3
        with contextlib.suppress(BaseException):
            code = (run_measured if "folder" in request else run_chosen)(request, writing)
        sys.stdout.flush()
        os._exit(int(code))
    os.close(writing)
    try:
        code = _wait(child, started + request["timeout"])
    finally:
        _stop_leftovers(child)
    with os.fdopen(reading) as file:
        failed = file.read().split("\n")[0]
    return {"code": code, "failed": failed, "seconds": round(time.monotonic() - started, 2)}


def _prepare_child(log: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))  # not AS: V8 reserves more than it uses
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(out, stream)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)


def _wait(child: int, until: float) -> int | None:
    """Return the exit code, or nothing where the time ran out."""
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def _stop_leftovers(child: int) -> None:
    """Kill the child's group and what was adopted from it: this process reaps orphans (a subreaper)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    for _ in range(200):
        for orphan in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.02)


def _children() -> list[int]:
    children_file = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(child) for child in children_file.read_text().split()]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        answers.write(json.dumps(fork(json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
