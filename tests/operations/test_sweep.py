"""The sweep: what is an orphan is pure; listings and deletions go through the real SDKs to moto and doubles."""

from __future__ import annotations

import json
from datetime import date

import boto3
import pytest

import cloud_http
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.fleet import Fleet, FleetSpec
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport
from gpufleet.nodes.cloud_api.azure import AzureApi
from gpufleet.nodes.cloud_api.gcp import GcpApi
from gpufleet.nodes.cloud_api.instance import CloudGroup
from gpufleet.nodes.model import utc_now
from gpufleet.operations.member_sync import list_cloud_sources
from gpufleet.operations.sweep import CloudResource, SweepOptions, SweepRun
from gpufleet.operations.sweep.aws import list_aws_resources
from gpufleet.operations.sweep.azure import list_azure_resources
from gpufleet.operations.sweep.finding import find_orphans
from gpufleet.operations.sweep.gcp import list_gcp_resources
from gpufleet.operations.sweep.run import check_confirmation, raise_if_incomplete

TAGS = {"gpufleet-stack": "dev", "gpufleet-purchase": "on_demand"}
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
PROJECT = "gpu-fleet-1"


def resource(id_, kind="instance", tags=TAGS, **facts):
    return CloudResource("aws", kind, id_, id_, "us-east-1", tags, **{"delete": lambda: None, **facts})


def judge(*resources, ids=(), groups=(), today=date(2026, 11, 23)):
    return {row.resource.id: row for row in find_orphans(resources, ids, groups, "dev", today)}


def test_only_what_nobody_knows_and_has_the_stacks_tag_is_found():
    findings = judge(
        resource("i-known"),
        resource("i-orphan"),
        resource("i-other", tags={"gpufleet-stack": "production"}),
        resource("i-bare", tags={}),
        resource("i-member", owner="projects/1/regions/r/instanceGroupManagers/Dev-Serve"),
        resource("vol-used", kind="volume", is_in_use=True),
        ids=["I-KNOWN"],
        groups=["dev-serve"],
    )
    assert list(findings) == ["i-orphan"]
    assert findings["i-orphan"].is_deletable


def test_an_expired_resource_that_the_state_knows_is_reported_and_kept():
    late = {**TAGS, "gpufleet-expires": "2026-11-22"}
    findings = judge(
        resource("i-known", tags=late),
        resource("i-orphan", tags=late),
        resource("i-today", tags={**TAGS, "gpufleet-expires": "2026-11-23"}),
        resource("i-never", tags={**TAGS, "gpufleet-expires": "never"}),
        ids=["i-known", "i-today", "i-never"],
    )
    assert {id_: (row.reason, row.is_deletable) for id_, row in findings.items()} == {
        "i-known": ("expired", False),
        "i-orphan": ("expired", True),
    }


def write_state(path, *resources, groups=()):
    """Write a `pulumi stack export` with these (type, id, outputs)."""
    prefix = "urn:pulumi:dev::gpufleet"
    stack = {"urn": f"{prefix}::pulumi:pulumi:Stack::dev", "type": "pulumi:pulumi:Stack", "custom": False}
    rows = [{**stack, "outputs": {"groups": list(groups)}}]
    rows += [
        {
            "urn": f"{prefix}::{type_}::{id_}",
            "type": type_,
            "custom": True,
            "id": id_,
            "inputs": {},
            "outputs": outputs,
        }
        for type_, id_, outputs in resources
    ]
    path.write_text(json.dumps({"version": 3, "deployment": {"resources": rows}}))
    return path


@pytest.fixture
def sweep(project, monkeypatch, tmp_path):
    """Give a function that prepares a sweep of the project's dev stack with a state of these resources."""
    monkeypatch.chdir(project)
    for name in ("GPUFLEET_DATABASE_URL", "GPUFLEET_REHEARSAL", "GPUFLEET_HOME"):
        monkeypatch.delenv(name, raising=False)

    def prepare(listers, *resources, groups=()):
        state = write_state(tmp_path / "state.json", *resources, groups=groups)
        return SweepRun(SweepOptions("dev", state_file=state, environment={}), listers)

    return prepare


