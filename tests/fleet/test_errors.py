"""Test that every mistake in a stack file is reported in one line: place, key, value, remedy."""

from __future__ import annotations

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.fleet.error_explanation import guess_key

DEV = "gpufleet:fleet"
# (text of Pulumi.dev.yaml, what it becomes, the line of the error, its key, what else it says)
MISTAKES = [
    ("purchase: {kind: spot", "purchse: {kind: spot", 18, "pools[0].purchse", "did you mean 'purchase'?"),
    (
        "g5.2xlarge ",
        "g5.2xlrge ",
        16,
        "pools[0].machine",
        "'g5.2xlrge' (rule machine-known); did you mean g5.2x",
    ),
    ("count: 1", "count: -1", 17, "pools[0].count", "-1 is negative; give 0 to 1000 nodes"),
    (
        "on_eviction: delete",
        "reservation: cr-1",
        18,
        "pools[0].purchase.reservation",
        "cannot come from a reserv",
    ),
    ("kind: spot", "kind: sport", 18, "pools[0].purchase.kind", "is 'sport'; did you mean 'spot'?"),
    (
        "{kind: on_demand}",
        "{}",
        28,
        "pools[1].purchase.kind",
        "is missing; add it: on_demand, spot, reserved",
    ),
    ("cloud: aws", "cloud: awz", 14, "pools[0].cloud", "is 'awz'; did you mean 'aws'?"),
    ("cloud: aws", "cloud: moon", 14, "pools[0].cloud", "is 'moon'; give aws, gcp or azure"),
    ("count: 1", "count: 010", 17, "pools[0].count", "'010' has a leading zero, which YAML readers read as"),
    ("count: 1", "count: 010", 17, "pools[0].count", "; write 10"),
    ("count: 1", "count: 1_0", 17, "pools[0].count", "the number has underscores"),
    ("count: 1", "count: 0b11", 17, "pools[0].count", "'0b11' is binary"),
    ("count: 1", "count: 0o10", 17, "pools[0].count", "'0o10' is octal"),
    ("hours_per_month: 160", "hours_per_month: 0160", 19, "pools[0].hours_per_month", "write 160"),
    ("count: 1", "count: two", 17, "pools[0].count", "'two' is not a count; give a whole number"),
    ("count: 1", "count: 1.5", 17, "pools[0].count", "1.5 is not a count"),
    ("count: 1", "count: true", 17, "pools[0].count", "True is not a count"),
    ("count: 1", "count: 4000", 17, "pools[0].count", "4000 is more than a pool can have"),
    ("count: 1", "count: {min: 3, max: 1}", 17, "pools[0].count", "out of order; min <= desired <= max"),
    ("count: 1", "count: {min: 1, mx: 1}", 17, "pools[0].count.mx", "did you mean 'max'?"),
    ("count: 1", "count: {min: 1}", 17, "pools[0].count.max", "is missing"),
    ("Standard_NC4as_T4_v3", "Standard_NC6s_v3", 34, "pools[2].machine", "retired by azure on 2025-09-30"),
    ("owner: ml-platform", "ownr: ml-platform", 5, "ownr", "did you mean 'owner'?"),
    ("owner: ml-platform", "owner: ML Platform", 5, "owner", "is 'ML Platform'; give what every cloud takes"),
    ("owner: ml-platform", "owner: 12", 5, "owner", "is 12; give text (quote it"),
    ("owner: ml-platform", "owner:", 5, "owner", "is empty; give text"),
    ("{model: T4, count: 1}", "{model: T5}", 26, "pools[1].accelerators.model", "unknown accelerator 'T5'"),
    ("{model: T4, count: 1}", "{model: T4, count: 0}", 26, "pools[1].accelerators.count", "give at least 1"),
    ("[10.0.0.0/8]", "[10.0.0.1/8]", 11, "ssh.allowed_cidrs[0]", "host bits zero"),
    ("ssh-ed25519", "-----BEGIN OPENSSH PRIVATE KEY", 10, "ssh.authorized_keys[0]", "this is a private key"),
    *(
        (
            "AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn",
            body,
            10,
            "ssh.authorized_keys[0]",
            "the key is damaged",
        )
        for body in (
            "AAAA",
            "AAAAC3NzaC1lZDI1NTE5",
            "AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0",
            "AAAAB3NzaC1yc2E",
            "c:/key",
        )
    ),
    ("- ssh-ed25519", "- id_ed25519", 10, "ssh.authorized_keys[0]", "is not an SSH public key"),
    ("hours_per_month: 160", "hours_per_month: 1000", 19, "pools[0].hours_per_month", "give at most 730"),
    ("hours_per_month: 160", "hours_per_month: 12.5", 19, "pools[0].hours_per_month", "give a whole number"),
    ("name: train\n", "name: Train\n", 13, "pools[0].name", "is 'Train'; give at most 40 lowercase"),
    ("burn_in: quick", "burn_in: quik", 43, "templates.trainer.burn_in", "did you mean 'quick'?"),
    ("branch: auto", "branch: 5x", 41, "templates.trainer.driver.branch", "give auto, or a quoted branch"),
    (
        "container_toolkit: true",
        "container_toolkit: maybe",
        42,
        "templates.trainer.container_toolkit",
        "true or",
    ),
    ("size_gib: 200", "size_gib: big", 48, "templates.llm-server.volumes[0].size_gib", "a whole number"),
    ("volumes:", "volums:", 47, "templates.llm-server.volums", "did you mean 'volumes'?"),
    ("kind: ssd", "knd: ssd", 48, "templates.llm-server.volumes[0].knd", "did you mean 'kind'?"),
    (
        "kind: ssd",
        "colour: red",
        48,
        "templates.llm-server.volumes[0].colour",
        "known keys: name, size_gib, kind",
    ),
    ("zones: [us-central1-a]", "zones: us-central1-a", 24, "pools[1].zones", "give a list"),
    ("{min: 200, max: 500}", "-5", 6, "budget_usd_per_month", "-5 is not a budget"),
    ("{min: 200, max: 500}", "{min: 600, max: 500}", 6, "budget_usd_per_month", "min 600 is over max 500"),
    ("{min: 200, max: 500}", "lots", 6, "budget_usd_per_month", "'lots' is not a budget"),
]


