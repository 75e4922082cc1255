"""Test that scale sets match the machine and the number of nodes. AWS: test_aws_fabric.py."""

from __future__ import annotations

INFINIBAND = {"cloud": "azure", "count": 4, "fabric": "auto", "purchase": {"kind": "committed", "term": "1y"}}


def test_infiniband_nodes_are_in_one_uniform_scale_set(evaluate):
    scale_set = evaluate(INFINIBAND).find_resource("VirtualMachineScaleSet")
    assert scale_set["orchestrationMode"] == "Uniform"
    assert (scale_set["singlePlacementGroup"], scale_set["platformFaultDomainCount"]) == (True, 1)
    assert scale_set["overprovision"] is False
    assert scale_set["sku"]["capacity"] == 4
    assert scale_set["virtualMachineProfile"]["storageProfile"]["imageReference"]["offer"] == "ubuntu-hpc"


def test_single_infiniband_machine_has_no_scale_set(evaluate):
    evaluated = evaluate({**INFINIBAND, "count": 1})
    assert "VirtualMachineScaleSet" not in evaluated.kinds
    assert (
        evaluated.find_resource("VirtualMachine")["storageProfile"]["imageReference"]["publisher"]
        == "microsoft-dsvm"
    )
