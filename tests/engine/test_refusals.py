"""Test that `pulumi` reports clearly what the rehearsal cannot do."""

from __future__ import annotations

import pytest

from gpufleet import engine
from gpufleet.errors import InputError

pytestmark = pytest.mark.engine

PROGRAM = "import pulumi_aws\n\npulumi_aws.sqs.Queue('queue')\n"


def test_unknown_resource_type_is_named(other_program):
    shell = other_program(PROGRAM)
    output = shell.run("AWS_REGION=us-east-1 pulumi up -s poc --yes", fails=True).stdout
    assert "the simulated aws does not know aws:sqs/queue:Queue" in output


def test_preview_of_a_failing_program_reports_the_cause(other_program):
    shell = other_program("raise ValueError('no pool of that name')\n")
    text = shell.run("pulumi preview -s poc --json", fails=True).stdout
    with pytest.raises(InputError, match="ValueError: no pool of that name"):
        engine.parse_pulumi_preview(engine.parse_engine_json(text, "-"))


def test_stack_outside_the_rehearsal_is_unknown_to_the_engine(build_stack):
    output = build_stack("poc").run("pulumi up -s production --yes", fails=True).stderr
    assert "production" in output
