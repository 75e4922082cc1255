from __future__ import annotations

import re
from pathlib import Path

import boto3
import pytest

import cloud_http
from gpufleet.errors import EnvironmentFault
from gpufleet.fleet import AwsAccount
from gpufleet.nodes import Registry, build_pulumi_state_report
from gpufleet.nodes.cloud_api import aws
from gpufleet.nodes.cloud_api.aws import fetch_aws_instance_report, parse_aws_instance
from gpufleet.nodes.cloud_api.instance import CloudGroup, build_instance_report

IMAGE = "ami-12c6146b"  # one of moto's own


@pytest.fixture(scope="module")
def moto_url():
    """Serve EC2's API by moto, over HTTP on this machine."""
    with cloud_http.serve_moto() as url:
        yield url


@pytest.fixture
def ec2(monkeypatch, moto_url):
    """Give a client of moto's server, which has nothing yet; our own code finds it by the same variables."""
    for name, value in cloud_http.aws_environment(moto_url).items():
        monkeypatch.setenv(name, value)
    cloud_http.reset_moto(moto_url)
    return boto3.client("ec2", region_name="us-east-1")


def start(ec2, count=1, **tags):
    marks = [{"Key": f"gpufleet-{key}", "Value": value} for key, value in tags.items()]
    spec = [{"ResourceType": "instance", "Tags": marks}]
    instances = ec2.run_instances(
        ImageId=IMAGE, InstanceType="g5.2xlarge", MinCount=count, MaxCount=count, TagSpecifications=spec
    )
    return [instance["InstanceId"] for instance in instances["Instances"]]


def test_only_instances_of_the_stack_are_reported(ec2, lab):
    start(ec2, stack="dev", pool="train", node="dev-train-1")
    start(ec2, stack="other", pool="train", node="other-train-1")
    report = fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0))
    assert [seen.name for seen in report.observations] == ["dev-train-1"]
    assert report.source == "aws:dev:us-east-1"


def test_group_members_are_distinguished_by_their_instance_id(ec2, lab):
    ids = start(ec2, count=3, stack="dev", pool="train")
    names = {seen.name for seen in fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0)).observations}
    assert names == {f"dev-train-{id_[2:10]}" for id_ in ids}


def test_every_page_is_read(ec2, lab, monkeypatch):
    monkeypatch.setattr(aws, "_PAGE_SIZE", 5)  # the smallest that EC2 takes
    for _ in range(3):
        start(ec2, count=4, stack="dev", pool="train")
    assert len(fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0)).observations) == 12


def test_terminated_instances_are_omitted(ec2, lab):
    ec2.terminate_instances(InstanceIds=start(ec2, stack="dev", pool="train"))
    assert fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0)).observations == []


def test_reported_facts_come_from_the_api(ec2, lab):
    start(ec2, stack="dev", pool="train", node="dev-train-1", purchase="on_demand")
    (seen,) = fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0)).observations
    assert (seen.observed["machine"], seen.observed["power"]) == ("g5.2xlarge", "running")
    assert seen.observed["accelerators"] == [{"model": "A10G", "memory_gib": 24.0, "count": 1}]
    assert seen.observed["usd_per_hour"] == pytest.approx(1.212)


def test_api_and_state_report_the_same_node(lab, tmp_path):
    import json

    from gpufleet.engine import parse_stack_state

    case = Path(__file__).parents[1] / "cases/nodes/state-dev.json"
    state = build_pulumi_state_report(parse_stack_state(json.loads(case.read_text())), "dev", lab.minutes(0))
    member = next(seen for seen in state.observations if seen.declared["cloud"] == "aws")
    tags = [
        {"Key": f"gpufleet-{key}", "Value": value} for key, value in (("stack", "dev"), ("pool", "train"))
    ]
    instance = {
        "InstanceId": member.identity.instance_id,
        "InstanceType": "g5.2xlarge",
        "State": {"Name": "running"},
        "Tags": tags,
    }
    with Registry(f"sqlite:///{tmp_path}/r.db") as registry:
        registry.apply_source_report(state)
        seen = [parse_aws_instance(instance, "us-east-1")]
        report = build_instance_report(seen, "aws:dev:us-east-1", lab.minutes(1))
        outcome = registry.apply_source_report(report)
        assert (outcome.created, outcome.conflicts) == ([], [])
        assert {seen.source for seen in registry.get_node(member.name).sources} == {
            "pulumi:dev",
            "aws:dev:us-east-1",
        }


