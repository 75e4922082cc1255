"""Test nodes of one chassis with one product serial, and one board that answers in two places."""

from __future__ import annotations

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, SourceReport

CHASSIS = "0AB1C24"
UUID = "4c4c4544-0041-4210-8031-b0c04f43323{}"


def build_observation(lab, number, at=1, *, serial=CHASSIS, source="ansible", slot=True, **observed):
    identity = NodeIdentity(serial=serial, **({"rack": "r1", "slot": str(number)} if slot else {}))
    name = f"blade{number:02}"
    facts = {"arch": "x86_64", **observed}
    return NodeObservation(source, name, identity, observed=facts, observed_at=lab.minutes(at))


def describe_board(number):
    return {
        "board_serial": f"CN70163{number}",
        "uuid": UUID.format(number),
        "mac": f"b4:96:91:00:aa:0{number}",
    }


def list_holds(registry):
    return [hold.reason for node in registry.list_nodes() for hold in registry.get_node(node.name).holds]


def list_serials(registry):
    return [registry.get_node(f"blade{number:02}").serial for number in (1, 2, 3, 4)]


@pytest.fixture
def chassis(registry, lab):
    """Return a registry with a rack of four nodes of one chassis, declared without serials."""
    registry.apply_source_report(lab.rack(*(lab.blade(number) for number in (1, 2, 3, 4))))
    return registry


def test_four_nodes_of_one_chassis(registry, lab):  # redhat-cip/edeploy #206
    registry.apply_source_report(lab.rack(*(lab.blade(n) for n in (1, 2, 3, 4))))
    for slot in (1, 2, 3, 4):
        registry.apply_observation(build_observation(lab, slot, slot))
    assert list_holds(registry) == []


@pytest.mark.parametrize(
    ("keys", "serials"),
    [
        (
            ("board_serial", "uuid", "mac"),
            [CHASSIS, "CN701632", "CN701633", "CN701634"],
        ),  # ipxe/ipxe #21
        (("uuid", "mac"), [CHASSIS, *(UUID.format(n) for n in (2, 3, 4))]),
        (("mac",), [CHASSIS, None, None, None]),  # siderolabs/sidero #930: the UUID comes from the serial
    ],
)
def test_node_of_a_chassis_is_known_by_what_is_its_own(chassis, lab, keys, serials):
    for at in (1, 20):  # the second report matches what the first one registered
        for number in (1, 2, 3, 4):
            facts = {key: describe_board(number)[key] for key in keys}
            chassis.apply_observation(build_observation(lab, number, at + number, **facts))
    assert list_serials(chassis) == serials
    assert list_holds(chassis) == []
    assert len(chassis.list_nodes()) == 4


@pytest.mark.parametrize(
    ("board_serial", "serial"),
    [
        (".0AB1C24.CN7016348F00AB.", "0AB1C24.CN7016348F00AB"),  # Dell
        ("/0AB1C24/CN7016348F00AB/", "0AB1C24/CN7016348F00AB"),
        ("\x1b[31mCN7016348F00AB", None),
        ("To be filled by O.E.M.", None),
    ],
)
def test_board_serial_is_used_only_if_it_is_one(chassis, lab, board_serial, serial):
    chassis.apply_observation(build_observation(lab, 1, 1, board_serial="CN701631"))
    outcome = chassis.apply_observation(build_observation(lab, 2, 2, board_serial=board_serial))
    assert outcome.bad == []
    assert chassis.get_node("blade02").serial == serial


def test_report_without_evidence_matches_a_node_that_has_its_own_serial(chassis, lab):
    for number in (1, 2):
        chassis.apply_observation(build_observation(lab, number, number, **describe_board(number)))
    chassis.apply_observation(build_observation(lab, 2, 9, source="burn_in"))
    assert list_holds(chassis) == []
    assert chassis.get_node("blade02").serial == "CN701632"


