"""``gpufleet nodes sweep`` as a person types it, against moto."""

from __future__ import annotations

import json
import re

import boto3
import pytest

import cloud_http


@pytest.fixture(scope="module")
def aws():
    with cloud_http.serve_aws() as gap:
        gap.actions["DescribeCapacityReservations"] = lambda _fields: cloud_http.xml_list(
            "DescribeCapacityReservations", "capacityReservationSet", []
        )
        yield gap


def test_the_code_of_the_dry_run_deletes_exactly_its_list(aws, project, gpufleet, tmp_path):
    environment = {**cloud_http.aws_environment(aws.url), "HOME": str(tmp_path), "NO_GCE_CHECK": "true"}
    ec2 = boto3.client(
        "ec2", "us-east-1", endpoint_url=aws.url, aws_access_key_id="testing", aws_secret_access_key="testing"
    )
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "gpufleet-stack", "Value": "dev"}]}]
    zone = {"AvailabilityZone": "us-east-1a", "Size": 100, "VolumeType": "gp3"}
    ours = ec2.create_volume(**zone, TagSpecifications=tags)["VolumeId"]
    foreign = ec2.create_volume(**zone)["VolumeId"]
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"version": 3, "deployment": {"resources": []}}))
    sweep = ("nodes", "sweep", "-s", "dev", "--state", state)

    dry = gpufleet(*sweep, cwd=project, env=environment)
    assert dry.returncode == 1, dry.stderr  # dev also has pools on clouds without an account here
    assert "not swept: gcp, azure" in dry.stderr
    assert re.search(rf"delete aws us-east-1 volume {ours} 100 GiB gp3 available: 8.00 USD/month", dry.stdout)
    code = re.search(r"--apply --confirm ([0-9a-f]{8})$", dry.stdout, re.MULTILINE)[1]

    refused = gpufleet(*sweep, "--apply", cwd=project, env=environment)
    assert (refused.returncode, "a confirmation is missing" in refused.stderr) == (2, True)
    assert {each["VolumeId"] for each in ec2.describe_volumes()["Volumes"]} >= {ours, foreign}

    applied = gpufleet(*sweep, "--apply", "--confirm", code, cwd=project, env=environment)
    assert f"deleted: volume {ours}" in applied.stderr
    left = {each["VolumeId"] for each in ec2.describe_volumes()["Volumes"]}
    assert foreign in left
    assert ours not in left
