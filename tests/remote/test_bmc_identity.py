"""Test by which identifiers a BMC and a node are one machine. Values are of public reports, or made up like them."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from bmc_emulator import PASSWORD, USER, ScriptedBmc, build_fru, run_ipmi_simulator
from gpufleet.errors import InputError
from gpufleet.nodes import NodeIdentity, NodeObservation
from gpufleet.nodes.identity import normalize_uuid
from gpufleet.nodes.inventory import list_bmc_identifiers
from gpufleet.nodes.registry import Registry
from gpufleet.operations import power
from gpufleet.remote.bmc.machine import MachineIdentity, NodeIdentifiers, compare_machine

SUPERMICRO_UUIDS = ("E7B45C00-8909-11EB-8000-7CC255106AFE", "005CB4E7-0989-EB11-8000-7CC255106AFE")
OTHER_UUID = "BDC26000-8930-11EB-8000-7CC255106B08"
XCAT_FRU = {"serial": "S239290X6A20331", "board_serial": "OM168S010286", "chassis_serial": "130124A"}
C6100 = {
    "serial": "CN70163",
    "board_serial": "CN70163",
    "shared_serial": "DB3KYV1",
    "uuid": SUPERMICRO_UUIDS[0],
}

CASES = {
    # ansible/ansible#53461, netbox-sync#375: the service tag is the SKU, the serial is the board's.
    "dell": (
        {"serial": "0AB1C23"},
        {"manufacturer": "Dell Inc.", "serial": "CNEXMP0000A1B2", "sku": "0AB1C23"},
        "same",
    ),
    "dell, another one": (
        {"serial": "0AB1C23"},
        {"manufacturer": "Dell Inc.", "serial": "CNEXMP0000A1B2", "sku": "0AB1C24"},
        "other",
    ),
    "dell, only the board": (
        {"serial": "x", "board_serial": ".0AB1C23.CNEXMP0000A1B2."},
        {"manufacturer": "Dell Inc.", "serial": "CNEXMP0000A1B2"},
        "same",
    ),
    # infra-controller#3327: no serial of SMBIOS is in Redfish.
    "lenovo gb300": (
        {"serial": "JEXMP00001"},
        {"manufacturer": "Lenovo", "model": "ThinkSystem GB300", "serial": "J9EXMPAB11"},
        "unknown",
    ),
    "hpe": (
        {"serial": "CZJ0000001"},
        {"manufacturer": "HPE", "serial": "CZJ0000001 ", "sku": "P40411-B21"},
        "same",
    ),
    "hpe, another one": ({"serial": "CZJ0000001"}, {"manufacturer": "HPE", "serial": "CZJ0000002"}, "other"),
    "hpe, the chassis's serial": (
        {"serial": "CZJ0000001", "chassis_serial": "CZ20000009"},
        {"manufacturer": "HPE", "serial": "CZ20000009"},
        "same",
    ),
    # metal-stack/go-hal#57: with BIOS 3.8a the UUID in Redfish has the bytes of SMBIOS 2.6 swapped.
    "supermicro, uuid swapped": ({"uuid": SUPERMICRO_UUIDS[0]}, {"uuid": SUPERMICRO_UUIDS[1]}, "same"),
    "supermicro, uuid of another": ({"uuid": SUPERMICRO_UUIDS[0]}, {"uuid": OTHER_UUID}, "other"),
    # ipmitool#25: a GUID in the order of IPMI is reversed.
    "ipmi guid": (
        {"uuid": SUPERMICRO_UUIDS[0]},
        {"guid": bytes.fromhex(SUPERMICRO_UUIDS[0].replace("-", ""))[::-1].hex()},
        "same",
    ),
    "ipmi guid of the controller": ({"uuid": SUPERMICRO_UUIDS[0]}, {"guid": OTHER_UUID}, "not_compared"),
    # xcat-core#2296: the serial of the machine is the chassis', the product's and the board's are others.
    "openpower fru": ({"serial": "130124A"}, XCAT_FRU, "same"),
    "openpower fru of another": ({"serial": "130125A", "chassis_serial": "130125A"}, XCAT_FRU, "other"),
    # redhat-cip/edeploy#206, smartos-docs#49 (Dell C6100): all nodes of a chassis have one serial.
    "one serial in a chassis": (
        {"serial": "DB3KYV1", "uuid": SUPERMICRO_UUIDS[0]},
        {"serial": "DB3KYV1", "uuid": OTHER_UUID},
        "unknown",
    ),
    "only the chassis is common": (
        {"serial": "A100000001", "chassis_serial": "C100000001"},
        {"serial": "A100000002", "chassis_serial": "C100000001"},
        "other",
    ),
    # A node of that chassis as the registry has it: its board's serial, and the one that all four share.
    "node of a chassis, its serial only": (C6100, {"serial": "DB3KYV1"}, "unknown"),
    "node of a chassis, in the sku": (C6100, {"manufacturer": "Dell Inc.", "sku": "DB3KYV1"}, "unknown"),
    "node of a chassis, its board": (C6100, {"serial": "DB3KYV1", "board_serial": "CN70163"}, "same"),
    "node of a chassis, its uuid": (C6100, {"serial": "DB3KYV1", "uuid": SUPERMICRO_UUIDS[0]}, "same"),
    "node of a chassis, board of another": (C6100, {"serial": "DB3KYV1", "board_serial": "CN70164"}, "other"),
    "node of a chassis, uuid of another": (C6100, {"serial": "DB3KYV1", "uuid": OTHER_UUID}, "other"),
    "node of another chassis": (C6100, {"serial": "DB3KYV2"}, "other"),
    "node of a chassis, dell's board serial": (
        {
            **C6100,
            "serial": "0AB1C24.CN70163",
            "board_serial": ".0AB1C24.CN70163.",
            "shared_serial": "0AB1C24",
        },
        {"manufacturer": "Dell Inc.", "serial": "CN70164", "sku": "0AB1C24"},
        "unknown",
    ),
    # xcat-core#3205: OpenBMC reports zeros until the host has started; #5428: 1234567890 on old Supermicro boards.
    "openbmc before its host": ({"serial": "1318ACA00"}, {"serial": "0000000000000000"}, "not_compared"),
    "placeholder": (
        {"serial": "S12345X0A1"},
        {"serial": "1234567890", "sku": "To be filled by O.E.M."},
        "not_compared",
    ),
    "template's uuid": (
        {"uuid": OTHER_UUID},
        {"uuid": "03000200-0400-0500-0006-000700080009"},
        "not_compared",
    ),
    "uuid of every board": (  # SolidRun/lx2160a_uefi#4
        {"uuid": "8a95d198-7f46-11e5-bf8b-08002704d48e"},
        {"uuid": "8A95D198-7F46-11E5-BF8B-08002704D48E"},
        "not_compared",
    ),
    # rockstor-core#2143, SolidRun/lx2160a_uefi#4, Dasharo#155: firmware gives one UUID to many machines.
    "one uuid in every board": (
        {"serial": "S100000001", "uuid": "8A95D198-7F46-11E5-BF8B-08002704D48E"},
        {"serial": "S100000002", "uuid": "98d1958a-467f-e511-bf8b-08002704d48e"},
        "other",
    ),
    "uuid of two digits": (
        {"serial": "S100000001", "uuid": "FEFEFEFE-FEFE-FEFE-FEFE-FEFEFEFEFEFE"},
        {"serial": "S100000002", "uuid": "fefefefe-fefe-fefe-fefe-fefefefefefe"},
        "other",
    ),
    "dell without a service tag": (
        {"serial": "ABC1234", "uuid": "4C4C4544-0000-2010-8020-80C04F202020"},
        {"manufacturer": "Dell Inc.", "sku": "ABC1235", "uuid": "4c4c4544-0000-2010-8020-80c04f202020"},
        "other",
    ),
    # lf-edge/eve#6381: each unit of a model reports the same text.
    "one text in every board": (
        {"serial": "Not Provided"},
        {"serial": "Not Provided", "chassis_serial": "01234567890123456789AB"},
        "not_compared",
    ),
    "counted uuid": (
        {"uuid": "00000000-0000-0000-0807-060504030201"},
        {"uuid": "00000000-0000-0000-0807-060504030201"},
        "not_compared",
    ),
    # ironcore-dev/metal-operator#90: iLO 6 writes its UUID in the order of SMBIOS, the kernel in that of RFC 4122.
    "hpe gen11": (
        {"serial": "CZ22290 2Y", "uuid": "50353235-3334-435A-3233-323930323459"},
        {"manufacturer": "HPE", "serial": "", "uuid": "35323550-3433-5A43-3233-323930323459"},
        "same",
    ),
    "board replaced, uuid kept": (
        {"serial": "S100000001", "uuid": OTHER_UUID},
        {"serial": "S100000002", "uuid": OTHER_UUID.lower()},
        "same",
    ),
    "node unknown": ({}, {"serial": "CZJ0000001", "uuid": OTHER_UUID}, "not_compared"),
    # Two lengths: one is not the serial that its field says, so it is no other machine.
    "unknown maker, serials of two kinds": (
        {"serial": "QX1234567"},
        {"serial": "PN00000000012345"},
        "unknown",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_machine_is_compared_by_every_identifier(name):
    node, machine, match = CASES[name]
    identity = MachineIdentity.from_values(**machine)
    comparison = compare_machine(NodeIdentifiers(**node), identity)
    assert (comparison.match, bool(comparison.reason)) == (match, match in ("other", "unknown"))


@pytest.mark.parametrize(
    "uuid", ["12345678-1234-1234-1234-123456789012", "fe" * 4 + "-fefe" * 3 + "-" + "fe" * 6]
)
def test_registry_and_bmc_know_the_same_placeholders(uuid):
    comparison = compare_machine(NodeIdentifiers(uuid=uuid), MachineIdentity(uuid=OTHER_UUID))
    assert (normalize_uuid(uuid), comparison.match) == (None, "not_compared")


def test_registry_gives_the_shared_serial_of_a_chassis(tmp_path):
    url = f"sqlite:///{tmp_path}/registry.db"
    with Registry(url) as registry:
        for number in (1, 2):
            identity = NodeIdentity("DB3KYV1", rack="r1", slot=str(number))
            board = {"board_serial": f"CN7016{number}"}
            declared = NodeObservation("rack:r1", f"n{number}", replace(identity, serial=None))
            registry.apply_observation(declared)
            registry.apply_observation(NodeObservation("ansible", f"n{number}", identity, observed=board))
        node = registry.get_node("n2")
    identifiers = {"serial": node.serial, **list_bmc_identifiers(url)[node.id]}
    assert identifiers == {"serial": "CN70162", "board_serial": "CN70162", "shared_serial": "DB3KYV1"}
    known = power.build_identifiers(power.PowerOptions("off", USER, PASSWORD, "CN70162", identifiers))
    assert compare_machine(known, MachineIdentity(serial="DB3KYV1")).match == "unknown"


@pytest.fixture
def bmc(tmp_path):
    pytest.importorskip("sushy", reason="needs the Python package sushy")
    with ScriptedBmc(tmp_path / "bmc") as server:
        yield server


@pytest.fixture
def control(bmc, monkeypatch):
    """Give the action as Ansible calls it, in this process."""
    from gpufleet.remote.bmc.__main__ import run_request

    monkeypatch.setattr(power, "run_power_action", run_request)

    def run(action, **more):
        return power.control_power(bmc.declaration, power.PowerOptions(action, USER, PASSWORD, **more))

    return run


LENOVO = {
    "Manufacturer": "Lenovo",
    "Model": "ThinkSystem GB300",
    "SerialNumber": "J9EXMPAB1",
    "PowerState": "On",
}


def test_machine_that_cannot_be_identified_is_not_switched_off_and_both_sides_are_named(bmc, control):
    bmc.system.update(LENOVO)
    report = control("off", serial="JEXMP00001", identifiers={"serial": "JEXMP00001", "uuid": OTHER_UUID})
    assert (report.match, report.is_other_machine, report.orders) == ("unknown", False, ())
    assert "is not known to belong to this node" in report.problem
    assert f"it reports serial J9EXMPAB1; the node has serial JEXMP00001, UUID {OTHER_UUID}" in report.problem
    assert "nothing was switched" in report.problem
    assert "set power_serial: J9EXMPAB1 for this node" in report.problem


def test_machine_that_cannot_be_identified_is_switched_on_with_a_note(bmc, control):
    bmc.system.update(LENOVO)
    report = control("on", serial="JEXMP00001")
    assert (report.problem, report.state) == ("", "on")
    assert "could not be identified" in report.notes[0]
    assert "set power_serial: J9EXMPAB1" in power.describe_power(report)
    assert power.build_power_facts(report, "redfish")["reasons"][0]["message"] == report.notes[0]


@pytest.mark.parametrize(
    ("serial", "match"), [("J9EXMPAB1", "same"), ("", "not_compared"), ("J9EXMPAB2", "other")]
)
def test_serial_that_a_person_sets_is_compared_alone(bmc, control, serial, match):
    bmc.system.update(LENOVO, UUID=SUPERMICRO_UUIDS[0])
    bmc.system["Model"] = "ThinkSystem SR675"
    report = control("read", serial=serial, identifiers={"serial": "JEXMP00001", "uuid": OTHER_UUID})
    assert report.match == match


def test_board_chassis_and_uuid_of_the_registry_identify_a_machine(bmc, control):
    bmc.system.update(
        SerialNumber="Default string", Links={"Chassis": [{"@odata.id": "/redfish/v1/Chassis/1"}]}
    )
    bmc.answers["/redfish/v1/Chassis/1"] = {"SerialNumber": "C42900000001"}
    same = control("read", identifiers={"serial": "", "chassis_serial": "C42900000001"})
    assert (same.match, same.chassis_serial) == ("same", "C42900000001")
    other = control("off", force=True, identifiers={"serial": "", "chassis_serial": "C42900000002"})
    assert (other.match, other.orders) == ("other", ())
    assert "belongs to another machine, the chassis serial differs" in other.problem


@pytest.mark.skipif(not shutil.which("ipmi_sim"), reason="needs openipmi")
def test_ipmi_machine_is_identified_by_its_chassis_and_guid(tmp_path):
    with run_ipmi_simulator(
        tmp_path / "ipmi", build_fru("IBM", "P8DTU", "S239290X6A20331", "130124A")
    ) as bmc:
        options = power.PowerOptions("read", USER, PASSWORD, serial="130124A")
        report = power.control_power(bmc, options)
        assert (report.match, report.chassis_serial, report.problem) == ("same", "130124A", "")
        assert report.guid == "a123456789abcdefa123456789abcdef"


@pytest.mark.parametrize(
    ("node", "machine", "named"),
    [
        # redhat-cip/edeploy#206: the serial of the chassis is the node's already, so naming it again changes nothing.
        (
            {"serial": "DB3KYV1", "uuid": SUPERMICRO_UUIDS[0]},
            {"serial": "DB3KYV1", "uuid": OTHER_UUID},
            OTHER_UUID,
        ),
        # oshi#2417 and netbox-agent#402: a placeholder identifies nothing.
        (
            {"serial": "S100000001", "uuid": SUPERMICRO_UUIDS[0]},
            {"serial": "To be filled by O.E.M.", "uuid": OTHER_UUID},
            OTHER_UUID,
        ),
        (
            {"serial": "JEXMP00001"},
            {"manufacturer": "Lenovo", "model": "ThinkSystem GB300", "serial": "J9EXMPAB1"},
            "J9EXMPAB1",
        ),
        (
            {"serial": "0AB1C23"},
            {"manufacturer": "Dell Inc.", "serial": "CNEXMP0000A1B2", "sku": "0AB1C24"},
            "CNEXMP0000A1B2",
        ),
    ],
)
def test_serial_that_a_message_names_makes_the_machine_the_nodes(node, machine, named):
    options = power.PowerOptions("off", USER, PASSWORD, node.get("serial", ""), node)
    assert power.choose_serial(power.PowerReport(**machine), options) == named
    chosen = power.build_identifiers(power.PowerOptions("off", USER, PASSWORD, named, node))
    comparison = compare_machine(chosen, MachineIdentity(**machine))
    assert comparison.match == "same"


@pytest.mark.parametrize("serial", ["To be filled by O.E.M.", "0000000000"])
def test_placeholder_as_the_serial_that_a_person_set_is_refused(serial):
    """It would compare nothing, and any machine could be switched off."""
    options = power.PowerOptions("off", USER, PASSWORD, serial, {"serial": "S100000001"})
    with pytest.raises(InputError, match="identifies nothing: many machines report it"):
        power.build_identifiers(options)
