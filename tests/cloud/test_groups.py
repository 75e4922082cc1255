"""Test elastic pools: the cloud's own groups. AWS: test_aws_groups.py."""

from __future__ import annotations

import pytest

ELASTIC = {"min": 1, "desired": 2, "max": 4}


def test_gcp_group_has_its_bounds(evaluate):
    evaluated = evaluate({"cloud": "gcp", "count": ELASTIC, "purchase": {"kind": "spot"}})
    policy = evaluated.find_resource("RegionAutoscaler")["autoscalingPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (1, 4)
    assert evaluated.find_resource("RegionInstanceGroupManager")["targetSize"] == 2
    template = evaluated.find_resource("RegionInstanceTemplate")
    assert template["scheduling"]["provisioningModel"] == "SPOT"
    assert template["labels"]["gpufleet-purchase"] == "spot"


def test_azure_scale_set_has_its_bounds(evaluate):
    evaluated = evaluate(
        {"cloud": "azure", "machine": "Standard_NC4as_T4_v3", "count": ELASTIC, "purchase": {"kind": "spot"}}
    )
    (profile,) = evaluated.find_resource("AutoscaleSetting")["profiles"]
    assert profile["capacity"] == {"minimum": "1", "maximum": "4", "default": "2"}
    assert (
        evaluated.find_resource("VirtualMachineScaleSet")["virtualMachineProfile"]["evictionPolicy"]
        == "Delete"
    )


@pytest.mark.parametrize("zones", [["us-central1-a"], ["us-central1-f", "us-central1-b"]])
def test_gcp_group_uses_only_the_declared_zones(evaluate, zones):
    """Machines in other zones would be far from the data and outside the granted quota."""
    manager = evaluate({"cloud": "gcp", "count": ELASTIC, "zones": zones}).find_resource(
        "RegionInstanceGroupManager"
    )
    assert manager["distributionPolicyZones"] == zones
    assert manager["updatePolicy"]["maxUnavailableFixed"] == len(zones)


def test_gcp_group_without_zones_has_no_zone_restriction(evaluate):
    manager = evaluate({"cloud": "gcp", "count": ELASTIC, "zones": []}).find_resource(
        "RegionInstanceGroupManager"
    )
    assert "distributionPolicyZones" not in manager
    assert manager["updatePolicy"]["maxUnavailableFixed"] == 3
