"""Test programs in Pulumi YAML: they are evaluated without the engine, at both git refs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpufleet import cost
from gpufleet.boundary import decode_yaml
from gpufleet.cost.inputs.program.evaluation import start_git_ref_comparison
from gpufleet.cost.inputs.program.language import InputError as ProgramError
from gpufleet.cost.inputs.program.language import LanguageProgram, yaml_program
from gpufleet.cost.inputs.program.language.yaml_text import split_interpolation
from gpufleet.cost.inputs.program.monitor import RecordingMonitor
from gpufleet.engine import UnreadableValue, parse_stack_state
from gpufleet.errors import InputError

UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) != 0)"
CAN_CONFINE = sys.platform == "linux" and not subprocess.call([sys.executable, "-c", UNSHARE])
needs_confinement = pytest.mark.skipif(not CAN_CONFINE, reason="this kernel allows no namespaces")
HEAD = "name: web\nruntime: yaml\n"
CONFIGURATION = {
    "aws:region": "us-west-2", "web:size": "c5.xlarge", "web:zones": '["a","b"]', "web:secret": "[secret]",
}  # fmt: skip


@pytest.fixture
def evaluate(tmp_path):
    """Evaluate the text of a program in this process, and return its resources by name."""

    def run(text, files=()):
        (tmp_path / "Pulumi.yaml").write_text(HEAD + text)
        for name, content in dict(files).items():
            (tmp_path / name).write_text(content)
        program = LanguageProgram(tmp_path, "web", "dev", ".", {}, CONFIGURATION, ["web:secret"], {})
        recorder = RecordingMonitor("web", "dev", {"aws": {"region": "us-west-2"}})
        yaml_program.evaluate(program, recorder, lambda path: decode_yaml(path.read_text(), str(path)))
        resources = parse_stack_state({"deployment": {"resources": list(recorder.records.values())}})
        return {each.urn.rpartition("::")[2]: each for each in resources}

    return run


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{fn::join: ['-', [a, '${size}']]}", "a-c5.xlarge"),
        ("{fn::split: [',', 'a,b']}", ["a", "b"]),
        ("{fn::select: [1, '${zones}']}", "b"),
        ("{fn::toJSON: {b: [1, true], a: 2012-10-17}}", '{"a":"2012-10-17","b":[1,true]}'),
        ("{fn::toJSON: 'é<&'}", '"é\\u003c\\u0026"'),
        ("{fn::toBase64: hello}", "aGVsbG8="),
        ("{fn::fromBase64: aGVsbG8=}", "hello"),
        ("{fn::readFile: ./note.txt}", "note"),
        ("'${zones[0]}-$${x}-${pulumi.stack}'", "a-${x}-dev"),
        ("'${map[\"a.b\"].c}'", 3),
        ("'n${map[\"a.b\"].c}'", "n3"),
        ("'${aws:region}'", "us-west-2"),
        ("'${default}'", 7),
        ("{FN::Join: ['', [x, y]]}", "xy"),
        ("{fn::aws:getAvailabilityZones: {}}", None),
        ("{fn::secret: x}", UnreadableValue.SECRET),
        ("'${secret}'", UnreadableValue.SECRET),
        ("'a${hidden}'", UnreadableValue.SECRET),
        ("'${other.arn}'", UnreadableValue.UNKNOWN),
        ("'x${other.arn}'", UnreadableValue.UNKNOWN),
        ("'${other.tags.Name}'", "o"),
        ("'${other.id}'", UnreadableValue.UNKNOWN),
        ("{fn::stackReference: [org/net/dev, vpc]}", UnreadableValue.UNKNOWN),
        ("'${net.outputs[\"vpc\"]}'", UnreadableValue.UNKNOWN),
        ("'${zone.names[0]}'", "us-west-2a"),
        ("'${read.id}'", "vpc-1"),
    ],
)
def test_expressions_have_the_values_of_the_language(evaluate, expression, value):
    text = f"""
configuration:
  size: {{type: string}}
  default: {{type: integer, default: 7}}
variables:
  map: {{a.b: {{c: 3}}}}
  hidden: {{fn::secret: x}}
  zone: {{fn::invoke: {{function: 'aws:getAvailabilityZones'}}}}
resources:
  it: {{type: 'aws:ec2:Instance', properties: {{value: {expression}}}}}
  other: {{type: 'aws:ec2:Vpc', properties: {{tags: {{Name: o}}}}}}
  net: {{type: 'pulumi:pulumi:StackReference', properties: {{name: org/net/dev}}}}
  read: {{type: 'aws:ec2:Vpc', get: {{id: vpc-1}}}}
