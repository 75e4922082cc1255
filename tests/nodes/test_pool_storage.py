"""Test that a cloud node's inventory names the disks of the volumes that its pool's template declares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import fleet
from gpufleet.nodes.blueprint import build_application_variables
from gpufleet.nodes.inventory import assemble_ansible_inventory
from gpufleet.nodes.pool_storage import build_pool_storage, list_disk_patterns, make_storage_lookup

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
NVME = {"name": "scratch", "size_gib": 300, "kind": "nvme"}
SSD = [{"name": name, "size_gib": 200, "kind": "ssd"} for name in ("models", "data")]
PLACES = {
    "aws": {"region": "us-east-1", "zones": ["us-east-1a"], "machine": "g6.8xlarge"},
    "gcp": {"region": "us-central1", "zones": ["us-central1-a"], "machine": "a2-ultragpu-2g"},
    "azure": {"region": "eastus", "machine": "Standard_ND96isr_H100_v5"},
}
DISK = {"count": 1, "mode": "keep"}
LOCAL = {"layout": "raid0", "filesystem": "ext4"}


@pytest.fixture
def declare(tmp_path):
    """Declare a stack of one pool with a template; return it."""

    def run(cloud="aws", template=None, **pool):
        place = {"name": "train", "cloud": cloud, **PLACES[cloud], "count": 2, "template": "t", **pool}
        spec = {
            "owner": "ml",
            "ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]},
            "pools": [{"purchase": {"kind": "on_demand"}, "fabric": "none", **place}],
            "templates": {"t": template or {"volumes": [NVME, *SSD]}},
        }
        return fleet.parse_fleet(spec, stack="lab", root=tmp_path)

    return run


def storage(declared, machine=None):
    return build_pool_storage(declared, declared.pools[0], machine)


EXPECTED = {
    "aws": [
        ("/scratch", ["model:Amazon EC2 NVMe Instance Storage"], 2),
        ("models", ["ebs:sdf", "/dev/xvdf"]),
        ("data", ["ebs:sdg", "/dev/xvdg"]),
    ],
    "gcp": [
        ("/scratch", ["/dev/disk/by-id/google-local-nvme-ssd-*"], 2),
        ("models", ["/dev/disk/by-id/google-models"]),
        ("data", ["/dev/disk/by-id/google-data"]),
    ],
    "azure": [
        ("/scratch", ["model:Microsoft NVMe Direct Disk*"], 8),
        ("models", ["/dev/disk/azure/scsi1/lun0", "/dev/disk/azure/data/by-lun/0"]),
        ("data", ["/dev/disk/azure/scsi1/lun1", "/dev/disk/azure/data/by-lun/1"]),
    ],
}


@pytest.mark.parametrize("cloud", EXPECTED)
def test_volumes_of_each_cloud_name_their_disks(declare, cloud):
    (mount, local, count), *disks = EXPECTED[cloud]
    assert storage(declare(cloud)) == (
        {**LOCAL, "mount": mount, "devices": local, "count": count},
        *({"mount": f"/var/lib/gpufleet/volumes/{name}", "devices": paths, **DISK} for name, paths in disks),
    )


@pytest.mark.parametrize("pool", [{}, {"group": True}, {"count": {"min": 1, "max": 3}}])
@pytest.mark.parametrize("cloud", PLACES)
def test_single_nodes_and_members_of_groups_have_the_same_disks(declare, registry, lab, cloud, pool):
    declared = declare(cloud, **pool)
    registry.apply_source_report(lab.rack(lab.blade(1)))
    (node,) = registry.list_nodes()
    machine = PLACES[cloud]["machine"]
    nodes = {
        "member": replace(
            node, cloud=cloud, pool="train", stack="lab", machine=machine, rack=None, slot=None
        ),
        "of-a-rack": node,
        "of-another-pool": replace(node, cloud=cloud, pool="serve", stack="lab"),
        "of-another-cloud": replace(node, cloud="other", pool="train", stack="lab"),
        "of-another-project": replace(node, cloud=cloud, pool="train", stack="elsewhere"),
    }
    stacks = {"lab": declared}
    lookup = make_storage_lookup(
        lambda node: node.stack if node.stack in stacks else None, stacks.__getitem__
    )
    found = {}
    for name, candidate in nodes.items():
        inventory = assemble_ansible_inventory([replace(candidate, name=name)], [], storage_lookup=lookup)
        found[name] = inventory.hosts[0].vars.get("gpufleet_volumes")
    assert found == dict.fromkeys(nodes) | {"member": list(storage(declared))}


def test_containers_find_every_volume_on_a_mounted_disk(declare):
    declared = declare(
        "gcp",
        {
            "hardware": {"storage": {"layout": "raid0", "mount": "/fast"}},
            "application": {"volumes": [NVME, *SSD]},
        },
    )
    folders = build_application_variables(declared.resolve_blueprint("t"))["volumes"]
    mounts = {volume["mount"] for volume in storage(declared)}
    assert mounts == {"/fast", *folders[1:]}
    assert folders == ["/fast/scratch", "/var/lib/gpufleet/volumes/models", "/var/lib/gpufleet/volumes/data"]


def test_drives_are_laid_out_as_the_hardware_profile_says(declare):
    layout = {"layout": "single", "mount": "/fast", "filesystem": "xfs"}
    (volume,) = storage(declare(template={"hardware": {"storage": layout}}))
    assert volume == {**layout, "devices": ["model:Amazon EC2 NVMe Instance Storage"], "count": 2}


def test_count_of_drives_is_that_of_the_nodes_own_machine(declare):
    declared = declare(template={"volumes": [NVME]}, purchase={"kind": "spot", "machines": ["g6.4xlarge"]})
    counts = [
        storage(declared, name)[0]["count"] for name in (None, "g6.8xlarge", "g6.4xlarge", "g6.48xlarge")
    ]
    assert counts == [2, 2, 1, 2]  # the last one is not a machine of this pool


def test_drives_that_google_attaches_are_counted_as_attached(declare):
    (volume,) = storage(declare("gcp", {"volumes": [NVME | {"size_gib": 2000}]}, machine="a2-megagpu-16g"))
    assert volume["count"] == 8


def test_unknown_number_of_drives_accepts_any(declare):
    machine = "Standard_ND96amsr_A100_v4"
    (volume,) = storage(declare("azure", {"volumes": [NVME]}, machine=machine, count=1))
    assert volume["count"] == 0


def test_node_without_volumes_or_without_drives_has_none(declare):
    assert storage(declare(template={"driver": {"vendor": "nvidia"}})) == ()
    layout = {"hardware": {"storage": {"layout": "raid0"}}}
    assert storage(declare("azure", layout, machine="Standard_NC4as_T4_v3")) == ()


def test_patterns_differ_for_each_disk():
    for cloud in PLACES:
        patterns = [tuple(list_disk_patterns(cloud, number, f"v{number}")) for number in range(3)]
        assert len(set(patterns)) == 3