def test_what_the_registry_has_from_elsewhere_is_known_and_what_only_the_cloud_lists_is_not(sweep, project):
    def report(source, *ids):
        seen = [NodeObservation(source, f"n-{id_}", NodeIdentity(instance_id=id_)) for id_ in ids]
        return SourceReport(source, utc_now(), seen)

    from gpufleet import paths

    with Registry(paths.registry_database_url(project)) as registry:
        registry.apply_source_report(report("pulumi:dev", "i-a"))
        registry.apply_source_report(report("aws:dev:us-east-1", "i-a", "i-b", "i-c"))
        registry.move_node("n-i-c", "commissioning", "in use")
    run = sweep({"aws": lambda: [resource("i-a"), resource("i-b"), resource("i-c")]})
    report = run.list_findings()
    assert [row.resource.id for row in report.deletable] == ["i-b"]
    (kept_rows,) = (row for row in report.findings if row.resource.id == "i-c")
    assert "commissioning in the registry: retire the node first" in kept_rows.detail
    assert any("the state of dev is empty" in line for line in report.format_lines())


def test_nothing_is_deleted_without_the_code_of_exactly_this_list(sweep):
    report = sweep({"aws": lambda: [resource("i-a"), resource("i-b")]}).list_findings()
    fewer = sweep({"aws": lambda: [resource("i-a")]}).list_findings()
    assert report.fingerprint != fewer.fingerprint
    for code in ("", "yes", fewer.fingerprint):
        with pytest.raises(InputError):
            check_confirmation(report, code)
    check_confirmation(report, report.fingerprint)


def test_what_changed_after_the_confirmation_is_kept(sweep):
    deleted = []
    listings = iter([["i-a", "i-b"], ["i-a"]])

    def list_resources():
        return [resource(id_, delete=lambda id_=id_: deleted.append(id_)) for id_ in next(listings)]

    run = sweep({"aws": list_resources})
    results = list(run.delete_confirmed(run.list_findings()))
    assert deleted == ["i-a"]
    assert [result.problem for result in results] == ["", "changed since it was listed: kept"]
    with pytest.raises(CheckFailed, match="1 resources are left"):
        raise_if_incomplete(sweep({}).list_findings(), results)


def test_an_interrupted_run_is_repeated_and_a_failed_deletion_is_named(sweep):
    existing = {"i-a", "i-b", "i-c"}

    def delete(id_):
        if id_ == "i-b" and not tried:
            tried.append(id_)
            raise EnvironmentFault("throttled", hint="later")
        existing.discard(id_)

    tried = []
    listing = {"aws": lambda: [resource(id_, delete=lambda id_=id_: delete(id_)) for id_ in sorted(existing)]}
    run = sweep(listing)
    first = run.delete_confirmed(run.list_findings())
    next(first)  # the process ends here
    assert existing == {"i-b", "i-c"}
    results = list(run.delete_confirmed(run.list_findings()))
    assert [result.problem for result in results] == ["throttled (later)", ""]
    assert [result.problem for result in run.delete_confirmed(run.list_findings())] == [""]
    assert run.list_findings().findings == ()


def test_an_account_without_an_answer_is_no_empty_account(sweep):
    def fail():
        raise EnvironmentFault("no connection")

    report = sweep({"aws us-east-1": fail}).list_findings()
    assert report.failures == {"aws us-east-1": "no connection"}
    assert "nothing to delete" not in list(report.format_lines())
    with pytest.raises(CheckFailed, match="not swept: aws us-east-1"):
        raise_if_incomplete(report)


def test_a_rehearsal_never_reaches_a_real_cloud(project, gpufleet):
    completed = gpufleet("nodes", "sweep", "-s", "dev", cwd=project, env={"GPUFLEET_REHEARSAL": "dev"})
    assert (completed.returncode, "rehearsal" in completed.stderr) == (3, True)


def test_too_many_deletions_are_refused(sweep):
    run = sweep({"aws": lambda: [resource(f"i-{number:04}") for number in range(201)]})
    with pytest.raises(InputError, match="201 resources are more than the 200 of one run"):
        list(run.delete_confirmed(run.list_findings()))


@pytest.fixture(scope="module")
def aws():
    with cloud_http.serve_aws() as gap:
        yield gap


