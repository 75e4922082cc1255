"""Quota of a stack: needs are pure; limits and usage come through the real SDKs from moto and doubles."""

from __future__ import annotations

import json
from functools import partial

import boto3
import pytest

import cloud_http
from gpufleet import fleet
from gpufleet.errors import CheckFailed, EnvironmentFault
from gpufleet.nodes.cloud_api.azure import AzureApi
from gpufleet.nodes.cloud_api.gcp import GcpApi
from gpufleet.operations.quota import check, list_quota_needs
from gpufleet.operations.quota.aws import is_in_bucket, read_aws_usage
from gpufleet.operations.quota.azure import read_azure_usage
from gpufleet.operations.quota.gcp import is_of_bucket, read_gcp_usage
from gpufleet.operations.quota.increase import build_aws_request
from gpufleet.operations.quota.usage import BucketUsage

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
TRAIN = {"name": "train", "cloud": "aws", "region": "us-east-1", "machine": "g5.2xlarge", "count": 4}
SERVE = {"name": "serve", "cloud": "gcp", "region": "us-central1", "machine": "a2-highgpu-1g", "count": 3}
TUNE = {"name": "tune", "cloud": "azure", "region": "eastus", "machine": "Standard_ND96asr_v4", "count": 2}
ON_DEMAND, SPOT = {"kind": "on_demand"}, {"kind": "spot"}


def declare(*pools):
    spec = {"owner": "research", "pools": [{"purchase": ON_DEMAND, **pool} for pool in pools]}
    return fleet.Fleet.from_spec(fleet.spec.FleetSpec.model_validate(spec), "dev", ())


def check_fleet(declared, reader):
    """Return the checks of one cloud, by purchase and region."""
    needs = list_quota_needs(declared)
    usage = reader(needs, declared)
    return {(need.region, need.purchase): check._compare(need, usage.get(need, "none")) for need in needs}


def test_pools_share_a_bucket_and_spot_has_its_own():
    needs = list_quota_needs(
        declare(
            TRAIN, {**TRAIN, "name": "more", "machine": "g6.xlarge"}, {**TRAIN, "name": "s", "purchase": SPOT}
        )
    )
    assert [(need.purchase, need.bucket, need.amount, need.pools) for need in needs] == [
        ("spot", "L-3819A6DF", 4 * 8, ("s",)),
        ("on_demand", "L-DB2E81BA", 4 * 8 + 4 * 4, ("train", "more")),
    ]


def test_a_ladder_needs_its_whole_count_in_each_bucket_once():
    ladder = {"ladder": [{"kind": "reserved", "reservation": "create"}, SPOT, ON_DEMAND]}
    needs = list_quota_needs(declare({**TRAIN, "purchase": ladder}))
    assert [(need.purchase, need.amount) for need in needs] == [("spot", 32), ("on_demand", 32)]


@pytest.mark.parametrize("kind", ["reserved", "capacity_block"])
def test_an_existing_reservation_needs_nothing_more(kind):
    purchase = {"kind": kind, "reservation": "cr-0123456789abcdef0"}
    assert list_quota_needs(declare({**TRAIN, "purchase": purchase})) == []


def test_a_capacity_block_that_is_bought_is_not_counted_as_enough():
    block = {"kind": "capacity_block", "offering": "cb-0123456789abcdef0", "buy": True}
    (need,) = list_quota_needs(declare({**TRAIN, "machine": "p5.48xlarge", "purchase": block}))
    assert (need.purchase, need.bucket) == ("capacity_block", None)


def test_flex_start_shares_the_preemptible_bucket_of_spot():
    flex = {"kind": "flex_start", "max_run_hours": 24}
    pools = ({**SERVE, "machine": "a3-highgpu-8g", "purchase": each} for each in (flex, SPOT))
    needs = list_quota_needs(declare(*({**pool, "name": f"p{number}"} for number, pool in enumerate(pools))))
    assert [(need.bucket, need.amount) for need in needs if need.region != "global"] == [
        ("PREEMPTIBLE_NVIDIA_H100_GPUS", 48)
    ]