"""
    inputs = evaluate(text, files={"note.txt": "note"})["it"].inputs
    assert inputs["value"] == value if value is not None else inputs["value"]["names"]


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("aws:ec2:Instance", "aws:ec2/instance:Instance"),
        ("aws:ec2/instance:Instance", "aws:ec2/instance:Instance"),
        ("gcp:compute:Instance", "gcp:compute/instance:Instance"),
        ("random:RandomPet", "random:index/randomPet:RandomPet"),
        ("azure-native:compute:VirtualMachine", "azure-native:compute:VirtualMachine"),
        ("kubernetes:apps/v1:Deployment", "kubernetes:apps/v1:Deployment"),
        ("eks:Cluster", "eks:index:Cluster"),
        ("awsx:ec2:Vpc", "awsx:ec2:Vpc"),
    ],
)
def test_types_get_their_full_token(evaluate, written, full):
    resource = evaluate(f"resources:\n  it: {{type: '{written}'}}\n")["it"]
    assert resource.type == full


def test_options_reach_the_resources(evaluate):
    resources = evaluate(
        "resources:\n"
        "  west: {type: 'pulumi:providers:aws', defaultProvider: true, properties: {region: eu-west-1}}\n"
        "  east: {type: 'pulumi:providers:aws', properties: {region: us-east-1}}\n"
        "  a: {type: 'aws:ec2:Vpc', name: renamed, options: {protect: true, ignoreChanges: [tags]}}\n"
        "  b: {type: 'aws:ec2:Subnet', options: {parent: '${a}', provider: '${east}'}, properties: {vpc: '${a}'}}\n"
    )
    assert resources["renamed"].provider.startswith("urn:pulumi:dev::web::pulumi:providers:aws::west::")
    assert "::east::" in resources["b"].provider
    assert resources["b"].parent == resources["renamed"].urn
    assert resources["b"].inputs["vpc"] is UnreadableValue.UNKNOWN
    assert "aws:ec2/vpc:Vpc$aws:ec2/subnet:Subnet" in resources["b"].urn


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resources:\n  a: {type: 'aws:ec2:Vpc', properties: {x: '${nothing}'}}\n", "could not be found"),
        ("variables: {a: '${b}', b: '${a}'}\n", "circular dependency: a -> b -> a"),
        ("variables: {a: '${b'}\n", "is not closed"),
        ("resources: {a: {}}\n", "must have a type"),
        ("resources: {a: {type: x}}\n", "is not a type"),
        ("resources: [a]\n", "must be a mapping"),
        ("configuration: {a: {type: integer}}\nvariables: {b: '${a}'}\n", "missing required configuration"),
        ("configuration: {size: {type: integer}}\nvariables: {b: '${size}'}\n", "is not of type integer"),
        ("variables: {b: {fn::readFile: /etc/nothing}}\n", "cannot read '/etc/nothing'"),
        ("variables: {b: {fn::join: [a]}}\n", "a list of two values"),
        ("variables: {b: {fn::select: [9, [a]]}}\n", "out of bounds"),
    ],
)
def test_mistakes_are_one_line(evaluate, text, message):
    with pytest.raises(ProgramError) as error:
        evaluate(text)
    assert message in error.value.problem


@needs_confinement
def test_program_that_another_one_writes_is_refused(tmp_path):
    (tmp_path / "Pulumi.yaml").write_text(
        "name: web\nruntime: {name: yaml, options: {compiler: cue export}}\n"
    )
    (tmp_path / "Pulumi.dev.yaml").write_text("")
    with pytest.raises(InputError, match="use --preview"):
        cost.evaluate_program(tmp_path, "dev")


@needs_confinement
def test_both_refs_and_main_are_read(tmp_path):
    def git(*arguments):
        author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *author, *arguments], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "Pulumi.yaml").write_text(f"{HEAD}main: infra\n")
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {'aws:region': us-east-1}\n")
    (tmp_path / "infra").mkdir()
    for size in ("m5.large", "m5.xlarge"):
        program = f"resources: {{n: {{type: 'aws:ec2:Instance', properties: {{instanceType: {size}}}}}}}\n"
        (tmp_path / "infra/Main.yaml").write_text(program)
        git("add", "-A")
        git("commit", "-qm", size)
    with start_git_ref_comparison(tmp_path, "dev", "HEAD~1") as run:
        before, after = run()
    machines = [
        [r.inputs["instanceType"] for r in side if r.type.endswith(":Instance")] for side in (before, after)
    ]
    assert machines == [["m5.large"], ["m5.xlarge"]]


@pytest.mark.parametrize("text", ["${", "${a[}", '${a["x}', "${}", "${[0]}", "a${b.c"])
def test_text_that_is_no_interpolation_is_refused(text):
    with pytest.raises(ValueError):
        split_interpolation(text)
