"""Test the import of what is there already: moto's EC2 over HTTP, several accounts and regions, and CSV files."""

from __future__ import annotations

import boto3
import pytest

import cloud_http
from gpufleet.catalog.prices.refresh.source import SourceUnavailable
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport
from gpufleet.nodes.cloud_api.instance import CloudInstance
from gpufleet.nodes.model import utc_now
from gpufleet.operations import node_import

IMAGE = "ami-12c6146b"  # one of moto's own
CONFIG = """\
[profile main]
aws_access_key_id = testing
aws_secret_access_key = testing
[profile again]
aws_access_key_id = testing
aws_secret_access_key = testing
[profile lab]
role_arn = arn:aws:iam::222222222222:role/reader
source_profile = main
"""


@pytest.fixture(scope="module")
def moto_url():
    with cloud_http.serve_moto() as url:
        yield url


@pytest.fixture
def registry_url(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'registry.db'}"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    return url


@pytest.fixture
def aws(monkeypatch, moto_url, tmp_path):
    """Give what starts instances in an account and a region; profiles of ~/.aws/config lead to the accounts."""
    for name, value in cloud_http.aws_environment(moto_url).items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "aws-config"
    config.write_text(CONFIG)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    cloud_http.reset_moto(moto_url)

    def start(region="us-east-1", machine="g5.2xlarge", count=1, profile=None, **tags):
        pairs = [{"Key": key, "Value": value} for key, value in {"team": "ml", **tags}.items()]
        session = boto3.Session(profile_name=profile)
        answer = session.client("ec2", region_name=region).run_instances(
            ImageId=IMAGE, InstanceType=machine, MinCount=count, MaxCount=count,
            TagSpecifications=[{"ResourceType": "instance", "Tags": pairs}],
        )  # fmt: skip
        return [instance["InstanceId"] for instance in answer["Instances"]]

    return start


def list_nodes(url):
    with Registry(url) as registry:
        return {node.name: node for node in registry.list_nodes()}


def import_aws(profiles=(), regions=("us-east-1", "us-west-2"), **options):
    return node_import.import_cloud_instances(node_import.list_aws_listings(profiles, regions), **options)


def test_instances_of_all_regions_are_imported_under_their_names(aws, registry_url):
    aws(Name="trainer")
    aws("us-west-2", Name="server")
    aws(machine="m5.large", Name="web")
    result = import_aws()
    nodes = list_nodes(registry_url)
    assert set(nodes) == {"trainer", "server"}
    assert (nodes["server"].region, nodes["server"].machine, nodes["server"].state) == (
        "us-west-2", "g5.2xlarge", "discovered",
    )  # fmt: skip
    assert nodes["trainer"].accelerators[0]["model"] == "A10G"
    assert result.left_out == 1
    import_aws(all_machines=True)
    assert set(list_nodes(registry_url)) == {"trainer", "server", "web"}


def test_shared_names_are_told_apart_and_stay(aws, registry_url):
    ids = [*aws(Name="worker"), *aws("us-west-2", Name="worker"), *aws()]
    import_aws()
    names = set(list_nodes(registry_url))
    assert {f"worker-{i.removeprefix('i-')[:12]}" for i in ids[:2]} < names
    (alone,) = aws(Name="solo")
    import_aws()
    aws(Name="solo")
    import_aws()
    nodes = list_nodes(registry_url)
    assert nodes["solo"].instance_id == alone, "a node keeps its name when another of that name comes"
    assert names < set(nodes)


def test_node_of_a_stack_is_not_made_twice(aws, registry_url):
    (known,) = aws(
        **{"gpufleet-stack": "dev", "gpufleet-pool": "train", "gpufleet-node": "dev-train-1", "Name": "x"}
    )
    at = utc_now()
    seen = NodeObservation(
        "pulumi:dev",
        "dev-train-1",
        NodeIdentity(instance_id=known),
        declared={"kind": "cloud_vm"},
        observed_at=at,
    )
    with Registry(registry_url) as registry:
        registry.apply_source_report(SourceReport("pulumi:dev", at, [seen]))
    result = import_aws()
    assert [name for outcome in result.outcomes for name in outcome.created] == []
    assert list(list_nodes(registry_url)) == ["dev-train-1"]


def test_accounts_of_profiles_are_imported_each_once(aws, registry_url):
    aws(Name="trainer")
    aws(Name="bench", profile="lab")
    result = import_aws(("main", "again", "lab"), ("us-east-1",))
    sources = [outcome.source for outcome in result.outcomes]
    assert [source.rpartition(":")[0] for source in sources] == [
        "aws-import:123456789012",
        "aws-import:222222222222",
    ]
    assert set(list_nodes(registry_url)) == {"trainer", "bench"}