def test_google_has_a_second_global_gate():
    needs = list_quota_needs(declare(SERVE, {**SERVE, "name": "east", "region": "us-east1", "count": 2}))
    assert [(need.region, need.bucket, need.amount) for need in needs] == [
        ("global", "GPUS_ALL_REGIONS", 5),
        ("us-central1", "NVIDIA_A100_GPUS", 3),
        ("us-east1", "NVIDIA_A100_GPUS", 2),
    ]


@pytest.mark.parametrize(
    ("machine", "quota", "expected"),
    [
        ("g5.2xlarge", "Running On-Demand G and VT instances", True),
        ("vt1.3xlarge", "Running On-Demand G and VT instances", True),
        ("p4d.24xlarge", "Running On-Demand P instances", True),
        ("p4de.24xlarge", "All P4, P3 and P2 Spot Instance Requests", True),
        ("p5.48xlarge", "All P4, P3 and P2 Spot Instance Requests", False),
        ("p5en.48xlarge", "All P5 Spot Instance Requests", True),
        ("m5.large", "Running On-Demand G and VT instances", False),
        ("d2.large", "Running On-Demand P instances", False),
    ],
)
def test_a_quotas_name_says_which_instance_types_it_covers(machine, quota, expected):
    assert is_in_bucket(machine, quota) is expected


@pytest.fixture(scope="module")
def aws():
    with cloud_http.serve_aws() as gap:
        yield gap


@pytest.fixture
def account(aws, monkeypatch):
    """Give an account of moto with two quotas and no reservation."""
    for name, value in cloud_http.aws_environment(aws.url).items():
        monkeypatch.setenv(name, value)
    cloud_http.reset_moto(aws.moto)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    aws.seen.clear()
    aws.quotas = {
        "L-DB2E81BA": ("Running On-Demand G and VT instances", 40.0),
        "L-3819A6DF": ("All G and VT Spot Instance Requests", 0.0),
    }
    aws.actions = {
        "DescribeCapacityReservations": lambda _: cloud_http.xml_list(
            "DescribeCapacityReservations", "capacityReservationSet", []
        )
    }
    return aws


def run_instances(count, machine="g5.2xlarge", **tags):
    marks = [{"Key": f"gpufleet-{key}", "Value": value} for key, value in tags.items()]
    boto3.client("ec2").run_instances(
        ImageId="ami-12c6146b",
        InstanceType=machine,
        MinCount=count,
        MaxCount=count,
        TagSpecifications=[{"ResourceType": "instance", "Tags": marks or [{"Key": "a", "Value": "b"}]}],
    )


def test_aws_usage_is_counted_in_vcpus_and_own_machines_are_not_needed_twice(account):
    run_instances(1, stack="dev")
    run_instances(1)
    run_instances(1, machine="m5.large")  # another bucket
    (result,) = check_fleet(declare(TRAIN), read_aws_usage).values()
    assert (result.limit, result.used, result.used_by_stack) == (40.0, 16, 8)
    assert result.status == "enough"  # 8 of others and the stack's 32 are 40


def test_a_low_limit_gets_an_increase_request_for_the_sum(account):
    run_instances(2)
    (result,) = check_fleet(declare(TRAIN), read_aws_usage).values()
    assert (result.status, result.missing) == ("short", 8)
    assert result.request.command == (
        "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-DB2E81BA"
        " --desired-value 48 --region us-east-1"
    )
    with pytest.raises(CheckFailed, match="quota is too low in 1 of 1 buckets"):
        check.QuotaReport("dev", (result,)).raise_if_not_enough()


def test_an_unused_reservation_counts_and_a_capacity_block_does_not(account):
    item = "<instanceType>g5.2xlarge</instanceType><availableInstanceCount>2</availableInstanceCount>"
    block = item + "<reservationType>capacity-block</reservationType>"
    account.actions["DescribeCapacityReservations"] = lambda _: cloud_http.xml_list(
        "DescribeCapacityReservations", "capacityReservationSet", [item, block]
    )
    (result,) = check_fleet(declare(TRAIN), read_aws_usage).values()
    assert result.used == 16


