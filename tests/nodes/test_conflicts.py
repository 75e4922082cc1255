from __future__ import annotations

from gpufleet.nodes import Identity, Observation


def seen(serial, slot, at, lab, source="ssh"):
    who = Identity(serial=serial, rack="r1", slot=str(slot))
    return Observation(
        source, f"blade{slot:02}", who, observed={"arch": "aarch64"}, observed_at=lab.minutes(at)
    )


def hold_kinds(registry, node):
    return [hold.kind for hold in registry.get(node).holds]


def test_one_serial_in_two_slots_is_a_conflict_and_changes_nothing(registry, lab):
    registry.report(lab.rack(lab.blade(1, serial="AAAA1111"), lab.blade(2)))
    outcome = registry.observe(seen("AAAA1111", 2, 1, lab))
    assert [one.kind for one in outcome.conflicts] == ["identity"]
    assert registry.get("blade02").serial is None
    assert hold_kinds(registry, "blade01") == hold_kinds(registry, "blade02") == ["drift"]


def test_duplicate_serial_in_one_report_is_a_conflict(registry, lab):
    registry.report(lab.rack(lab.blade(1), lab.blade(2)))
    outcome = registry.report(
        lab.rack(lab.blade(1, at=1, serial="AAAA1111"), lab.blade(2, at=1, serial="AAAA1111"), at=1)
    )
    assert [one.kind for one in outcome.conflicts] == ["serial_twice"]
    assert outcome.missing == []
    assert {node.serial for node in registry.list()} == {None}


def test_changed_board_is_a_conflict_and_not_overwritten(registry, lab):
    registry.report(lab.rack(lab.blade(1, serial="AAAA1111")))
    outcome = registry.observe(seen("BBBB2222", 1, 1, lab))
    assert [one.kind for one in outcome.conflicts] == ["serial_changed"]
    assert registry.get("blade01").serial == "AAAA1111"
    assert "observed.arch" not in {value.key for value in registry.values("blade01")}


def test_placeholder_serials_never_conflict(registry, lab):
    registry.report(lab.rack(lab.blade(1), lab.blade(2)))
    for slot in (1, 2):
        assert registry.observe(seen("To be filled by O.E.M.", slot, 1, lab)).conflicts == []
    assert registry.conflicts() == []


def instance(name, number, at, lab, source="pulumi:dev"):
    who = Identity(instance_id=f"i-{number}")
    return Observation(source, name, who, declared={"kind": "cloud_vm"}, observed_at=lab.minutes(at))


def test_name_with_two_instance_ids_is_a_conflict(registry, lab):
    registry.observe(instance("gpu-1", 1, 0, lab))
    outcome = registry.observe(instance("gpu-1", 2, 1, lab, "pulumi:copy"))
    assert [one.kind for one in outcome.conflicts] == ["name"]
    assert len(registry.list()) == 2


def test_replaced_instance_is_a_new_node_without_conflict(registry, lab):
    from gpufleet.nodes import SourceReport

    registry.report(SourceReport("pulumi:dev", lab.minutes(0), [instance("gpu-1", 1, 0, lab)]))
    old = registry.get("gpu-1").id
    outcome = registry.report(SourceReport("pulumi:dev", lab.minutes(1), [instance("gpu-1", 2, 1, lab)]))
    assert (outcome.conflicts, outcome.missing) == ([], ["gpu-1"])
    assert registry.get("gpu-1").instance_id == "i-2"
    assert registry.get(old).is_missing


def test_conflict_sets_one_hold_and_a_clean_report_releases_it(registry, lab):
    bad = lab.blade(1, at=1, serial="AAAA1111"), lab.blade(2, at=1, serial="AAAA1111")
    registry.report(lab.rack(lab.blade(1), lab.blade(2)))
    registry.report(lab.rack(*bad, at=1))
    registry.report(lab.rack(*bad, at=2))
    assert len(registry.conflicts()) == 1
    assert lab.events(registry, "blade01") == ["created", "hold"]
    registry.report(lab.rack(lab.blade(1, at=3), lab.blade(2, at=3), at=3))
    assert registry.conflicts() == []
    assert hold_kinds(registry, "blade01") == ["drift"]  # a person releases it