def test_profile_without_credentials_fails_alone(aws, registry_url, monkeypatch):
    aws(Name="trainer")
    result = import_aws(("nobody", "main"), ("us-east-1",))
    assert list(result.failures) == ["aws-import:nobody"]
    assert set(list_nodes(registry_url)) == {"trainer"}


def test_instance_that_is_gone_is_missing(aws, registry_url):
    (gone,) = aws(Name="trainer")
    import_aws()
    boto3.client("ec2", region_name="us-east-1").terminate_instances(InstanceIds=[gone])
    result = import_aws()
    assert [name for outcome in result.outcomes for name in outcome.missing] == ["trainer"]
    assert list_nodes(registry_url)["trainer"].is_missing


def make_instance(number, name="gpu"):
    return CloudInstance("gcp", f"{number}", f"{number}", name, "us-central1", "a2-highgpu-1g", "running")


def fail(error):
    raise error


def test_source_that_fails_loses_no_node(registry_url):
    def import_both(second):
        return node_import.import_cloud_instances(
            [("gcp-import:a", lambda: [make_instance(1, "one")]), ("gcp-import:b", second)]
        )

    import_both(lambda: [make_instance(2, "two")])
    result = import_both(lambda: fail(SourceUnavailable("gcp b: 429 rate limit")))
    with pytest.raises(CheckFailed, match="gcp-import:b"):
        result.raise_if_incomplete()
    nodes = list_nodes(registry_url)
    assert set(nodes) == {"one", "two"}
    assert not nodes["two"].is_missing
    with Registry(registry_url) as registry:
        failures = {status.name: status.failure for status in registry.list_source_statuses()}
    assert "429 rate limit" in failures["gcp-import:b"]
    nothing = node_import.import_cloud_instances([("gcp-import:b", lambda: fail(SourceUnavailable("x")))])
    with pytest.raises(EnvironmentFault, match="no source answered"):
        nothing.raise_if_incomplete()


def test_listing_that_breaks_in_the_middle_reports_nothing(registry_url):
    def half():
        yield make_instance(1, "one")
        raise SourceUnavailable("gcp a: page 2 of 3")

    result = node_import.import_cloud_instances([("gcp-import:a", half)])
    assert list(result.failures) == ["gcp-import:a"]
    assert list_nodes(registry_url) == {}


def test_region_that_is_not_enabled_is_refused(aws, registry_url):
    with pytest.raises(InputError, match="mars-1 is not a region"):
        import_aws(regions=("mars-1",))


CSV = """\
name,address,kind,rack,slot,serial,accelerators,machine,usd_per_hour,state
gpu01,10.0.0.1,gpu_server,r1,4,ABC123,8x H100 SXM5 80GB,HGX H100,12.5,ready
desk,desk.lab,workstation,,,,1x GeForce RTX 4090,,,
"""


def write_csv(tmp_path, text, name="legacy.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_csv_file_is_a_source(tmp_path, registry_url):
    result = node_import.import_csv_file(write_csv(tmp_path, CSV))
    assert [outcome.source for outcome in result.outcomes] == ["csv:legacy"]
    nodes = list_nodes(registry_url)
    assert (nodes["gpu01"].rack, nodes["gpu01"].slot, nodes["gpu01"].serial) == ("r1", "4", "ABC123")
    assert nodes["gpu01"].accelerators[0] | {"memory_gib": 0} == {
        "model": "H100 SXM5 80GB",
        "count": 8,
        "memory_gib": 0,
    }
    assert (nodes["gpu01"].state, nodes["gpu01"].usd_per_hour) == ("expected", 12.5)
    node_import.import_csv_file(write_csv(tmp_path, CSV))
    assert len(list_nodes(registry_url)) == 2
    shorter = node_import.import_csv_file(write_csv(tmp_path, "".join(CSV.splitlines(keepends=True)[:2])))
    assert shorter.outcomes[0].missing == ["desk"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("address\n10.0.0.1\n", "name"),
        ("name,colour\na,red\n", "unknown column 'colour'"),
        ("name\na\na\n", "a stands there twice"),
        ("name,kind\na,toaster\n", "'toaster' is not one of compute_blade"),
        ("name,accelerators\na,many H100\n", "is not a number of cards such as"),
        ("name,accelerators\na,8x H1000\n", "names no card of the catalogue"),
        ("name,address\na,10.0.0.1 -o ProxyCommand\n", "is not a well-formed address"),
        ("name\n../x\n", "is not a well-formed name"),
        ("name,usd_per_hour\na,cheap\n", "is not a number"),
    ],
)
def test_malformed_file_changes_nothing(tmp_path, registry_url, text, problem):
    with pytest.raises(InputError, match=problem):
        node_import.import_csv_file(write_csv(tmp_path, text))
    assert not Registry.has_registry(registry_url)
