"""The simulated clouds as a witness: they refuse illegal pools without our rules in front, and accept legal ones.

The pools come from tests/cases/cloud, written from the vendors' documents. Some illegal ones cannot reach a cloud: the
spec has no word for them, or a component ends with its own error; a few are refused by us alone (``is_ours``).
"""

from __future__ import annotations

import pytest

import cloud_corpus as corpus
import simulated_engine as engine
from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.fleet import fleet_loader


def evaluate(case, folder, monkeypatch):
    """Return what the clouds refused, and the error of the program if it had one."""
    declared = fleet.parse_fleet(corpus.build_spec(case), stack="test", root=folder)
    clouds = engine.SimulatedEngine(folder)
    return clouds.refusals, engine.evaluate_fleet(declared, clouds, monkeypatch)


def test_at_least_50_illegal_pools_are_refused_by_the_clouds_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_loader, "find_spec_problems", lambda _spec: [])
    monkeypatch.setattr(fleet_loader, "find_fleet_problems", lambda _fleet: [])
    refused, accepted = [], []
    for case in (case for case in corpus.load_cases("illegal") if "is_ours" not in case):
        name = corpus.case_id(case)
        (tmp_path / name).mkdir()
        try:
            refusals, _ = evaluate(case, tmp_path / name, monkeypatch)
        except InputError:
            continue  # the spec has no word for it
        (refused if refusals else accepted).append(name)
    assert len(refused) >= 50, accepted


@pytest.mark.parametrize("case", corpus.load_cases("legal"), ids=corpus.case_id)
def test_what_the_rules_accept_the_clouds_accept(case, tmp_path, monkeypatch):
    assert evaluate(case, tmp_path, monkeypatch) == ([], None)
