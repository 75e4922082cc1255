"""Test the shipped stacks, built by the real engine with `pulumi` in a rehearsal."""

from __future__ import annotations

import subprocess

import pytest

pytestmark = pytest.mark.engine

NODE_TYPES = {
    "aws:autoscaling/group:Group",  # spot with a fallback: one group of spot, one that stands by
    "aws:ec2/instance:Instance",
    "gcp:compute/instance:Instance",
    "azure-native:compute:VirtualMachine",
}
NODES = {
    "poc": set(),
    "dev": {"train", "train-standby", "serve-1", "test-1"},
    "production": {"train-1", "serve-1", "tune-1"},
}
STACKS = tuple(NODES)


@pytest.mark.parametrize("stack", STACKS)
def test_stack_is_built_with_its_nodes(build_stack, stack):
    state = build_stack(stack).state()
    assert {resource.name for resource in state if resource.type in NODE_TYPES} == NODES[stack]
    assert not [resource for resource in state if resource.pending]


@pytest.mark.parametrize("stack", STACKS)
def test_second_preview_has_no_change(build_stack, stack):
    shell = build_stack(stack)
    steps = shell.preview()
    assert {step.op for step in steps} == {"same"}
    assert {step.urn for step in steps} >= {r.urn for r in shell.state() if not r.is_provider_resource}


@pytest.mark.parametrize("stack", STACKS)
def test_tracked_settings_are_not_changed(build_stack, stack):
    shell = build_stack(stack)
    shell.run(f"pulumi refresh -s {stack} --yes; pulumi config -s {stack}; pulumi stack output -s {stack}")
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "stacks"],
        cwd=shell.root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert changed.stdout == ""


def test_state_contains_only_the_stacks_own_resources(build_stack):
    urns = {resource.urn.split("::")[0] for resource in build_stack("dev").state()}
    assert urns == {"urn:pulumi:dev"}


def test_every_node_is_exported(build_stack):
    output = build_stack("production").run("pulumi stack output nodes -s production --json").stdout
    assert output.count('"id"') == 3
