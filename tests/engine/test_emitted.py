"""Test a stack that sizing wrote: priced, rehearsed and built by the real engine."""

from __future__ import annotations

import json

import pytest

from gpufleet.rehearsal import Rehearsal

pytestmark = pytest.mark.engine

ASKED = (
    "--model llama-3.1-8b --task full_finetune --dataset 10000 --context 2048 --on p4d.24xlarge --purchase on_demand "
    "--deadline 12h"
)


@pytest.fixture(scope="module")
def emitted_stack(engine_project, gpufleet):
    """Write a stack into the engine's project; return what the command said."""
    result = gpufleet("size", *ASKED.split(), "--emit", "sized", "--json", cwd=engine_project)
    assert result.returncode == 0, result.stderr
    yield json.loads(result.stdout)["plans"][0]
    (engine_project / "stacks/Pulumi.sized.yaml").unlink()


def test_emitted_stack_has_the_planned_price(emitted_stack, engine_project, gpufleet):
    result = gpufleet("cost", "estimate", "-s", "sized", "--json", cwd=engine_project)
    assert result.returncode == 0, result.stderr
    machines = [line for line in json.loads(result.stdout)["resources"] if line.get("component") == "machine"]
    assert sum(line["usd_per_hour"] for line in machines) == pytest.approx(emitted_stack["usd_per_hour"])


def test_emitted_stack_has_the_planned_number_of_nodes(emitted_stack, rehearse_stack):
    shell = rehearse_stack("sized")
    shell.up()
    nodes = [resource for resource in shell.state() if resource.type == "aws:ec2/instance:Instance"]
    assert len(nodes) == emitted_stack["nodes"]
    assert isinstance(shell.rehearsal, Rehearsal)


def test_second_preview_has_no_change(emitted_stack, rehearse_stack):
    assert {step.op for step in rehearse_stack("sized").preview()} == {"same"}