@pytest.fixture
def region(aws, monkeypatch):
    """Give an empty region of moto; reservations are the double's."""
    for name, value in cloud_http.aws_environment(aws.url).items():
        monkeypatch.setenv(name, value)
    cloud_http.reset_moto(aws.moto)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    aws.reservations = {}
    marks = "".join(f"<item><key>{key}</key><value>{value}</value></item>" for key, value in TAGS.items())

    def describe(_fields):
        rows = [
            f"<capacityReservationId>{id_}</capacityReservationId><instanceType>p4d.24xlarge</instanceType>"
            f"<availableInstanceCount>1</availableInstanceCount><reservationType>{kind}</reservationType>"
            f"<state>active</state><tagSet>{marks}</tagSet>"
            for id_, kind in aws.reservations.items()
        ]
        return cloud_http.xml_list("DescribeCapacityReservations", "capacityReservationSet", rows)

    def cancel(fields):
        aws.reservations.pop(fields["CapacityReservationId"])
        return '<CancelCapacityReservationResponse xmlns="x"><return>true</return></CancelCapacityReservationResponse>'

    aws.actions = {"DescribeCapacityReservations": describe, "CancelCapacityReservation": cancel}
    return aws


def mark(kind, **tags):
    return [
        {
            "ResourceType": kind,
            "Tags": [{"Key": key, "Value": value} for key, value in {**TAGS, **tags}.items()],
        }
    ]


def test_everything_that_is_left_in_aws_is_listed_priced_and_deleted(sweep, region):
    ec2, scaling = boto3.client("ec2"), boto3.client("autoscaling")
    launch = {"ImageId": "ami-12c6146b", "InstanceType": "g5.2xlarge", "MinCount": 1, "MaxCount": 1}
    orphan = ec2.run_instances(**launch, TagSpecifications=mark("instance"))["Instances"][0]["InstanceId"]
    known = ec2.run_instances(**launch, TagSpecifications=mark("instance"))["Instances"][0]["InstanceId"]
    foreign = ec2.run_instances(**launch)["Instances"][0]["InstanceId"]
    zone = {"AvailabilityZone": "us-east-1a", "VolumeType": "gp3"}
    volume = ec2.create_volume(Size=500, **zone, TagSpecifications=mark("volume"))["VolumeId"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    card = ec2.create_network_interface(SubnetId=subnet, TagSpecifications=mark("network-interface"))
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=mark("elastic-ip"))["AllocationId"]
    scaling.create_launch_configuration(LaunchConfigurationName="t", **dict(list(launch.items())[:2]))
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="dev-old", LaunchConfigurationName="t", MinSize=0, MaxSize=1, VPCZoneIdentifier=subnet,
        Tags=[{"Key": "gpufleet-stack", "Value": "dev", "PropagateAtLaunch": True}],
    )  # fmt: skip
    region.reservations = {"cr-0123456789abcdef0": "default", "cr-0fedcba9876543210": "capacity-block"}
    run = sweep(
        {"aws us-east-1": lambda: list_aws_resources("dev", "us-east-1")},
        ("aws:ec2/instance:Instance", known, {}),
    )
    report = run.list_findings()
    assert [row.resource.kind for row in report.deletable] == [
        "group", "instance", "reservation", "volume", "network_interface", "address",
    ]  # fmt: skip
    by_id = {row.resource.id: row for row in report.findings}
    assert by_id[orphan].resource.usd_per_hour == pytest.approx(1.212)
    assert by_id[volume].resource.usd_per_hour * 730 == pytest.approx(40, rel=0.01)
    assert by_id[address].resource.usd_per_hour == pytest.approx(0.005)
    assert "cannot be cancelled" in by_id["cr-0fedcba9876543210"].detail
    assert {known, foreign}.isdisjoint(by_id)
    lines = list(report.format_lines())
    assert any(f"--apply --confirm {report.fingerprint}" in line for line in lines)
    results = list(run.delete_confirmed(report))
    assert [result.problem for result in results] == [""] * 6
    states = {
        each["InstanceId"]: each["State"]["Name"]
        for page in ec2.describe_instances()["Reservations"]
        for each in page["Instances"]
    }
    assert states[orphan] in ("shutting-down", "terminated")
    assert states[known] == states[foreign] == "running"
    assert list(region.reservations) == ["cr-0fedcba9876543210"]
    assert scaling.describe_auto_scaling_groups()["AutoScalingGroups"] == []
    assert card["NetworkInterface"]["NetworkInterfaceId"] not in str(ec2.describe_network_interfaces())
    assert run.list_findings().deletable == []


