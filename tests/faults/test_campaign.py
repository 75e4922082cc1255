"""The campaign's short form: one run of each kind that needs no host, and a sample of the others."""

from __future__ import annotations

import pytest

from faults.campaign import missing_need, run_once, table
from faults.kinds import load_kinds
from faults.workspace import Workspace

KINDS = load_kinds()
SAMPLE = (
    "kill-rehearse-up",
    "kill-engine",
    "full-disk",
    "full-disk-first-sync",
    "unreachable-host",
    "wrong-host-key",
    "kill-host-agent",
)
CAMPAIGN_ONLY = (
    "kill-ansible-worker",
    "kill-any-process",
    "kill-ansible-runner",
)  # as kill-ansible-playbook, and slow
MARKS = {"hosts": [pytest.mark.hosts], "engine": [pytest.mark.engine]}
SEED = 1


def parameter(name):
    """Return a kind as a test's parameter, marked by what it needs."""
    return pytest.param(name, marks=MARKS.get(KINDS[name].needs, []))


@pytest.fixture(scope="module")
def workspace():
    """Share prepared registries, a database server and hosts among the runs."""
    shared = Workspace()
    yield shared
    shared.close()


@pytest.mark.parametrize(
    "name",
    [
        parameter(name)
        for name, kind in KINDS.items()
        if name in SAMPLE or (kind.needs not in MARKS and name not in CAMPAIGN_ONLY)
    ],
)
def test_no_invariant_is_violated(workspace, name):
    kind = KINDS[name]
    if reason := missing_need(kind):
        pytest.skip(f"needs {reason}")
    outcome = run_once(workspace, kind, SEED)
    assert outcome.violations == [], table([outcome])


def test_every_fault_kind_has_a_docstring():
    assert all(kind.__doc__ for kind in KINDS.values())
    assert len(KINDS) >= 30


def test_result_table_lists_the_seeds_of_violations(workspace):
    class Broken(KINDS["kill-sync"]):
        name = "broken"

        def execute(self):
            self.run.violate("on purpose")

    outcomes = [run_once(workspace, Broken, seed) for seed in (3, 4)]
    assert table(outcomes).splitlines()[1].split() == ["broken", "2", "3-4", "2", "3", "4"]
