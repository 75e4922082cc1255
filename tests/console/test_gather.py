"""Test that the report reads the current registry and refuses invalid cost files by name."""

from __future__ import annotations

import pytest

from gpufleet.console import collect_report_data, write_fleet_report
from gpufleet.errors import EnvironmentFault, InputError


@pytest.mark.parametrize(
    ("text", "problem"), [("", "is not JSON"), ("[]", "not a cost"), ('{"a": 1}', "not a cost")]
)
def test_file_that_is_not_a_cost_difference_is_refused_by_name(tmp_path, text, problem):
    file = tmp_path / "change.json"
    file.write_text(text)
    with pytest.raises(InputError, match=f"change.json: .*{problem}"):
        collect_report_data("x", file)


def test_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: cannot be read: No such file"):
        collect_report_data("x", tmp_path / "none.json")


def test_report_without_a_registry_names_the_next_step(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(EnvironmentFault, match="the registry does not exist yet"):
        write_fleet_report(tmp_path / "r.html", "x", None)
    assert list(tmp_path.iterdir()) == []


def test_declared_nodes_appear_in_the_report(project, gpufleet, tmp_path):
    synced = gpufleet("nodes", "sync", "-s", "poc", cwd=project)
    assert synced.returncode == 0, synced.stderr
    result = gpufleet("console", "-s", "poc", "--html", tmp_path / "r.html", cwd=project)
    assert result.returncode == 0, result.stderr
    assert "poc-blade01" in (tmp_path / "r.html").read_text()
    assert "5 nodes: 5 expected" in result.stderr