@pytest.fixture
def read_error(tmp_path, repo_root):
    """Return the error of the dev stack after one replacement."""

    def run(old, new):
        text = (repo_root / "stacks/Pulumi.dev.yaml").read_text()
        assert old in text
        file = tmp_path / "Pulumi.dev.yaml"
        file.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError) as excinfo:
            fleet.load_fleet("dev", repo_root, file)
        return str(excinfo.value).replace(f"{tmp_path}/", "")

    return run


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake[1][:40] for mistake in MISTAKES])
def test_mistake_is_reported_in_one_line_with_place_and_remedy(read_error, mistake):
    old, new, line, key, expected_text = mistake
    message = read_error(old, new)
    assert message.startswith(f"Pulumi.dev.yaml:{line}: {DEV}.{key}: ")
    assert expected_text in message
    assert "\n" not in message
    assert len(message) < 260


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("owner: ml-platform", "owner: [a", "is not valid YAML: did not find expected ',' or ']'"),
        ("{min: 200, max: 500}", "{max: .inf}", "6: inf is not a number that JSON can represent"),
        ("owner: ml-platform", "owner: a\n    owner: b", 'is not valid YAML: found duplicate key "owner"'),
        ("gpufleet:fleet", "gpufleet:flet", "has no gpufleet:fleet; 'gpufleet:flet' should read"),
        ("config:", "cfg:", "unknown key 'cfg'; did you mean 'config'?"),
    ],
)
def test_malformed_file_is_reported_in_one_line(read_error, old, new, message):
    line = read_error(old, new)
    assert line.startswith("Pulumi.dev.yaml:")
    assert message in line


def test_first_of_several_errors_is_reported_and_the_others_counted(read_error):
    message = read_error("cloud: aws\n        region: us-east-1", "cloud: awz\n        regio: us-east-1")
    assert message.startswith(f"Pulumi.dev.yaml:14: {DEV}.pools[0].cloud: is 'awz'")
    assert message.endswith("(and 1 more: gpufleet validate)")


def test_unknown_stack_lists_existing_stacks(repo_root):
    with pytest.raises(
        InputError, match=r"Pulumi.prod.yaml: stack 'prod' not found; stacks here: dev, poc, production"
    ):
        fleet.load_fleet("prod", repo_root)


def test_missing_config_file_is_reported(repo_root, tmp_path):
    with pytest.raises(InputError, match=r"nope.yaml: no such file"):
        fleet.load_fleet("dev", repo_root, tmp_path / "nope.yaml")


def test_error_without_a_file_names_the_key(spec, parse_pool):
    with pytest.raises(InputError, match=r"^config: gpufleet:fleet.pools\[0\].count: -1 is negative"):
        parse_pool(count=-1)


@pytest.mark.parametrize("value", [None, [], "text"])
def test_fleet_must_be_a_mapping(tmp_path, value):
    with pytest.raises(InputError, match="is not a mapping of keys to values"):
        fleet.parse_fleet(value, root=tmp_path)


def test_error_exits_with_2(tmp_path):
    with pytest.raises(InputError) as excinfo:
        fleet.parse_fleet({}, root=tmp_path)
    assert excinfo.value.exit_code == 2


def test_merged_yaml_keys_are_read_and_their_errors_have_a_line(tmp_path):
    text = (
        "config:\n  gpufleet:fleet:\n    owner: ml\n    workstations:\n"
        "      - &one {name: a, machine: 'MacBook Pro M2 16GB'}\n      - {<<: *one, name: b, owner: X Y}\n"
    )
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(text)
    with pytest.raises(
        InputError, match=r"Pulumi.x.yaml:6: gpufleet:fleet.workstations\[1\].owner: is 'X Y'"
    ):
        fleet.load_fleet("x", tmp_path, file)
    file.write_text(text.replace("X Y", "xy"))
    assert [item.name for item in fleet.load_fleet("x", tmp_path, file).workstations] == ["a", "b"]


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("size", "count"), ("replicas", "count"), ("quantity", "count"), ("provider", "cloud"), ("az", "zones"),
        ("instance_type", "machine"), ("vm_size", "machine"), ("gpu", "accelerators"), ("bid", "max_usd_per_hour"),
        ("node_groups", "pools"), ("ansible_host", "address"), ("servers", "nodes"), ("type", "kind"),
    ],
)  # fmt: skip
def test_word_of_another_tool_is_the_key_of_ours(word, key):
    assert guess_key(word, [key, "labels"]) == key
