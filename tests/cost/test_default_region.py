"""Test the region of resources that name none: the provider's name, the stack's file, --region, the environment."""

from __future__ import annotations

import json

import pytest

from gpufleet import cost
from gpufleet.cost.inputs import default_region
from gpufleet.cost.inputs.default_region import parse_region_options
from gpufleet.errors import InputError

PROVIDER = "urn:pulumi:prod::other::pulumi:providers:{}::{}::04da6b54-80e4-46f7-96ec-b56ff0331ba9"
INSTANCE = "aws:ec2/instance:Instance"


@pytest.fixture
def preview():
    """Return a preview without unchanged resources: an instance whose provider and configuration are not in it."""

    def build(provider=""):
        urn = f"urn:pulumi:prod::other::{INSTANCE}::a"
        provider_urn = provider or PROVIDER.format("aws", "default_7_51_1")
        inputs = {"instanceType": "p4d.24xlarge", "subnetId": "s"}
        state = {"urn": urn, "custom": True, "type": INSTANCE, "inputs": inputs, "provider": provider_urn}
        steps = [{"op": "create", "urn": urn, "newState": state}]
        return {"steps": steps, "changeSummary": {"create": 1, "same": 12}}

    return build


@pytest.fixture
def run_preview(preview, tmp_path, monkeypatch):
    """Price the preview; return the region of its machine and the notes about regions."""
    for name in (name for names in default_region.VARIABLES.values() for name in names):
        monkeypatch.delenv(name, raising=False)

    def run(*options, provider="", stack_file="", project="other"):
        (tmp_path / "Pulumi.yaml").write_text(f"name: {project}\nruntime: nodejs\n")
        if stack_file:
            (tmp_path / "Pulumi.prod.yaml").write_text(stack_file)
        regions = parse_region_options(options)
        cost_diff = cost.diff_from_preview(preview(provider), tmp_path, cost.CostOptions(regions=regions))
        found = {charge.region for charge in cost_diff.after.charges}
        return found.pop() if found else "", [each for each in cost_diff.notes if each.startswith("region ")]

    return run


def note(region, source):
    return [f"region {region} of aws resources without one is from {source}"]


def test_region_is_from_the_stack_file(run_preview):
    settings = "config:\n  aws:region: us-west-2\n"
    assert run_preview(stack_file=settings) == (
        "us-west-2",
        note("us-west-2", "aws:region in Pulumi.prod.yaml"),
    )


def test_stack_file_of_another_project_does_not_count(run_preview):
    region, _ = run_preview(stack_file="config:\n  aws:region: us-west-2\n", project="else")
    assert region == ""


def test_region_is_from_the_environment(run_preview, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert run_preview() == ("us-east-1", note("us-east-1", "AWS_DEFAULT_REGION"))


def test_option_has_priority_over_the_environment_and_the_stack_file_over_both(run_preview, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert run_preview("us-west-2") == ("us-west-2", note("us-west-2", "--region"))
    region, _ = run_preview("us-west-2", stack_file="config: {'aws:region': us-east-2}\n")
    assert region == "us-east-2"


def test_name_of_an_explicit_provider_has_priority(run_preview):
    provider = PROVIDER.format("aws", "aws-us-west-2")
    region, notes = run_preview("aws=us-east-1", provider=provider)
    assert (region, notes) == ("us-west-2", note("us-west-2", "the name of provider aws-us-west-2"))


def test_nothing_names_a_region(run_preview):
    assert run_preview() == ("", [])


def test_remedy_of_a_missing_region_is_the_region(preview, tmp_path, monkeypatch):
    for name in (name for names in default_region.VARIABLES.values() for name in names):
        monkeypatch.delenv(name, raising=False)
    notes = cost.diff_from_preview(preview(), tmp_path).notes
    assert any(each.startswith("give the region of resources without one: --region") for each in notes)
    assert not any("gpufleet prices import" in each for each in notes)


@pytest.mark.parametrize(
    ("value", "cloud", "region"),
    [
        ("eu-west-1", "aws", "eu-west-1"),
        ("us-gov-west-1", "aws", "us-gov-west-1"),
        ("europe-west4", "gcp", "europe-west4"),
        ("us-central1-a", "gcp", "us-central1-a"),
        ("westeurope", "azure", "westeurope"),
        ("azure=East US 2", "azure", "East US 2"),
    ],
)
def test_option_names_a_cloud_or_its_region_does(value, cloud, region):
    (defaults,) = parse_region_options([value]).items()
    assert (defaults[0], [each.region for each in defaults[1]]) == (cloud, [region])


@pytest.mark.parametrize("value", ["", "1", "aws=", "ibm=us-south", "eu_west_1", "\x1b[31m", "="])
def test_option_that_is_not_a_region_is_one_line(value):
    with pytest.raises(InputError, match="is not a region") as error:
        parse_region_options([value])
    assert "\x1b" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["us-esat-1", "euwest-1"])
def test_misspelt_region_has_the_known_one(value):
    with pytest.raises(
        InputError, match=r"--region: '.*' is not a region; did you mean (us-east-1|eu-west-1)\?"
    ):
        parse_region_options([value])


def test_other_clouds_get_their_regions_too(make_resource, book):
    regions = parse_region_options(["us-central1", "eastus"])
    machine = {"machineType": "n1-standard-8", "bootDisk": {"source": "d"}}
    disk = {"diskSizeGB": 128, "sku": {"name": "Premium_LRS"}}
    resources = [
        make_resource("g", "gcp:compute/instance:Instance", machine),
        make_resource("d", "azure-native:compute:Disk", disk),
    ]
    bill = cost.price_resources(resources, book, regions=regions)
    assert {charge.region for charge in bill.charges} == {"us-central1", "eastus"}
    assert len(bill.region_notes) == 2


def test_command_has_the_option(gpufleet, preview, tmp_path):
    (tmp_path / "preview.json").write_text(json.dumps(preview()))
    arguments = ("cost", "diff", "--preview", "preview.json", "--region", "us-east-1")
    assert note("us-east-1", "--region")[0] in gpufleet(*arguments, cwd=tmp_path).stdout


def test_evaluated_program_gets_the_region_of_the_option(gpufleet, tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("name: other\nruntime: python\n")
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {}\n")
    lines = ("import pulumi_aws as aws", "aws.ec2.Eip('a')")
    (tmp_path / "__main__.py").write_text("\n".join(lines))
    arguments = ("cost", "estimate", "-s", "dev", "--region", "us-east-1", "--project", tmp_path)
    output = gpufleet(*arguments, cwd=tmp_path, env={"AWS_REGION": "eu-west-1"}).stdout
    assert "public_ipv4 in us-east-1" in output
    assert note("us-east-1", "--region")[0] in output


@pytest.mark.parametrize("value", ["[1]", "{a: b}"])
def test_folder_of_the_stacks_that_is_not_a_text_is_an_error(tmp_path, value):
    (tmp_path / "Pulumi.yaml").write_text(f"name: shop\nruntime: python\nstackConfigDir: {value}\n")
    with pytest.raises(InputError, match=r"Pulumi\.yaml: stackConfigDir: must be a text"):
        default_region.find_default_regions({}, {}, tmp_path, "dev", "shop")
