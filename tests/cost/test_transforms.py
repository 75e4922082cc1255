"""Test that programs with transforms and hooks are evaluated as the engine would, and look-ups answered from a file."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet import cost
from gpufleet.errors import InputError

HEAD = """import pulumi, pulumi_aws as aws
disk = {"volume_size": 30, "volume_type": "gp3"}
subnet = aws.ec2.Subnet("s", vpc_id="v", cidr_block="10.0.0.0/24", availability_zone="us-east-1a")
def make(name, **opts):
    aws.ec2.Instance(name, ami="a", instance_type="m5.large", subnet_id=subnet.id, root_block_device=disk,
                     opts=pulumi.ResourceOptions(**opts))
def larger(args):
    if args.type_ == "aws:ec2/instance:Instance":
        return pulumi.ResourceTransformResult({**args.props, "instanceType": "m5.xlarge"}, args.opts)
"""
PROGRAMS = {
    "of the stack": "pulumi.runtime.register_resource_transform(larger)\nmake('one')\n",
    "own": "make('one', transforms=[larger])\n",
    "of a parent": """class Group(pulumi.ComponentResource):
    def __init__(self):
        super().__init__("my:x:Group", "g", None, pulumi.ResourceOptions(transforms=[larger]))
        make("one", parent=self)
Group()
""",
    "asynchronous": """async def later(args):
    return larger(args)
make('one', transforms=[later])
""",
}
HOOK = """hook = pulumi.ResourceHook('h', lambda args: 1 / 0)
make('one', hooks=pulumi.ResourceHookBinding(before_create=[hook]))
"""


@pytest.fixture
def evaluate(tmp_path):
    """Evaluate a program of a committed project, with further files."""

    def run(program, **files):
        (tmp_path / "Pulumi.yaml").write_text("name: demo\nruntime: python\n")
        (tmp_path / "Pulumi.dev.yaml").write_text("config: {aws:region: us-east-1}\n")
        (tmp_path / "__main__.py").write_text(HEAD + program)
        for name, text in files.items():
            (tmp_path / name.replace("_yaml", ".yaml").replace("_", "-")).write_text(text)
        for command in (("init", "-q"), ("add", "-A")):
            subprocess.run(["git", *command], cwd=tmp_path, check=True)
        resources = cost.evaluate_program(tmp_path, "dev")
        return [each for each in resources if each.type == "aws:ec2/instance:Instance"]

    return run


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_transform_changes_what_is_priced_and_leaves_the_rest(evaluate, program):
    (instance,) = evaluate(program)
    assert instance.inputs["instanceType"] == "m5.xlarge"
    assert instance.inputs["rootBlockDevice"] == {"volumeSize": 30, "volumeType": "gp3"}
    assert "subnetId" in instance.inputs, "what deployment decides stays unknown"
    assert instance.property_dependencies["subnetId"]


def test_transform_changes_options_and_the_order_is_the_engines(evaluate):
    (instance,) = evaluate("""def first(args):
    options = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(protect=True, ignore_changes=["tags"]))
    return pulumi.ResourceTransformResult({**args.props, "instanceType": "m5.2xlarge"}, options)
pulumi.runtime.register_resource_transform(larger)
make('one', transforms=[first])
""")
    assert (instance.protect, instance.ignore_changes) == (True, ("tags",))
    assert instance.inputs["instanceType"] == "m5.xlarge", "the transform of the stack comes last"


def test_hook_does_not_run_and_changes_nothing(evaluate):
    (instance,) = evaluate(HOOK)
    assert instance.inputs["instanceType"] == "m5.large"


COUNTED = "for i in range(int(aws.ssm.get_parameter(name='/gpu/count').value)):\n    make(f'i-{i}')\n"
ANSWER = """lookups:
- token: aws:ssm/getParameter:getParameter
  args: {name: /gpu/count}
  result: {value: "3"}
"""


def test_look_up_is_answered_from_the_projects_file(evaluate):
    assert len(evaluate(COUNTED, gpufleet_lookups_yaml=ANSWER)) == 3


@pytest.mark.parametrize(
    "program",
    [COUNTED, "print(aws.ec2.get_instance_type(instance_type='m5.large').memory_size // 1024)\n"],
)
def test_placeholder_of_a_look_up_is_named(evaluate, program):
    with pytest.raises(InputError) as caught:
        evaluate(program, gpufleet_lookups_yaml=ANSWER.replace("/gpu/count", "/other"))
    assert "is looked up in the cloud: give its answer in gpufleet-lookups.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["lookups: 3\n", "lookups: [{token: a}]\n", "lookups: [{token: a, result: {}, x: 1}]\n"]
)
def test_wrong_answers_are_refused_in_one_line(evaluate, text):
    with pytest.raises(InputError, match="look-up"):
        evaluate("make('one')\n", gpufleet_lookups_yaml=text)


def test_look_up_of_an_image_tells_its_system(evaluate):
    (instance,) = evaluate("""image = aws.ec2.get_ami(most_recent=True, owners=["amazon"], filters=[
    {"name": "name", "values": ["Windows_Server-2022-English-Full-Base-*"]}])
aws.ec2.Instance("w", ami=image.id, instance_type="m5.large", availability_zone="us-east-1a")
""")
    bill = cost.price_resources([instance])
    machine = next(each for each in bill.charges if each.component == "machine")
    disk = next(each for each in bill.charges if each.component == "disk:root")
    assert (machine.item, disk.quantity.expected) == ("m5.large:windows", 30)
