"""Roles on booted hosts: one lab a session, and one check, converge and second run over all requested plays.

A test module names its plays (``PLAYS = ("common",)``: files in ``plays/``). Before the first test, the plays of all
collected modules run together, three times: in check mode, for real, and again. ``converged("common")`` gives a
play's part of each.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HOSTS = {
    "base01": {"kind": "servers"},
    "base13": {"kind": "servers", "system": "debian-13"},
    "nv01": {"kind": "servers", "accelerators": [{"model": "H100 SXM5 80GB", "count": 8}]},
    "amd01": {"kind": "servers", "accelerators": [{"model": "Instinct MI300X", "count": 8}]},
    "amd02": {"kind": "servers", "accelerators": [{"model": "Radeon RX 460"}]},
    "blade01": {"kind": "blades"},
    "blade02": {"kind": "blades"},
}


def _load_lab():
    """Load lab.py by its path: tests are not packages and cannot be imported by name."""
    if "gpufleet_lab" not in sys.modules:
        spec = importlib.util.spec_from_file_location("gpufleet_lab", HERE / "lab.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpufleet_lab"] = module
        spec.loader.exec_module(module)
    return sys.modules["gpufleet_lab"]


def pytest_collection_modifyitems(items):
    """Mark all tests here; leave them out where no privilege or kernel can boot a host."""
    role_tests = [item for item in items if HERE in item.path.parents]
    missing = "hosts need Linux" if sys.platform != "linux" else "hosts need root" if os.geteuid() else None
    for item in role_tests:
        item.add_marker(pytest.mark.hosts)
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))


def pytest_collection_finish(session):
    """Note which plays the collected tests name."""
    modules = {item.module for item in session.items if HERE in item.path.parents}
    session.config.stash[ASKED] = sorted({play for m in modules for play in getattr(m, "PLAYS", ())})


ASKED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def make_lab(tmp_path_factory):
    """Return a function that creates labs; all are removed at the end."""
    labs = []

    def make(name="lab", **options):
        labs.append(_load_lab().Lab(tmp_path_factory.mktemp(name), **options))
        return labs[-1]

    try:
        yield make
    finally:
        for lab in labs:
            lab.down()


@pytest.fixture(scope="session")
def lab(make_lab):
    """Give the shared lab, empty: ``converged`` and ``boot_hosts`` boot the hosts that plays and tests name."""
    return make_lab("shared-lab")


@pytest.fixture(scope="session")
def boot_hosts(lab):
    """Return ``boot(name, ...)``: boots shared hosts unless they run."""

    def boot(*names):
        lab.add({name: HOSTS[name] for name in names})

    return boot


@dataclass(frozen=True)
class ConvergedRuns:
    """One play: in check mode, for real, again; and what check mode left behind on each host."""

    check: object
    first: object
    second: object
    hosts: tuple[str, ...]
    left_by_check: dict[str, set[str]]

    def assert_idempotent(self):
        """Verify that check mode works and changes nothing, and that the second run changes nothing."""
        for host in self.hosts:
            for run in (self.check, self.first, self.second):
                assert run.results_of(host), f"nothing ran on {host}"
                assert run.failure_text(host) is None
            assert self.left_by_check[host] == set()
            assert self.second.changed_tasks(host) == []


@pytest.fixture(scope="session")
def converge_play(lab, request):
    """Give ``converged(name)``: the runs of ``plays/<name>.yml``."""
    requested = request.config.stash[ASKED]
    done = {}

    def runs_of(name):
        if name not in done:
            together = [play for play in requested if play not in done]
            done.update(run_all_plays(lab, together if name in together else [name]))
        return done[name]

    return runs_of


def hosts_of_play(name):
    """Return which shared hosts a play is for."""
    patterns = re.findall(r"^[- ] hosts: *(\S.*)$", (HERE / f"plays/{name}.yml").read_text(), re.MULTILINE)
    return tuple(host for host in HOSTS if any(host in re.split(r"[\s,:\[\]]+", p) for p in patterns))


def play_names(name):
    """Return the names of a file's plays."""
    return re.findall(r"^- name: *(\S.*?)\s*$", (HERE / f"plays/{name}.yml").read_text(), re.MULTILINE)


def run_all_plays(lab, names):
    hosts = {name: hosts_of_play(name) for name in names}
    titles = {name: play_names(name) for name in names}
    all_titles = [title for names_found in titles.values() for title in names_found]
    assert len(all_titles) == len(set(all_titles)), "plays must have names of their own"
    lab.add({host: HOSTS[host] for hosts_found in hosts.values() for host in hosts_found})
    booted = sorted({host for hosts_found in hosts.values() for host in hosts_found})
    playbook = lab.home / "plays" / "all.yml"
    playbook.parent.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(HERE / f"plays/{name}.yml", playbook.parent)
    playbook.write_text("".join(f"- import_playbook: {name}.yml\n" for name in names))
    limit = ",".join(booted)
    before = lab.snapshots(booted)
    check = lab.run(playbook, limit, check=True)
    after = lab.snapshots(booted)
    changed_files = {host: before[host] ^ after[host] for host in booted}
    first, second = (lab.run(playbook, limit) for _ in range(2))
    return {
        name: ConvergedRuns(
            *(run.select_plays(*titles[name]) for run in (check, first, second)), hosts[name], changed_files
        )
        for name in names
    }
