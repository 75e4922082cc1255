from __future__ import annotations

import boto3
import pytest
from moto import mock_aws

from gpufleet.errors import EnvironmentFault
from gpufleet.nodes import Registry, build_pulumi_state_report
from gpufleet.nodes.cloud_api import fetch_aws_instance_report, parse_aws_instances

IMAGE = "ami-12c6146b"  # one of moto's own


@pytest.fixture
def ec2(monkeypatch):
    """Serve EC2's API by moto: no request leaves the process."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield boto3.client("ec2", region_name="us-east-1")


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
    assert report.source == "aws:us-east-1"


def test_group_members_are_distinguished_by_their_instance_id(ec2, lab):
    ids = start(ec2, count=3, stack="dev", pool="train")
    names = {seen.name for seen in fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0)).observations}
    assert names == {f"dev-train-{id_[2:10]}" for id_ in ids}


def test_every_page_is_read(ec2, lab):
    for _ in range(12):
        start(ec2, count=100, stack="dev", pool="train")
    assert len(fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0)).observations) == 1200


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
    from pathlib import Path

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
        outcome = registry.apply_source_report(parse_aws_instances([instance], "us-east-1", lab.minutes(1)))
        assert (outcome.created, outcome.conflicts) == ([], [])
        assert {seen.source for seen in registry.get_node(member.name).sources} == {
            "pulumi:dev",
            "aws:us-east-1",
        }


def test_missing_credentials_are_an_environment_fault(lab, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="aws us-east-1") as excinfo:
        fetch_aws_instance_report("dev", "us-east-1", lab.minutes(0))
    assert "credentials" in excinfo.value.hint
