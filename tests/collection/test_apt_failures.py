"""Test that apt errors become one line that names package and reason, with recorded outputs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML

from ansible_collections.gpufleet.fleet.plugins.module_utils import apt_failures

CASES = YAML(typ="safe").load(Path(__file__).parents[1] / "cases/collection/apt-failures.yaml")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_failure_is_explained_in_one_line(case):
    lacking = SimpleNamespace(install=[(case["package"], case.get("version"))], remove=[])
    assert apt_failures.explain_apt_failure(lacking, case["output"], "") == case["says"]


def test_unknown_apt_error_is_quoted():
    lacking = SimpleNamespace(install=[("a", "1")], remove=["b"])
    assert apt_failures.explain_apt_failure(lacking, "Reading…\n", "E: Moon phase wrong\n") == (
        "cannot install a=1, b (remove): apt failed: Moon phase wrong"
    )
