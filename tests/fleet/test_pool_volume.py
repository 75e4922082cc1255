"""Test which disks the nodes of a pool get for the volumes of their template."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import catalog, fleet
from gpufleet.errors import InputError
from gpufleet.fleet import PoolDisk, PoolVolumes

NVME = {"name": "scratch", "size_gib": 2000, "kind": "nvme"}
SSD = {"name": "models", "size_gib": 200, "kind": "ssd"}


@pytest.fixture
def plan_volumes(spec, tmp_path):
    def plan(*volumes, **pool):
        spec["templates"]["trainer"] = {"volumes": list(volumes)}
        spec["pools"][0].update(pool, template="trainer")
        declared = fleet.parse_fleet(spec, stack="test", root=tmp_path)
        return fleet.pool_volumes(declared, declared.pools[0])

    return plan


@pytest.fixture
def with_local_disks(monkeypatch):
    """Give every machine these local disks."""

    def give(**facts):
        known = replace(catalog.get_machine_facts("p4d.24xlarge", "aws"), **facts)
        monkeypatch.setattr(catalog, "get_machine_facts", lambda *_: known)

    return give


def test_ssd_volume_is_a_disk_of_its_own(plan_volumes):
    assert plan_volumes(SSD) == PoolVolumes((PoolDisk("models", 200),), 0)


def test_nvme_volume_uses_the_drives_of_the_machine(plan_volumes):
    assert plan_volumes(NVME, SSD) == PoolVolumes((PoolDisk("models", 200),), 0)


def test_local_drives_are_attached_where_the_cloud_sells_them_apart(plan_volumes, with_local_disks):
    with_local_disks(local_disk_counts=(1, 2, 4, 8), local_disk_gib=375.0, local_disk_count=0)
    assert plan_volumes(NVME).local_disk_count == 8
    assert plan_volumes(NVME | {"size_gib": 375}).local_disk_count == 1
    assert plan_volumes(SSD).local_disk_count == 0


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"local_disk_counts": (1, 2), "local_disk_gib": 375.0}, "take 2000 GiB, but train has 750"),
        ({"local_disk_count": 0}, "take 2000 GiB, but train has no local drives"),
        ({"local_disk_count": 1, "local_disk_gib": 838.0}, "take 2000 GiB, but train has 838"),
    ],
)
def test_nvme_volume_that_does_not_fit_is_refused(plan_volumes, with_local_disks, facts, message):
    with_local_disks(**facts)
    with pytest.raises(InputError, match=rf"{message} \(rule volumes-fit\)"):
        plan_volumes(NVME)


def test_unknown_local_drives_refuse_nothing(plan_volumes, with_local_disks):
    with_local_disks(local_disk_count=None)
    assert plan_volumes(NVME) == PoolVolumes((), 0)


def test_pool_without_volumes_needs_nothing(parse_pool):
    declared = parse_pool()
    assert fleet.pool_volumes(declared, declared.pools[0]) == PoolVolumes()


def test_production_nodes_get_the_drives_that_their_volumes_need(repo_root):
    production = fleet.load_fleet("production", repo_root)
    volumes = {pool.name: fleet.pool_volumes(production, pool) for pool in production.pools}
    # train has 8 NVMe drives; serve (a2-megagpu-16g) takes 8 local SSDs or none
    assert volumes["train"] == PoolVolumes()
    assert volumes["serve"] == PoolVolumes((), 8)