def test_missing_credentials_are_an_environment_fault(lab, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of the tests before
    with pytest.raises(EnvironmentFault, match="credentials") as excinfo:
        fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0))
    assert "credentials" in excinfo.value.hint


def test_members_of_an_auto_scaling_group_are_reported_with_the_facts_of_their_group(
    ec2, moto_url, lab, monkeypatch
):
    groups = boto3.client("autoscaling", region_name="us-east-1")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    groups.create_launch_configuration(LaunchConfigurationName="t", ImageId=IMAGE, InstanceType="g5.2xlarge")
    groups.create_auto_scaling_group(
        AutoScalingGroupName="dev-train",
        LaunchConfigurationName="t",
        MinSize=3,
        MaxSize=3,
        VPCZoneIdentifier=subnet,
        Tags=[{"Key": "gpufleet-stack", "Value": "dev", "PropagateAtLaunch": True}],
    )
    group = CloudGroup(
        "train",
        "aws",
        "us-east-1",
        "autoscaling_group",
        "arn:of-the-group",
        "dev-train",
        "spot",
        "trainer",
        "ubuntu",
    )
    report = fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0), [group])
    assert len(report.observations) == 3
    assert report.group_sizes == {"arn:of-the-group": 3}
    for seen in report.observations:
        assert (seen.observed["pool"], seen.observed["template"]) == ("train", "trainer")
        assert seen.observed["group"] == "dev-train"
        assert seen.observed["purchase"] == "on_demand"  # the group is tagged spot, EC2 says this one is not


def test_a_service_that_refuses_is_one_line(ec2, lab, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(EnvironmentFault, match="aws us-east-1"):
        fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0))


@pytest.fixture
def profiles(ec2, tmp_path, monkeypatch):
    """Declare the profile research, and nothing else, in a configuration of its own."""
    config = tmp_path / "config"
    config.write_text(
        "[profile research]\naws_access_key_id = a\naws_secret_access_key = b\nregion = us-east-1\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


MOTO_ACCOUNT, OTHER_ACCOUNT = "123456789012", "111122223333"


@pytest.mark.parametrize(
    "account",
    [
        {"profile": "research"},
        {"profile": "research", "account_id": MOTO_ACCOUNT},
        {"role_arn": f"arn:aws:iam::{MOTO_ACCOUNT}:role/gpufleet"},
        {"role_arn": f"arn:aws:iam::{MOTO_ACCOUNT}:role/gpufleet", "profile": "research"},
    ],
)
def test_instances_are_listed_with_the_credentials_of_an_account(ec2, lab, profiles, account):
    start(ec2, stack="dev", pool="train", node="dev-train-1", account="research")
    create = aws.build_client_factory(AwsAccount(**account))
    report = fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0), (), create, account="research")
    assert report.source == "aws:dev:us-east-1:research"
    assert [seen.observed["account"] for seen in report.observations] == ["research"]


@pytest.mark.parametrize(
    ("account", "message"),
    [
        (
            {"profile": "research", "account_id": OTHER_ACCOUNT},
            "aws research: the credentials are of account 1234",
        ),
        ({"profile": "absent"}, "The config profile (absent) could not be found"),
    ],
)
def test_credentials_of_another_account_are_refused(ec2, lab, profiles, account, message):
    create = aws.build_client_factory(AwsAccount(**account))
    with pytest.raises(EnvironmentFault, match=re.escape(message)):
        fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0), (), create)


def test_role_gives_other_credentials_than_the_callers(ec2, profiles):
    role = AwsAccount(role_arn=f"arn:aws:iam::{OTHER_ACCOUNT}:role/gpufleet")
    identity = aws.build_client_factory(role)("sts", "us-east-1").get_caller_identity()
    assert identity["Account"] == OTHER_ACCOUNT
    assert identity["Arn"].endswith("assumed-role/gpufleet/gpufleet")