def test_spot_requests_that_can_start_machines_are_cancelled(sweep, region):
    ec2 = boto3.client("ec2")
    ec2.request_spot_instances(
        SpotPrice="0.5",
        Type="persistent",
        LaunchSpecification={"ImageId": "ami-12c6146b", "InstanceType": "g5.2xlarge"},
        TagSpecifications=mark("spot-instances-request"),
    )
    run = sweep({"aws us-east-1": lambda: list_aws_resources("dev", "us-east-1")})
    report = run.list_findings()
    requests = [row.resource.kind for row in report.deletable]
    assert requests[0] == "spot_request"
    assert not any(result.problem for result in run.delete_confirmed(report))
    assert not [row for row in run.list_findings().deletable if row.resource.kind == "spot_request"]


def test_google_lists_and_deletes_through_its_sdk(sweep):
    api_url = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"
    zone = f"{api_url}/zones/us-central1-a"
    labels = {"gpufleet-stack": "dev"}
    made_by_group = {
        "items": [{"key": "created-by", "value": "projects/1/regions/r/instanceGroupManagers/dev-old"}]
    }

    def instance(name, number, **fields):
        return {
            "name": name, "id": str(number), "zone": zone, "machineType": f"{zone}/machineTypes/a2-highgpu-1g",
            "status": "RUNNING", "labels": labels, "selfLink": f"{zone}/instances/{name}", **fields,
        }  # fmt: skip

    with cloud_http.serve(cloud_http.GoogleService()) as google:
        instances = [instance("dev-x-1", 1), instance("dev-old-ab", 2, metadata=made_by_group)]
        disks = [
            {"name": "free", "id": "3", "zone": zone, "sizeGb": "200", "type": f"{zone}/diskTypes/pd-balanced",
             "labels": labels, "selfLink": f"{zone}/disks/free"},
            {"name": "used", "id": "4", "zone": zone, "labels": labels, "users": ["x"],
             "selfLink": f"{zone}/disks/used"},
        ]  # fmt: skip
        reservation = {
            "name": "dev-train", "id": "5", "zone": zone, "status": "READY",
            "selfLink": f"{zone}/reservations/dev-train",
            "description": "gpufleet pool train of stack dev",
            "specificReservation": {"count": "2", "instanceProperties": {"machineType": "a2-highgpu-1g"}},
        }  # fmt: skip
        google.aggregate("instances", "instances", {"zones/us-central1-a": instances})
        google.aggregate("reservations", "reservations", {"zones/us-central1-a": [reservation]})
        google.aggregate("disks", "disks", {"zones/us-central1-a": disks})
        google.aggregate("addresses", "addresses", {"regions/us-central1": []})
        operation = {"name": "operation-1", "status": "DONE", "zone": zone}
        google.route(
            "DELETE", rf"/compute/v1/projects/{PROJECT}/zones/us-central1-a/(instances|disks)/.+", operation
        )
        google.route(
            "GET", rf"/compute/v1/projects/{PROJECT}/zones/us-central1-a/operations/operation-1", operation
        )
        api = GcpApi(PROJECT, cloud_http.google_credentials(), google.url)
        run = sweep({"gcp": lambda: list_gcp_resources(api)})
        report = run.list_findings()
        assert {row.resource.name: row.is_deletable for row in report.findings} == {
            "dev-x-1": True, "dev-old-ab": False, "dev-train": False, "free": True,
        }  # fmt: skip
        kept_rows = {row.resource.name: row.detail for row in report.findings if not row.is_deletable}
        assert "member of dev-old" in kept_rows["dev-old-ab"]
        assert "gcloud compute reservations delete dev-train" in kept_rows["dev-train"]
        assert not any(result.problem for result in run.delete_confirmed(report))
        base = f"/compute/v1/projects/{PROJECT}/zones/us-central1-a"
        assert google.deleted() == [f"{base}/instances/dev-x-1", f"{base}/disks/free"]


