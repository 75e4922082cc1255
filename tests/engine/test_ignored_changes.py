"""Test that ignored inputs and aliases count in an evaluation as they count in the real engine."""

from __future__ import annotations

import json

import pytest

from gpufleet import cost, engine
from gpufleet.cost.inputs.ignored_change import settle_like_engine
from gpufleet.cost.inputs.stack_change import change_from_preview, resources_from_state

pytestmark = pytest.mark.engine
FLEET = "aws:ec2/fleet:Fleet"
SETTINGS = "--non-interactive -s dev"
# The paths of each resource: nested, snake case that Python does not translate, indexes, wildcards, quoted, malformed.
PATHS = {
    "top": ["target_capacity_specification"],
    "nested": ["targetCapacitySpecification.totalTargetCapacity"],
    "snake": ["target_capacity_specification.total_target_capacity"],
    "half": ["targetCapacitySpecification.total_target_capacity"],
    "quoted": ['targetCapacitySpecification["totalTargetCapacity"]'],
    "index": ["launchTemplateConfigs[0].overrides[1].weightedCapacity"],
    "beyond": ["launchTemplateConfigs[0].overrides[2].weightedCapacity"],
    "every": ["launchTemplateConfigs[*].overrides[*].weightedCapacity"],
    "whole": ["*"],
    "broken": ["targetCapacitySpecification["],
    "added": ["spotOptions.maxTotalPrice", "context"],
    "none": [],
}
PROGRAM = """import pulumi
import pulumi_aws as aws

PATHS = {paths!r}
for name, ignored in PATHS.items():
    overrides = [{{"instance_type": each, "weighted_capacity": {weight}}} for each in {types}]
    specification = {{"launch_template_id": "lt-1", "version": "1"}}
    aws.ec2.Fleet(
        name + {suffix!r},
        type="maintain",
        launch_template_configs=[{{"launch_template_specification": specification, "overrides": overrides}}],
        target_capacity_specification={{"default_target_capacity_type": "spot", "total_target_capacity": {size}}},
        {more}
        opts=pulumi.ResourceOptions(ignore_changes=ignored, aliases=[pulumi.Alias(name=name)]),
    )
"""
BEFORE = PROGRAM.format(
    paths=PATHS, weight=1, types=["g5.xlarge", "g5.2xlarge"], size=2, more="context='a',", suffix=""
)
AFTER = PROGRAM.format(
    paths=PATHS, weight=4, types=["g5.xlarge", "g5.2xlarge", "g5.4xlarge"], size=8,
    more="context='b', spot_options={'max_total_price': '9'},", suffix="-renamed",
)  # fmt: skip


@pytest.fixture(scope="module")
def previews(rehearse_stack, tmp_path_factory):
    """Deploy one version of a program and preview the other: the preview, the state, and both without an engine."""
    shell, folder = rehearse_stack("poc"), tmp_path_factory.mktemp("ignored") / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: ignored\nruntime: python\n")
    (folder / "Pulumi.dev.yaml").write_text("config:\n  aws:region: us-east-1\n")
    program = folder / "__main__.py"
    program.write_text(BEFORE)
    shell.run(f"cd '{folder}' && pulumi stack init {SETTINGS} && pulumi up {SETTINGS} --yes --skip-preview")
    before = cost.evaluate_program(folder, "dev")
    program.write_text(AFTER)
    preview = json.loads(
        shell.run(f"cd '{folder}' && pulumi preview {SETTINGS} --json --show-sames 2>/dev/null").stdout
    )
    state = json.loads(shell.run(f"cd '{folder}' && pulumi stack export {SETTINGS}").stdout)
    yield preview, state, before, cost.evaluate_program(folder, "dev")
    shell.run(
        f"cd '{folder}' && pulumi destroy {SETTINGS} --yes --skip-preview && pulumi stack rm {SETTINGS} --yes"
    )


def inputs_of_fleets(resources):
    return {
        each.name.removesuffix("-renamed"): {
            key: value for key, value in each.inputs.items() if not key.startswith("__")
        }
        for each in resources
        if each.type == FLEET
    }


@pytest.mark.parametrize("source", ["program", "state"])
def test_evaluation_ignores_what_the_engine_ignores(previews, source):
    preview, state, before, after = previews
    expected = inputs_of_fleets(step.new for step in engine.parse_pulumi_preview(preview) if step.new)
    old = before if source == "program" else resources_from_state(state)
    _, settled, _ = settle_like_engine(old, after)
    assert inputs_of_fleets(settled) == expected
    sizes = {
        name: inputs["targetCapacitySpecification"]["totalTargetCapacity"]
        for name, inputs in expected.items()
    }
    assert {name for name, size in sizes.items() if size == 2} == {"top", "nested", "quoted", "whole"}


def test_renamed_resources_are_neither_created_nor_deleted(previews):
    preview, _, before, after = previews
    steps = [step for step in engine.parse_pulumi_preview(preview) if FLEET in step.urn]
    assert {step.op for step in steps} <= {"same", "update"}
    change = change_from_preview(preview)
    old, new, _ = settle_like_engine(before, after)
    for pair in ((change.before, change.after), (old, new)):
        urns = [{each.urn for each in side if each.type == FLEET} for side in pair]
        assert urns[0] == urns[1]
