"""Test what GCP pools build beyond their purchase: groups, disks, access, identity, fabric."""

from __future__ import annotations

import importlib.util
import ipaddress
import json
from pathlib import Path

import pytest

from gpufleet.cloud import PoolPlan, gcp_ops_agent
from gpufleet.cloud.gcp_address import fabric_cidr
from gpufleet.cloud.gcp_network import region_number, subnet_cidr
from gpufleet.errors import InputError
from gpufleet.fleet import PoolVolumes

spec = importlib.util.spec_from_file_location("cloud_registered", Path(__file__).with_name("registered.py"))
registered = importlib.util.module_from_spec(spec)
spec.loader.exec_module(registered)

L4 = {"cloud": "gcp", "machine": "g2-standard-4"}
T4 = {"cloud": "gcp", "machine": "n1-standard-8", "accelerators": {"model": "T4", "count": 2}}
GANG = {"cloud": "gcp", "machine": "a3-highgpu-8g", "count": 2, "fabric": "auto"}
RDMA = {**GANG, "machine": "a3-ultragpu-8g", "zones": ["us-central1-b"], "purchase": {"kind": "spot"}}
ELASTIC = {"min": 1, "desired": 2, "max": 4}
SSH = {
    "authorized_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn a"],
    "allowed_cidrs": [],
}
VOLUMES = {
    "plain": {"volumes": [{"name": "data", "size_gib": 300, "kind": "ssd"}]},
}


@pytest.fixture
def elastic(evaluate):
    return lambda **pool: evaluate({**L4, "count": ELASTIC, **pool})


def test_elastic_group_has_a_shape_that_an_autoscaler_takes(elastic):
    group = elastic().find_resource("RegionInstanceGroupManager")
    assert group["distributionPolicyTargetShape"] in {"EVEN", "BALANCED"}
    assert group["updatePolicy"]["instanceRedistributionType"] == "NONE"


def test_autoscaler_has_no_cpu_signal_and_removes_no_node(elastic):
    policy = elastic().find_resource("RegionAutoscaler")["autoscalingPolicy"]
    assert policy["mode"] == "ONLY_SCALE_OUT"
    assert "cpuUtilization" not in policy
    assert [metric["name"] for metric in policy["metrics"]] == ["agent.googleapis.com/gpu/utilization"]


ACCOUNT = {"project": "my-project", "service_account": "gpu-nodes@my-project.iam.gserviceaccount.com"}


def read_first_boot(evaluated):
    text = evaluated.find_resource("RegionInstanceTemplate")["metadata"].get("user-data", "\n{}")
    return json.loads(text.partition("\n")[2])


def test_nodes_of_an_elastic_pool_install_the_agent_whose_metric_scales_it(evaluate):
    settings = read_first_boot(evaluate({**L4, "count": ELASTIC}, gcp=ACCOUNT))
    shell, enable = settings["runcmd"]
    assert shell[:2] == ["sh", "-c"]
    assert "add-google-cloud-ops-agent-repo.sh" in shell[2]
    assert shell[2].endswith("--also-install")
    assert enable == ["systemctl", "enable", "--now", "gpufleet-ops-agent.path"]
    units = {file["path"].rpartition("/")[2]: file["content"] for file in settings["write_files"]}
    assert set(units) == {"gpufleet-ops-agent.path", "gpufleet-ops-agent.service"}


def test_agent_is_restarted_when_the_driver_is_loaded():
    """It looks for NVIDIA's library once, when it starts; the driver comes later."""
    assert "PathExists=/dev/nvidiactl" in gcp_ops_agent.PATH_UNIT
    assert "restart google-cloud-ops-agent.service" in gcp_ops_agent.SERVICE_UNIT
    assert "RemainAfterExit=yes" in gcp_ops_agent.SERVICE_UNIT


@pytest.mark.parametrize(
    ("pool", "account"),
    [
        ({**L4, "count": ELASTIC}, {"project": "my-project"}),  # it may write no metric
        ({**L4, "count": 2, "group": True}, ACCOUNT),  # nothing reads one
    ],
)
def test_other_pools_install_no_agent(evaluate, pool, account):
    assert read_first_boot(evaluate(pool, gcp=account)) == {}