def test_spot_has_its_own_limit(account):
    (result,) = check_fleet(declare({**TRAIN, "purchase": SPOT}), read_aws_usage).values()
    assert (result.limit, result.used, result.missing) == (0.0, 0, 32)


def test_without_credentials_nothing_is_fine(monkeypatch, tmp_path, project, gpufleet):
    environment = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path), "NO_GCE_CHECK": "true"}
    environment |= {"ARM_SUBSCRIPTION_ID": SUBSCRIPTION, "GOOGLE_CLOUD_PROJECT": PROJECT}
    completed = gpufleet("quota", "-s", "dev", "--json", cwd=project, env=environment)
    assert completed.returncode == 3
    rows = json.loads(completed.stdout)["buckets"]
    assert rows
    assert {row["status"] for row in rows} == {"not_checked"}
    assert all(row["reason"] and row["request"] is None for row in rows)
    assert len([line for line in completed.stderr.splitlines() if line]) == 2  # an error and its hint


@pytest.fixture(scope="module")
def google():
    with cloud_http.serve(cloud_http.GoogleService()) as service:
        yield service


PROJECT = "gpu-fleet-1"
INFO = f"projects/{PROJECT}/locations/global/services/compute.googleapis.com/quotaInfos"


@pytest.fixture
def project_api(google):
    google.routes.clear()
    google.aggregate("instances", "instances", {"zones/us-central1-a": []})
    quotas = [{"metric": "NVIDIA_A100_GPUS", "limit": 2.0, "usage": 1.0}, {"metric": "CPUS", "limit": 9.0}]
    google.route(
        "GET",
        rf"/compute/v1/projects/{PROJECT}/regions/us-central1",
        {"name": "us-central1", "quotas": quotas},
    )
    gate = [{"metric": "GPUS_ALL_REGIONS", "limit": 1.0, "usage": 1.0}]
    google.route("GET", rf"/compute/v1/projects/{PROJECT}", {"name": PROJECT, "quotas": gate})
    return GcpApi(PROJECT, cloud_http.google_credentials(), google.url)


def test_google_lists_region_and_project_and_each_gate_gets_its_request(project_api):
    checks = check_fleet(declare(SERVE), lambda needs, declared: read_gcp_usage(needs, declared, project_api))
    regional, gate = checks["us-central1", "on_demand"], checks["global", "any"]
    assert (regional.missing, gate.missing) == (2, 3)
    assert json.loads(regional.request.body) == {
        "service": "compute.googleapis.com",
        "quotaId": "NVIDIA-A100-GPUS-per-project-region",
        "quotaConfig": {"preferredValue": "4"},
        "dimensions": {"region": "us-central1"},
    }
    assert "--quota-id GPUS-ALL-REGIONS-per-project" in gate.request.command


@pytest.mark.parametrize(
    ("type_", "bucket", "expected"),
    [
        ("nvidia-tesla-t4", "PREEMPTIBLE_NVIDIA_T4_GPUS", True),
        ("nvidia-tesla-a100", "NVIDIA_A100_GPUS", True),
        ("nvidia-a100-80gb", "NVIDIA_A100_GPUS", False),
        ("nvidia-a100-80gb", "NVIDIA_A100_80GB_GPUS", True),
        ("nvidia-h100-80gb", "GPUS_PER_GPU_FAMILY:NVIDIA_H100", True),
        ("nvidia-h100-mega-80gb", "GPUS_PER_GPU_FAMILY:NVIDIA_H100", False),
        ("nvidia-h100-mega-80gb", "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS", True),
        ("nvidia-l4", "NVIDIA_T4_GPUS", False),
    ],
)
def test_googles_accelerator_types_are_counted_in_their_bucket(type_, bucket, expected):
    assert is_of_bucket(type_, bucket) is expected


