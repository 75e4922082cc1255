"""Workloads and hardware that many tests of sizing share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpufleet import catalog
from gpufleet.sizing.hardware_resolver import resolve_hardware
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.search import find_plans
from gpufleet.sizing.workload import Workload

ANSWERED = datetime(2026, 11, 29, tzinfo=UTC)  # prices grow old: rankings are tested on this day


@pytest.fixture(autouse=True)
def _fixed_day(monkeypatch):
    monkeypatch.setattr("gpufleet.sizing.plans.options.read_clock", lambda: ANSWERED)


@pytest.fixture
def workload():
    """Return a workload of a named model, changed as asked for."""

    def make(model="llama-3.1-8b", **changes):
        return replace(Workload(catalog.get_model(model)), **changes)

    return make


@pytest.fixture
def hardware(repo_root):
    """Return hardware by name; racks and workstations are this checkout's."""
    return lambda name: resolve_hardware(name, repo_root).hardware


@pytest.fixture
def answer_size(repo_root):
    """Answer what ``gpufleet size`` would be asked with these arguments."""
    return lambda model="llama-3.1-8b", **options: find_plans(
        parse_plan_options(PlanOptions(model, **options), root=repo_root)
    )


@pytest.fixture
def codes():
    """Return the codes of an answer's warnings."""
    return lambda answer: {warning.code for warning in answer.warnings}