def test_autoscaler_target_counts_the_gpus_of_a_node(evaluate):
    """The SDK: the autoscaler adds up the series of a node, and each GPU is one."""
    policy = evaluate({**T4, "count": ELASTIC}).find_resource("RegionAutoscaler")["autoscalingPolicy"]
    assert policy["metrics"][0]["target"] == 160


@pytest.mark.parametrize(("purchase", "action"), [("spot", "REPAIR"), ("on_demand", "DO_NOTHING")])
def test_group_replaces_evicted_nodes_and_no_others(elastic, purchase, action):
    lifecycle = elastic(purchase={"kind": purchase}).find_resource("RegionInstanceGroupManager")[
        "instanceLifecyclePolicy"
    ]
    assert lifecycle == {"defaultActionOnFailure": action, "onFailedHealthCheck": "DO_NOTHING"}


def test_fixed_count_can_be_a_group(evaluate):
    pool = evaluate({**L4, "count": 3, "group": True})
    assert pool.find_resource("RegionInstanceGroupManager")["targetSize"] == 3
    assert "RegionAutoscaler" not in pool.kinds
    assert "Instance" not in pool.kinds


def test_group_is_exported_for_the_members_lookup(elastic):
    (group,) = elastic().groups
    assert (group["kind"], group["name"], group["pool"]) == ("instance_group", "test-train", "train")
    assert "getInstances" not in {call.token for call in elastic().recorder.calls}


def test_every_disk_has_owner_and_expiry(evaluate):
    pool = evaluate(L4, templates=VOLUMES)
    boot = pool.find_resource("Instance")["bootDisk"]["initializeParams"]["labels"]
    labels = [boot, pool.find_resource("Disk")["labels"], pool.find_resource("Instance")["labels"]]
    group = evaluate({**L4, "count": ELASTIC}, templates=VOLUMES)
    template = group.find_resource("RegionInstanceTemplate")
    labels += [template["labels"], *(disk["labels"] for disk in template["disks"])]
    assert len(labels) == 6
    assert all({"gpufleet-owner", "gpufleet-expires", "gpufleet-pool"} <= set(row) for row in labels)


def test_declared_volume_is_a_disk_of_the_node(evaluate):
    pool = evaluate(L4, templates=VOLUMES)
    disk = pool.find_resource("Disk")
    assert (disk["name"], disk["size"], disk["zone"]) == ("test-train-1-data", 300, "us-central1-a")
    (attached,) = pool.find_resource("Instance")["attachedDisks"]
    assert attached["deviceName"] == "data"


def test_volume_of_a_group_is_a_disk_of_its_template(evaluate):
    pool = evaluate({**L4, "count": ELASTIC}, templates=VOLUMES)
    disks = pool.find_resource("RegionInstanceTemplate")["disks"]
    assert [(disk.get("deviceName"), disk["diskSizeGb"]) for disk in disks] == [(None, 100), ("data", 300)]
    assert all(disk["autoDelete"] for disk in disks)


def test_scratch_disks_are_attached_and_reserved(evaluate, monkeypatch):
    monkeypatch.setattr(PoolPlan, "volumes", PoolVolumes(local_disk_count=2))
    pool = evaluate({**T4, "purchase": {"kind": "reserved"}})
    scratch = pool.find_resource("Instance")["scratchDisks"]
    assert [(disk["interface"], disk["size"]) for disk in scratch] == [("NVME", 375)] * 2
    reserved = pool.find_resource("Reservation")["specificReservation"]["instanceProperties"]["localSsds"]
    assert reserved == [{"diskSizeGb": 375, "interface": "NVME"}] * 2


def test_machine_without_persistent_disks_boots_from_hyperdisk(evaluate):
    boot = evaluate({"cloud": "gcp", "machine": "g4-standard-48"}).find_resource("Instance")["bootDisk"][
        "initializeParams"
    ]
    assert boot["type"] == "hyperdisk-balanced"


def test_node_has_no_identity_unless_the_spec_names_one(evaluate):
    assert "serviceAccount" not in evaluate(L4).find_resource("Instance")
    account = "gpu-gpu-nodes@my-project.iam.gserviceaccount.com"
    pool = evaluate(L4, gcp={"project": "my-project", "service_account": account})
    assert pool.find_resource("Instance")["serviceAccount"]["email"] == account


