from __future__ import annotations

from gpufleet.nodes import NodeIdentity, NodeObservation


def build_observation(serial, slot, at, lab, source="ssh"):
    identity = NodeIdentity(serial=serial, rack="r1", slot=str(slot))
    return NodeObservation(
        source, f"blade{slot:02}", identity, observed={"arch": "aarch64"}, observed_at=lab.minutes(at)
    )


def hold_kinds(registry, node):
    return [hold.kind for hold in registry.get_node(node).holds]


def test_one_serial_in_two_slots_is_a_conflict_and_changes_nothing(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1, serial="AAAA1111"), lab.blade(2)))
    outcome = registry.apply_observation(build_observation("AAAA1111", 2, 1, lab))
    assert [conflict.kind for conflict in outcome.conflicts] == ["identity"]
    assert registry.get_node("blade02").serial is None
    assert hold_kinds(registry, "blade01") == hold_kinds(registry, "blade02") == ["drift"]


def test_duplicate_serial_in_one_report_is_a_conflict(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    outcome = registry.apply_source_report(
        lab.rack(lab.blade(1, at=1, serial="AAAA1111"), lab.blade(2, at=1, serial="AAAA1111"), at=1)
    )
    assert [conflict.kind for conflict in outcome.conflicts] == ["serial_twice"]
    assert outcome.missing == []
    assert {node.serial for node in registry.list_nodes()} == {None}


def test_changed_board_is_a_conflict_and_not_overwritten(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1, serial="AAAA1111")))
    outcome = registry.apply_observation(build_observation("BBBB2222", 1, 1, lab))
    assert [conflict.kind for conflict in outcome.conflicts] == ["serial_changed"]
    assert registry.get_node("blade01").serial == "AAAA1111"
    assert "observed.arch" not in {value.key for value in registry.list_node_values("blade01")}


def test_placeholder_serials_never_conflict(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    for slot in (1, 2):
        assert (
            registry.apply_observation(build_observation("To be filled by O.E.M.", slot, 1, lab)).conflicts
            == []
        )
    assert registry.list_open_conflicts() == []


def instance(name, number, at, lab, source="pulumi:dev"):
    identity = NodeIdentity(instance_id=f"i-{number}")
    return NodeObservation(source, name, identity, declared={"kind": "cloud_vm"}, observed_at=lab.minutes(at))


def test_name_with_two_instance_ids_is_a_conflict(registry, lab):
    registry.apply_observation(instance("gpu-1", 1, 0, lab))
    outcome = registry.apply_observation(instance("gpu-1", 2, 1, lab, "pulumi:copy"))
    assert [conflict.kind for conflict in outcome.conflicts] == ["name"]
    assert len(registry.list_nodes()) == 2


def test_replaced_instance_is_a_new_node_without_conflict(registry, lab):
    from gpufleet.nodes import SourceReport

    registry.apply_source_report(SourceReport("pulumi:dev", lab.minutes(0), [instance("gpu-1", 1, 0, lab)]))
    old = registry.get_node("gpu-1").id
    outcome = registry.apply_source_report(
        SourceReport("pulumi:dev", lab.minutes(1), [instance("gpu-1", 2, 1, lab)])
    )
    assert (outcome.conflicts, outcome.missing) == ([], ["gpu-1"])
    assert registry.get_node("gpu-1").instance_id == "i-2"
    assert registry.get_node(old).is_missing


def test_conflict_sets_one_hold_and_a_clean_report_releases_it(registry, lab):
    bad = lab.blade(1, at=1, serial="AAAA1111"), lab.blade(2, at=1, serial="AAAA1111")
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    registry.apply_source_report(lab.rack(*bad, at=1))
    registry.apply_source_report(lab.rack(*bad, at=2))
    assert len(registry.list_open_conflicts()) == 1
    assert lab.events(registry, "blade01") == ["created", "hold"]
    registry.apply_source_report(lab.rack(lab.blade(1, at=3), lab.blade(2, at=3), at=3))
    assert registry.list_open_conflicts() == []
    assert hold_kinds(registry, "blade01") == ["drift"]  # a person releases it