def test_azure_lists_and_deletes_through_its_sdk(sweep, tmp_path):
    certificate = str(cloud_http.write_certificate(tmp_path / "azure.pem"))
    root = f"/subscriptions/{SUBSCRIPTION}"
    group = f"{root}/resourceGroups/dev-eastus/providers"
    compute, network = f"{root}/providers/Microsoft.Compute", f"{root}/providers/Microsoft.Network"
    place = {"location": "eastus", "tags": TAGS}
    machine = {
        "id": f"{group}/Microsoft.Compute/virtualMachines/dev-x-1", "name": "dev-x-1", **place,
        "properties": {"vmId": "0c64", "hardwareProfile": {"vmSize": "Standard_NC24ads_A100_v4"}},
    }  # fmt: skip
    disk = {
        "id": f"{group}/Microsoft.Compute/disks/old", "name": "old", **place, "sku": {"name": "Premium_LRS"},
        "properties": {"diskSizeGB": 1024, "diskState": "Unattached"},
    }  # fmt: skip
    used = {**disk, "id": f"{disk['id']}2", "name": "old2", "properties": {"diskState": "Attached"}}
    address = {
        "id": f"{group}/Microsoft.Network/publicIPAddresses/ip",
        "name": "ip",
        **place,
        "properties": {},
    }
    scale_set = {
        "id": f"{group}/Microsoft.Compute/virtualMachineScaleSets/dev-old",
        "name": "dev-old",
        **place,
    }
    with cloud_http.serve(cloud_http.AzureService(), certificate) as azure:
        azure.list_at(f"{compute}/virtualMachineScaleSets", [{**scale_set, "properties": {}}])
        azure.list_at(f"{scale_set['id']}/virtualMachines", [])
        azure.list_at(f"{compute}/virtualMachines", [machine])
        azure.list_at(f"{compute}/disks", [disk, used, {"id": "/x", "name": "foreign", "location": "eastus"}])
        azure.list_at(f"{network}/networkInterfaces", [])
        azure.list_at(f"{network}/publicIPAddresses", [address])
        azure.list_at(f"{compute}/capacityReservationGroups", [])
        azure.route("DELETE", r".*", lambda *_: (204, None))
        api = AzureApi(SUBSCRIPTION, cloud_http.StaticAzureCredential(), azure.url, certificates=certificate)
        run = sweep({"azure": lambda: list_azure_resources(api)})
        report = run.list_findings()
        assert [row.resource.name for row in report.deletable] == ["dev-old", "dev-x-1", "old", "ip"]
        assert report.deletable[2].resource.usd_per_hour is not None
        assert not any(result.problem for result in run.delete_confirmed(report))
        assert azure.deleted() == [scale_set["id"], machine["id"], disk["id"], address["id"]]
        assert all("api-version" in query for method, _, query in azure.seen if method == "DELETE")


def test_each_account_is_swept_with_its_own_keys(sweep, project):
    pool = {"name": "own", "cloud": "aws", "region": "us-east-1", "machine": "g5.2xlarge", "count": 1,
            "purchase": {"kind": "on_demand"}}  # fmt: skip
    accounts = {"research": {"aws": {"profile": "research"}}, "lab": {"gcp": {"project": PROJECT}}}
    ssh = {
        "authorized_keys": [
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn t"
        ]
    }
    pools = [pool, pool | {"name": "train", "account": "research", "region": "us-west-2"}]
    spec = {"owner": "research", "ssh": ssh, "accounts": accounts, "pools": pools}
    (project / "stacks/Pulumi.dev.yaml").write_text(json.dumps({"config": {"gpufleet:fleet": spec}}))
    run = sweep(None)
    keys = {name: lister.args[0].aws and lister.args[0].aws.profile for name, lister in run.listers.items()}
    assert keys == {"aws us-east-1": None, "aws us-west-2 research": "research", "gcp lab": None}
    assert run.listers["gcp lab"].args[0].gcp.project == PROJECT


def test_each_account_is_a_source_of_nodes_with_its_own_groups(project):
    pool = {
        "cloud": "aws",
        "region": "us-east-1",
        "machine": "g5.2xlarge",
        "purchase": {"kind": "spot"},
        "count": 1,
    }
    accounts = {"research": {"aws": {"profile": "research"}}, "eu": {"azure": {"subscription": SUBSCRIPTION}}}
    pools = [{"name": "own", **pool}, {"name": "train", "account": "research", **pool}]
    spec = FleetSpec.model_validate({"owner": "research", "accounts": accounts, "pools": pools})
    groups = [
        CloudGroup(name, "aws", "us-east-1", "autoscaling_group", name, name, account=account)
        for name, account in (("own", ""), ("train", "research"))
    ]
    declared = Fleet.from_spec(spec, "dev", ())
    sources = dict(list_cloud_sources(declared, groups, {}, utc_now()))
    assert list(sources) == ["aws:dev:us-east-1", "aws:dev:us-east-1:research", "azure:dev:eu"]
    assert [[group.pool for group in fetch.args[4]] for fetch in list(sources.values())[:2]] == [
        ["own"],
        ["train"],
    ]
    assert sources["aws:dev:us-east-1:research"].args[0].aws.profile == "research"
