"""Test that what ``gpufleet init`` writes is rehearsed at once with the real engine."""

from __future__ import annotations

import pytest

from gpufleet.operations import starter_project
from gpufleet.rehearsal import Rehearsal

pytestmark = pytest.mark.engine


def test_new_project_is_rehearsed_at_once(tmp_path, build_shell):
    clouds, racks = starter_project.parse_clouds("aws,gcp,azure"), starter_project.parse_racks("blades:2")
    starter_project.write_starter_project(tmp_path / "fleet1", clouds, racks, into_existing=False)
    rehearsal = Rehearsal(tmp_path / "fleet1", "dev")
    rehearsal.set_up(lambda _line: None)
    try:
        shell = build_shell(rehearsal)
        shell.up()
        names = {resource.name for resource in shell.state()}
    finally:
        rehearsal.tear_down(lambda _line: None)
    assert {"aws-small", "gcp-small", "azure-small", "blades"} <= names