def test_attached_cards_of_this_stack_are_not_needed_twice(google, project_api):
    zone = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/us-central1-a"
    card = {"acceleratorType": f"{zone}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 2}
    node = {
        "name": "dev-small-1", "id": "1", "zone": zone, "machineType": f"{zone}/machineTypes/n1-standard-8",
        "status": "RUNNING", "labels": {"gpufleet-stack": "dev"}, "guestAccelerators": [card],
    }  # fmt: skip
    google.aggregate("instances", "instances", {"zones/us-central1-a": [node]})
    quotas = {"quotas": [{"metric": "NVIDIA_T4_GPUS", "limit": 2.0, "usage": 2.0}]}
    google.route("GET", rf"/compute/v1/projects/{PROJECT}/regions/us-central1", quotas)
    small = {**SERVE, "machine": "n1-standard-8", "accelerators": {"model": "T4", "count": 2}, "count": 1}
    checks = check_fleet(declare(small), lambda needs, declared: read_gcp_usage(needs, declared, project_api))
    regional = checks["us-central1", "on_demand"]
    assert (regional.status, regional.used, regional.used_by_stack) == ("enough", 2.0, 2)


def family_limit(family, value):
    """Return a row of ``dimensionsInfos``."""
    limit = {"dimensions": {"gpu_family": family}, "details": {"value": value}}
    return {**limit, "applicableLocations": ["us-central1"]}


def test_buckets_that_the_regional_list_omits_come_from_cloud_quotas(google, project_api):
    info = {
        "name": f"{INFO}/GPUS-PER-GPU-FAMILY-per-project-region",
        "quotaId": "GPUS-PER-GPU-FAMILY-per-project-region",
        "metric": "compute.googleapis.com/gpus_per_gpu_family",
        "service": "compute.googleapis.com",
        "dimensions": ["region", "gpu_family"],
        "dimensionsInfos": [
            {
                "dimensions": {"gpu_family": "NVIDIA_H200"},
                "details": {"value": "99"},
                "applicableLocations": ["us-central1"],
            },
            {
                "dimensions": {"gpu_family": "NVIDIA_H100"},
                "details": {"value": "8"},
                "applicableLocations": ["us-central1"],
            },
        ],
    }
    google.route("GET", rf"/v1/{INFO}", {"quotaInfos": [info]})
    (need,) = (need for need in list_quota_needs(declare(SERVE)) if need.region == "us-central1")
    h100 = check.QuotaNeed(
        **{
            **check.vars_of(need),
            "bucket": "GPUS_PER_GPU_FAMILY:NVIDIA_H100",
            "amount": 16,
            "machines": ("a3-highgpu-8g",),
        }
    )
    usage = read_gcp_usage([h100], declare(SERVE), project_api)[h100]
    assert (usage.limit, usage.used) == (8.0, 0)
    request = usage.request(16)
    assert json.loads(request.body)["dimensions"] == {"gpu_family": "NVIDIA_H100", "region": "us-central1"}
    assert (
        request.url
        == f"https://cloudquotas.googleapis.com/v1/projects/{PROJECT}/locations/global/quotaPreferences"
    )


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    certificate = cloud_http.write_certificate(tmp_path_factory.mktemp("tls") / "azure.pem")
    with cloud_http.serve(cloud_http.AzureService(), str(certificate)) as service:
        service.certificate = str(certificate)
        yield service


@pytest.fixture
def subscription_api(azure):
    azure.routes.clear()
    provider = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute"
    sku = {
        "resourceType": "virtualMachines",
        "name": "Standard_ND96asr_v4",
        "family": "standardNDASv4_A100Family",
        "locations": ["eastus"],
        "capabilities": [{"name": "vCPUs", "value": "96"}],
    }
    usages = [
        {"unit": "Count", "currentValue": 96, "limit": 100, "name": {"value": "standard NDASv4_A100Family"}},
        {"unit": "Count", "currentValue": 0, "limit": 3, "name": {"value": "lowPriorityCores"}},
        {"unit": "Count", "currentValue": 5, "limit": 9, "name": {"value": "cores"}},
    ]
    azure.list_at(f"{provider}/virtualMachineScaleSets", [])
    azure.list_at(f"{provider}/virtualMachines", [])
    azure.list_at(f"{provider}/skus", [sku])
    azure.list_at(f"{provider}/locations/eastus/usages", usages)
    return AzureApi(
        SUBSCRIPTION, cloud_http.StaticAzureCredential(), azure.url, certificates=azure.certificate
    )


def test_azure_names_the_family_and_spot_shares_one_bucket(subscription_api):
    def read(needs, declared):
        return read_azure_usage(needs, declared, subscription_api)

    checks = check_fleet(declare(TUNE, {**TUNE, "name": "cheap", "count": 1, "purchase": SPOT}), read)
    family, spot = checks["eastus", "on_demand"], checks["eastus", "spot"]
    assert (family.need.bucket, family.need.amount, family.missing) == (
        "standard NDASv4_A100Family",
        192,
        188,
    )
    assert (spot.need.bucket, spot.missing) == ("lowPriorityCores", 93)
    assert spot.request.command.startswith(
        "az quota update --resource-name lowPriorityCores --scope /subscriptions/"
    )
    assert "/providers/Microsoft.Quota/quotas/lowPriorityCores?api-version=2023-02-01" in spot.request.url


def test_a_size_that_azure_does_not_offer_is_not_checked(azure, subscription_api):
    azure.list_at(f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/skus", [])
    checks = check_fleet(
        declare(TUNE), lambda needs, declared: read_azure_usage(needs, declared, subscription_api)
    )
    (result,) = checks.values()
    assert (result.status, result.request) == ("not_checked", None)
    with pytest.raises(EnvironmentFault, match="1 of 1 buckets were not checked"):
        check.QuotaReport("dev", (result,)).raise_if_not_enough()


def test_accounts_are_checked_one_by_one_with_their_own_keys(project, monkeypatch):
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    role = "arn:aws:iam::444455556666:role/gpufleet"
    accounts = {"research": {"aws": {"profile": "research"}}, "batch": {"aws": {"role_arn": role}},
                "lab": {"gcp": {"project": "acme-lab"}}}  # fmt: skip
    own = {**TRAIN, "purchase": ON_DEMAND}
    pools = [own, {**own, "name": "r", "account": "research"}, {**own, "name": "b", "account": "batch"}]
    pools.append({**SERVE, "zones": ["us-central1-a"], "name": "l", "account": "lab", "purchase": ON_DEMAND})
    spec = {"owner": "research", "ssh": {"authorized_keys": [KEY]}, "accounts": accounts, "pools": pools}
    (project / "stacks/Pulumi.two.yaml").write_text(json.dumps({"config": {"gpufleet:fleet": spec}}))
    asked = []

    def read_aws(needs, part):
        asked.append((part.account, part.aws and (part.aws.profile or part.aws.role_arn)))
        request = partial(build_aws_request, part.aws, "us-east-1", "L-1")
        return {need: BucketUsage(8, 0, 0, "a double", request) for need in needs}

    readers = {"aws": read_aws, "gcp": lambda needs, part: dict.fromkeys(needs, part.gcp.project)}
    report = check.check_stack_quotas("two", readers, project)
    assert asked == [("", None), ("research", "research"), ("batch", role)]
    lines = list(report.format_lines())
    assert [line for line in lines if line.startswith("short")] == [
        f"short        aws {account}us-east-1 L-DB2E81BA (on_demand): needs 32 vCPUs, limit 8, used 0; 24 missing"
        for account in ("", "research ", "batch ")
    ]
    requests = [line.partition("--region us-east-1")[2] for line in lines if "request-service-quota" in line]
    assert requests == ["", " --profile research", f"  # with the credentials of {role}"]
    assert all(row["reason"] == "acme-lab" for row in report.as_json()["buckets"] if row["account"] == "lab")
