"""Test ignored inputs and aliases: the values and names before a change count, as in a deployment."""

from __future__ import annotations

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.alias import match_aliases
from gpufleet.cost.inputs.ignored_change import settle_like_engine
from gpufleet.engine import ResourceAlias, StateResource, parse_property_path, reset_ignored_inputs

GROUP = "aws:autoscaling/group:Group"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("size", ("size",)),
        ("a.b.c", ("a", "b", "c")),
        ("a[0].b", ("a", 0, "b")),
        ("a[*].b", ("a", "*", "b")),
        ('a["b.c"]', ("a", "b.c")),
        ('["a"].c', ("a", "c")),
        ('["say \\"b\\""]', ('say "b"',)),
        ("a.[0]", ("a", 0)),
        ("a..b", ("a", "b")),
        ("a[-1]", ("a", -1)),
        (".a", None),
        ("a.", None),
        ("a[", None),
        ("a[x]", None),
        ('a["b', None),
        ('a["b"', None),
        ("", ()),
    ],
)
def test_path_is_read_as_the_engine_reads_it(text, path):
    assert parse_property_path(text) == path


@pytest.mark.parametrize(
    ("path", "old", "new", "result"),
    [
        ("size", {"size": 2}, {"size": 8}, {"size": 2}),
        ("size", {}, {"size": 8}, {}),
        ("size", {"size": 2}, {}, {"size": 2}),
        ("a.size", {"a": {"size": 2}}, {"a": {"size": 8, "max": 9}}, {"a": {"size": 2, "max": 9}}),
        ("a.size", {"a": {"size": 2}}, {}, {}),  # no place is created on the way
        ("a.size", {}, {"a": {"size": 8}}, {"a": {}}),
        ("scaling_config.desired_size", {"scalingConfig": {"desiredSize": 2}},
         {"scalingConfig": {"desiredSize": 8}}, {"scalingConfig": {"desiredSize": 8}}),
        ("l[0]", {"l": [1, 2]}, {"l": [8, 9]}, {"l": [1, 9]}),
        ("l[1]", {"l": [1, 2]}, {"l": [8]}, {"l": [8]}),  # a list keeps its length
        ("l[*].n", {"l": [{"n": 1}, {"n": 2}]}, {"l": [{"n": 8}, {"n": 9}]}, {"l": [{"n": 1}, {"n": 2}]}),
        ("l[*].n", {"l": [{"n": 1}]}, {"l": [{"n": 8}, {"n": 9}]}, {"l": [{"n": 1}, {"n": 9}]}),
        ("l[*]", {"l": [1]}, {"l": [8, 9]}, {"l": [1, 9]}),
        ("*", {"a": 1, "b": 2}, {"a": 8, "c": 3}, {"a": 1, "b": 2}),
        ("a[", {"a": 1}, {"a": 8}, {"a": 8}),
        ("l[-1]", {"l": [1]}, {"l": [8]}, {"l": [8]}),
        ("l.n", {"l": [1]}, {"l": [8]}, {"l": [8]}),
    ],
)  # fmt: skip
def test_ignored_path_is_reset_as_by_the_engine(path, old, new, result):
    assert reset_ignored_inputs(new, old, [path]) == result


def make_group(name, size, urn_type=GROUP, **fields):
    inputs = {"desiredCapacity": size, "region": "us-east-1"}
    return StateResource(f"urn:pulumi:s::p::{urn_type}::{name}", GROUP, name, inputs, {}, **fields)


def test_ignored_size_does_not_change_and_is_named():
    before = [make_group("workers", 2)]
    after = [make_group("workers", 8, ignore_changes=("desiredCapacity",))]
    _, (settled,), (warning,) = settle_like_engine(before, after)
    assert settled.inputs["desiredCapacity"] == 2
    assert warning == (
        "workers ignores changes to desiredCapacity: what it has before the change counts here"
    )


def test_new_resource_ignores_nothing():
    after = [make_group("workers", 8, ignore_changes=("desiredCapacity",))]
    _, (settled,), warnings = settle_like_engine([], after)
    assert settled.inputs["desiredCapacity"] == 8
    assert warnings == []


