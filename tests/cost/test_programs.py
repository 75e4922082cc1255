"""Test programs of other projects, evaluated without an engine: every billed resource is priced or listed."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from gpufleet import cost

PROGRAMS = Path(__file__).resolve().parents[1] / "cases" / "programs"
# Counted on its own: what bills nothing, read off the programs by hand and not from the room's table.
FREE = (
    "aws:ec2/vpc:*", "aws:ec2/subnet:*", "aws:ec2/internetGateway:*", "aws:ec2/route*", "aws:ec2/securityGroup:*",
    "aws:ec2/launchTemplate:*", "aws:lb/targetGroup:*", "aws:lb/listener:*", "aws:autoscaling/policy:*", "aws:iam/*",
    "aws:eks/addon:*", "gcp:compute/network:*", "gcp:compute/subnetwork:*", "gcp:compute/router:*",
    "gcp:serviceaccount/*", "gcp:compute/firewall:*", "azure-native:network:NetworkInterface",
    "azure-native:resources:*", "azure-native:network:VirtualNetwork",
    "azure-native:network:Subnet", "azure-native:monitor:AutoscaleSetting", "pulumi:providers:*",
)  # fmt: skip
BILLABLE = {
    "autoscaling-web": {"way-out", "web", "logs"},
    "eks-gpu": {"models", "system", "gpu"},
    "gke-gpu-pool": {"models", "services", "cards", "weights"},
    "aks-agent-pool": {"models", "cards"},
    "vmss-workers": {"out", "workers", "door"},
    "remote-eks": {"shared-1", "shared-2", "shared-3", "jobs", "jobs-nodes", "scratch"},
    "spot-fleet": {"workers", "old-workers", "head"},
    "two-networks": {"hub", "spoke"},
    "private-machines": {"inner", "worker-0", "worker-1", "worker-2", "busy"},
    "small-site": {"site", "data"},
    "labelled-vm": {"site", "data"},
}


def test_each_program_has_a_test():
    assert {path.name for path in PROGRAMS.iterdir() if path.is_dir()} == set(BILLABLE)


@pytest.fixture(scope="module", params=sorted(BILLABLE))
def program(request):
    resources = cost.evaluate_program(PROGRAMS / request.param, "dev")
    return request.param, resources, cost.price_resources(resources)


def test_every_billable_resource_is_priced_or_unpriced(program):
    name, resources, bill = program
    custom = [resource for resource in resources if resource.custom or resource.remote]
    expected_urns = {
        resource.urn for resource in custom if not any(fnmatchcase(resource.type, free) for free in FREE)
    }
    reported_urns = {charge.urn for charge in bill.charges} | {gap.urn for gap in bill.unpriced_resources}
    if name != "remote-eks":  # what a component in another process makes is worked out from its inputs
        assert reported_urns == expected_urns
    assert {urn.rsplit("::", 1)[-1] for urn in reported_urns} == BILLABLE[name]


def test_total_is_the_sum_of_the_resources(program):
    _, _, bill = program
    assert sum(charge.usd_per_month.expected for charge in bill.charges) == bill.usd_per_month.expected
    assert all(gap.reason for gap in bill.unpriced_resources)


def test_every_region_is_known(program):
    name, _, bill = program
    if name == "remote-eks":
        bill = cost.estimate_stack(PROGRAMS / name, "dev").bill  # the command finds the region of its network
    assert all(charge.region for charge in bill.charges)
    assert not [gap for gap in bill.unpriced_resources if "unknown region" in gap.reason]


def test_machines_without_accelerators_are_priced():
    charges = cost.estimate_stack(PROGRAMS / "eks-gpu", "dev").bill.charges
    machines = {charge.item: charge.price for charge in charges if charge.item == "m5.large"}
    assert machines["m5.large"].usd_per_hour == pytest.approx(0.096)
    assert machines["m5.large"].region == "us-west-2"


def test_remote_components_are_reported():
    bill = cost.estimate_stack(PROGRAMS / "remote-eks", "dev").bill
    assert {(charge.name, charge.component) for charge in bill.charges} == {
        ("scratch", "disk"),
        *((f"shared-{zone}", component) for zone in (1, 2, 3) for component in ("public_ipv4", "gateway")),
        ("jobs", "control_plane"),
        *(("jobs-nodes", component) for component in ("disk:root", "machine", "public_ipv4")),
    }
    assert bill.unpriced_resources == ()


def test_group_with_an_external_size_has_a_warning():
    notes = cost.estimate_stack(PROGRAMS / "autoscaling-web", "dev").notes
    assert any("web ignores changes to desiredCapacity" in note for note in notes)