def test_private_nodes_have_no_address_and_leave_through_nat(evaluate):
    pool = evaluate(L4, ssh={**SSH, "access": "private"})
    (card,) = pool.find_resource("Instance")["networkInterfaces"]
    assert "accessConfigs" not in card
    assert pool.find_resource("RouterNat")["sourceSubnetworkIpRangesToNat"] == "ALL_SUBNETWORKS_ALL_IP_RANGES"
    iap = [rule for rule in pool.list_resources("Firewall") if rule["name"].endswith("ssh-iap")]
    assert [rule["sourceRanges"] for rule in iap] == [["35.235.240.0/20"]]
    assert [(node["public_address"], node["access"]) for node in pool.nodes] == [(None, "iap")]


@pytest.mark.parametrize(("machine", "cards"), [("a3-highgpu-8g", 4), ("a3-megagpu-8g", 8)])
def test_gpudirect_has_a_network_for_each_card(evaluate, machine, cards):
    pool = evaluate({**GANG, "machine": machine})
    networks = pool.list_resources("Network")
    assert [network["mtu"] for network in networks] == [8244] * (cards + 1)
    for node in pool.list_resources("Instance"):
        assert [card["nicType"] for card in node["networkInterfaces"]] == ["GVNIC"] * (cards + 1)
        assert len({card["subnetwork"] for card in node["networkInterfaces"]}) == cards + 1
        assert [len(card.get("accessConfigs", [])) for card in node["networkInterfaces"]] == [1] + [0] * cards


def test_rdma_has_a_roce_network_with_a_subnet_for_each_card(evaluate):
    pool = evaluate(RDMA, gcp={"project": "my-project"})
    profiles = [network.get("networkProfile") for network in pool.list_resources("Network")]
    profile = "projects/my-project/global/networkProfiles/us-central1-b-vpc-roce"
    assert sorted(filter(None, profiles)) == [profile]
    (cards,) = {
        tuple(card["nicType"] for card in node["networkInterfaces"])
        for node in pool.list_resources("Instance")
    }
    assert cards == ("GVNIC", "GVNIC", *["MRDMA"] * 8)


def test_rdma_over_two_zones_is_refused(evaluate):
    zones = ["us-central1-a", "us-central1-b"]
    with pytest.raises(InputError, match="zone"):
        evaluate({**RDMA, "zones": zones}, gcp={"project": "my-project"})


def test_fabric_nodes_are_placed_close_together(evaluate):
    pool = evaluate(GANG)
    policy = pool.find_resource("ResourcePolicy")["groupPlacementPolicy"]
    assert policy == {"collocation": "COLLOCATED", "maxDistance": 2}
    assert all(node["resourcePolicies"] for node in pool.list_resources("Instance"))


def test_fabric_nodes_of_a_group_have_a_workload_policy(evaluate):
    pool = evaluate({**GANG, "count": 200, "group": True})
    assert pool.find_resource("ResourcePolicy")["workloadPolicy"] == {
        "type": "HIGH_THROUGHPUT",
        "maxTopologyDistance": "CLUSTER",
    }
    assert pool.find_resource("RegionInstanceGroupManager")["resourcePolicies"]["workloadPolicy"]


def test_reserved_fabric_nodes_have_no_policy_of_their_own(evaluate):
    """Ordinary reservations reject external placement policies."""
    pool = evaluate({**GANG, "purchase": {"kind": "reserved"}})
    assert "ResourcePolicy" not in pool.kinds
    assert not any("resourcePolicies" in node for node in pool.list_resources("Instance"))


def test_ranges_of_one_node_do_not_overlap():
    number = region_number("us-central1")
    ranges = [subnet_cidr("us-central1"), *(fabric_cidr(index, number) for index in range(9))]
    networks = [ipaddress.ip_network(cidr) for cidr in ranges]
    assert not any(one.overlaps(other) for one in networks for other in networks if one is not other)


def test_disks_that_google_attaches_are_no_change(declare, recorder, sdks, monkeypatch):
    """hashicorp/terraform-provider-google #19648: the provider replaces such nodes on every update."""
    record = registered.record(declare({"cloud": "gcp", "machine": "a3-highgpu-8g"}), recorder, monkeypatch)
    (options,) = (row["options"] for row in record["resources"] if row["type"].endswith(":Instance"))
    assert "scratchDisks" in options["ignore_changes"]
    assert options["replace_on_changes"] == ["machineType"]