ALIASES = [
    ResourceAlias(name="old"),
    ResourceAlias(urn=f"urn:pulumi:s::p::{GROUP}::old"),
    ResourceAlias(name="old", no_parent=True),
]


@pytest.mark.parametrize("alias", ALIASES)
def test_renamed_resource_with_an_alias_is_the_same_one(alias):
    before, after = [make_group("old", 2)], [make_group("new", 2, aliases=(alias,))]
    old, new, _ = settle_like_engine(before, after)
    assert [each.urn for each in old] == [each.urn for each in new]
    assert old[0].name == "new"


def test_alias_of_type_and_of_parent():
    parent = StateResource("urn:pulumi:s::p::x:y:New::app", "x:y:New", "app", {}, {}, custom=False,
                           aliases=(ResourceAlias(type="x:y:Old", name="site"),))  # fmt: skip
    child = make_group("app-workers", 2, f"x:y:New${GROUP}", parent=parent.urn)
    old_urns = {"urn:pulumi:s::p::x:y:Old::site", f"urn:pulumi:s::p::x:y:Old${GROUP}::site-workers"}
    assert match_aliases(old_urns, [parent, child]) == {
        "urn:pulumi:s::p::x:y:Old::site": parent.urn,
        f"urn:pulumi:s::p::x:y:Old${GROUP}::site-workers": child.urn,
    }


def test_alias_with_an_earlier_parent():
    component = "urn:pulumi:s::p::x:y:Box::box"
    moved = make_group("workers", 2, aliases=(ResourceAlias(parent=component),))
    old = f"urn:pulumi:s::p::x:y:Box${GROUP}::workers"
    assert match_aliases({old}, [moved]) == {old: moved.urn}


def test_alias_of_a_resource_that_is_still_there_matches_nothing():
    kept, new = make_group("old", 2), make_group("new", 2, aliases=(ResourceAlias(name="old"),))
    assert match_aliases({kept.urn}, [new, kept]) == {}


PROGRAM = """import pulumi, pulumi_aws as aws
pulumi_options = pulumi.ResourceOptions({options})
aws.ec2.Instance("{name}", instance_type="g5.xlarge", subnet_id="subnet-1", opts=pulumi_options)
"""


@pytest.fixture
def write_project(tmp_path):
    """Write a project of one AWS program; returns its folder."""

    def write(text):
        (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
        (tmp_path / "Pulumi.dev.yaml").write_text('config: {"aws:region": us-east-1}\n')
        (tmp_path / "__main__.py").write_text(text)
        return tmp_path

    return write


def test_evaluated_program_hands_its_aliases_on(write_project):
    options = 'aliases=[pulumi.Alias(name="old"), "urn:pulumi:dev::p::a:b:C::x", pulumi.Alias(parent=None)]'
    root = write_project(PROGRAM.format(options=options, name="new"))
    (instance,) = [each for each in cost.evaluate_program(root, "dev") if each.name == "new"]
    assert instance.aliases == (
        ResourceAlias(name="old"),
        ResourceAlias(urn="urn:pulumi:dev::p::a:b:C::x"),
        ResourceAlias(no_parent=True),
    )


IGNORING = """import pulumi, pulumi_aws as aws
aws.autoscaling.Group("workers", min_size=1, max_size=9, desired_capacity={size}, vpc_zone_identifiers=["subnet-1"],
    launch_template={{"id": "lt-1"}}, opts=pulumi.ResourceOptions(ignore_changes={ignored}))
"""


@pytest.mark.parametrize(("ignored", "size"), [(["desired_capacity"], 2), (["max_size"], 8), ([], 8)])
def test_comparison_with_a_git_ref_ignores_what_the_engine_ignores(write_project, ignored, size):
    root = write_project(IGNORING.format(size=2, ignored=[]))
    before = cost.evaluate_program(root, "dev")
    write_project(IGNORING.format(size=8, ignored=ignored))
    _, after, _ = settle_like_engine(before, cost.evaluate_program(root, "dev"))
    (group,) = [each for each in after if each.type == GROUP]
    assert group.inputs["desiredCapacity"] == size