def test_board_that_was_replaced_in_a_chassis_is_still_a_conflict(chassis, lab):
    for number in (1, 2):
        chassis.apply_observation(build_observation(lab, number, number, **describe_board(number)))
    other = {**describe_board(2), "board_serial": "CN709999", "uuid": UUID.format(9)}
    outcome = chassis.apply_observation(build_observation(lab, 2, 9, serial="ZZ99999", **other))
    assert [conflict.kind for conflict in outcome.conflicts] == ["serial_changed"]


def test_one_board_that_answers_in_two_slots_is_a_conflict(chassis, lab):
    chassis.apply_observation(build_observation(lab, 1, 1, **describe_board(1)))
    outcome = chassis.apply_observation(build_observation(lab, 2, 2, **describe_board(1)))
    assert [conflict.kind for conflict in outcome.conflicts] == ["identity"]


def test_serial_of_a_device_tree_is_never_shared(chassis, lab):
    facts = {"serial_source": "device_tree"}
    chassis.apply_observation(build_observation(lab, 1, 1, serial="10000000a1b2c3d4", **facts))
    outcome = chassis.apply_observation(
        build_observation(lab, 2, 2, serial="10000000a1b2c3d4", mac="b4:96:91:00:aa:02", **facts)
    )
    assert [conflict.kind for conflict in outcome.conflicts] == ["identity"]


def test_declared_serial_is_shared_only_if_the_boards_differ(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1, serial=CHASSIS), lab.blade(2)))
    registry.apply_observation(build_observation(lab, 1, 1, **describe_board(1)))
    assert registry.apply_observation(build_observation(lab, 2, 2)).conflicts != []
    assert registry.apply_observation(build_observation(lab, 2, 3, **describe_board(2))).conflicts == []


@pytest.mark.parametrize("uuid", ["03000200-0400-0500-0006-000700080009", UUID.format(1)])
def test_placeholder_serial_falls_back_to_the_board(chassis, lab, uuid):
    for number in (1, 2):
        facts = {**describe_board(number), "uuid": uuid}
        chassis.apply_observation(build_observation(lab, number, number, serial="Default string", **facts))
    assert list_serials(chassis)[:2] == ["CN701631", "CN701632"]


def test_placeholder_uuid_identifies_nothing(chassis, lab):
    facts = {"uuid": "03000200-0400-0500-0006-000700080009", "board_serial": "Default string"}
    for number in (1, 2):
        chassis.apply_observation(build_observation(lab, number, number, serial="Default string", **facts))
    assert list_serials(chassis)[:2] == [None, None]
    assert list_holds(chassis) == []


def test_cloned_uuid_of_two_machines_is_given_to_neither_twice(chassis, lab):
    for number in (1, 2):
        facts = {"uuid": UUID.format(7), "mac": f"b4:96:91:00:aa:0{number}"}
        chassis.apply_observation(build_observation(lab, number, number, serial="None", **facts))
    assert list_serials(chassis)[:2] == [UUID.format(7), None]
    assert list_holds(chassis) == []


def test_workstations_without_a_place_are_not_merged(registry, lab):
    for number in (1, 2):
        declared = NodeObservation("stack", f"blade{number:02}", declared={"kind": "workstation"})
        registry.apply_source_report(SourceReport(f"stack:{number}", lab.minutes(0), [declared]))
    for number in (1, 2):
        registry.apply_observation(
            build_observation(lab, number, number, slot=False, mac=f"b4:96:91:00:aa:0{number}")
        )
    assert [registry.get_node(f"blade0{n}").serial for n in (1, 2)] == [CHASSIS, "b4:96:91:00:aa:02"]
    assert len(registry.list_nodes()) == 2


def test_one_report_with_a_whole_chassis_is_resolved(chassis, lab):
    seen = [build_observation(lab, n, 1, source="ssh", **describe_board(n)) for n in (1, 2, 3, 4)]
    outcome = chassis.apply_source_report(SourceReport("ssh", lab.minutes(1), seen, complete=False))
    assert outcome.conflicts == []
    assert list_serials(chassis) == [CHASSIS, "CN701632", "CN701633", "CN701634"]
