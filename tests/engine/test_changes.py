"""Test the effect of an edited spec with the real engine."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.engine

SERVE = (
    "count: 1\n        purchase: {kind: spot"  # the GCP pool: its nodes do not change when one comes beside
)


def instance_operations(steps, kind):
    return sorted(step.op for step in steps if step.urn.split("$")[-1].split("::")[0] == kind)


def test_increased_count_creates_one_instance(build_stack, edit_settings):
    shell = build_stack("production")
    edit_settings(shell, SERVE, SERVE.replace("1", "2", 1))
    steps = shell.preview()
    assert instance_operations(steps, "gcp:compute/instance:Instance") == ["create", "same"]
    assert instance_operations(steps, "aws:ec2/instance:Instance") == ["same"]


def test_count_of_zero_deletes_the_node(build_stack, edit_settings):
    shell = build_stack("production")
    edit_settings(shell, SERVE, SERVE.replace("1", "0", 1))
    assert instance_operations(shell.preview(), "gcp:compute/instance:Instance") == ["delete"]


def test_changed_zone_replaces_only_the_node_of_its_pool(build_stack, edit_settings):
    shell = build_stack("production")
    edit_settings(shell, "zones: [us-east-1a]", "zones: [us-east-1b]")
    steps = shell.preview()
    assert instance_operations(steps, "aws:ec2/instance:Instance") == ["replace"]
    touched = {step.urn for step in steps if step.op != "same"}
    assert not [urn for urn in touched if "gcp:" in urn or "azure" in urn]


def test_invalid_spec_fails_with_one_line(build_stack, edit_settings):
    shell = build_stack("production")
    edit_settings(shell, "machine: p4d.24xlarge ", "machine: p4d.25xlarge ")
    output = shell.run("pulumi preview -s production", fails=True).stdout
    assert "p4d.25xlarge" in output
    assert "Traceback" not in output


def test_destroy_keeps_only_the_settings_file(rehearse_stack):
    shell = rehearse_stack("dev")
    shell.up()
    shell.run("pulumi destroy -s dev --yes --skip-preview")
    assert shell.state() == []
    assert shell.settings.is_file()
    shell.up()  # for the tests that come after


def test_destroy_that_would_remove_the_settings_file_is_refused(build_stack):
    shell = build_stack("poc")
    output = shell.run("pulumi destroy -s poc --yes --remove", fails=True).stderr
    assert "gpufleet rehearse down -s poc" in output
    assert shell.settings.is_file()
    assert shell.state()
