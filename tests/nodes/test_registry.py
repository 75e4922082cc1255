from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport


def test_declared_blade_is_expected(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    node = registry.get_node("blade01")
    assert (node.state, node.kind, node.rack, node.slot) == ("expected", "compute_blade", "r1", "1")
    assert node.state_reason == "declared by rack:r1"


def test_cloud_instance_is_discovered(registry, lab):
    identity = NodeIdentity(instance_id="i-1")
    registry.apply_observation(
        NodeObservation("pulumi:dev", "dev-a-1", identity, declared={"kind": "cloud_vm"})
    )
    assert registry.get_node("dev-a-1").state == "discovered"


def test_node_is_found_by_name_id_and_place(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    node = registry.get_node("blade02")
    assert registry.get_node(node.id) == registry.get_node("r1/2") == node


def test_unknown_node_is_reported_with_the_next_command(registry):
    with pytest.raises(InputError, match="gpufleet nodes list"):
        registry.get_node("blade99")


def test_repeated_report_adds_nothing(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    before = [node.id for node in registry.list_nodes()]
    second_report = registry.apply_source_report(lab.rack(lab.blade(1, at=5), lab.blade(2, at=5), at=5))
    assert second_report.created == []
    assert [node.id for node in registry.list_nodes()] == before
    assert lab.events(registry, "blade01") == ["created"]


def test_every_value_has_its_source_and_time(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    identity, seen = NodeIdentity(rack="r1", slot="1"), {"arch": "aarch64"}
    registry.apply_observation(
        NodeObservation("ssh", "blade01", identity, observed=seen, observed_at=lab.minutes(3))
    )
    expected_values = {
        value.key: (value.source, value.observed_at) for value in registry.list_node_values("blade01")
    }
    assert expected_values["declared.machine"] == ("rack:r1", lab.minutes(0))
    assert expected_values["observed.arch"] == ("ssh", lab.minutes(3))


def test_declared_and_observed_values_have_different_keys(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1, serial="AAAA1111")))
    identity = NodeIdentity(serial="AAAA1111", rack="r1", slot="1")
    registry.apply_observation(NodeObservation("ssh", "blade01", identity, observed={"machine": "CM5"}))
    machines = {v.key: v.value for v in registry.list_node_values("blade01") if v.key.endswith("machine")}
    assert machines == {"declared.machine": "Compute Blade CM4 8GB", "observed.machine": "CM5"}
    assert registry.get_node("blade01").machine == "Compute Blade CM4 8GB"


def test_observed_serial_identifies_a_board_in_any_slot(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1, serial="AAAA1111"), lab.blade(2)))
    old = registry.get_node("blade01")
    registry.apply_source_report(lab.rack(lab.blade(2, at=1), lab.blade(7, at=1, serial="AAAA1111"), at=1))
    moved = registry.get_node("r1/7")
    assert (moved.id, moved.name) == (old.id, "blade07")


def test_address_book_overrides_the_declared_address(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    identity = NodeIdentity(rack="r1", slot="1")
    registry.apply_observation(
        NodeObservation("address_book", "blade01", identity, observed={"address": "198.18.1.11"})
    )
    registry.apply_source_report(lab.rack(lab.blade(1, at=9), at=9))
    assert registry.get_node("blade01").address == "198.18.1.11"


def test_node_that_is_no_longer_reported_is_marked_missing(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    outcome = registry.apply_source_report(lab.rack(lab.blade(1, at=1), at=1))
    node = registry.get_node("blade02")
    assert outcome.missing == ["blade02"]
    assert node.is_missing
    assert node.machine == "Compute Blade CM4 8GB"
    assert lab.events(registry, "blade02") == ["created", "missing"]


def test_returned_node_keeps_its_identity(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    old = registry.get_node("blade01").id
    registry.apply_source_report(lab.rack(at=1))
    registry.apply_source_report(lab.rack(lab.blade(1, at=2), at=2))
    assert (registry.get_node("blade01").id, registry.get_node("blade01").is_missing) == (old, False)


def test_report_of_a_source_affects_only_its_own_nodes(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.apply_source_report(SourceReport("pulumi:dev", lab.minutes(1), []))
    assert not registry.get_node("blade01").is_missing


def test_older_report_changes_nothing(registry, lab):
    begun = registry.create_revision()
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2), at=1))
    with registry.transaction(revision_number=begun):
        assert registry.apply_source_report(lab.rack(lab.blade(1), at=5)).stale
    assert not registry.get_node("blade02").is_missing


def test_failed_source_keeps_its_last_good_report(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.record_source_failure("rack:r1", "no such file", lab.minutes(4))
    (source,) = registry.list_source_statuses()
    assert (source.observed_at, source.failure) == (lab.minutes(0), "no such file")
    assert not registry.get_node("blade01").is_missing


def test_move_is_recorded_in_the_history(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.move_node("blade01", "discovered", "seen on the network")
    last = registry.list_node_history("blade01")[-1]
    assert (last.old_state, last.new_state, last.reason) == ("expected", "discovered", "seen on the network")


def test_illegal_move_changes_nothing(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    with pytest.raises(InputError, match="from expected: discovered, retired"):
        registry.move_node("blade01", "ready", "trust me")
    assert registry.get_node("blade01").state == "expected"
    assert lab.events(registry, "blade01") == ["created"]


def test_hold_does_not_change_the_state(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    assert registry.set_node_hold("blade01", "cost", "over budget")
    assert not registry.set_node_hold("blade01", "cost", "over budget")
    node = registry.get_node("blade01")
    assert (node.state, [hold.kind for hold in node.holds]) == ("expected", ["cost"])
    assert registry.release_node_hold("blade01", "cost", "paid")
    assert not registry.release_node_hold("blade01", "cost", "paid")
    assert lab.events(registry, "blade01") == ["created", "hold", "release"]


def test_reachability_is_stored_with_its_time(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    assert registry.get_node("blade01").reachable is None
    begun = registry.create_revision()
    registry.record_reachability("blade01", False, lab.minutes(5), "timed out")
    with registry.transaction(revision_number=begun):
        assert not registry.record_reachability("blade01", True, lab.minutes(9))
    node = registry.get_node("blade01")
    assert (node.reachable, node.reachable_detail, node.state) == (False, "timed out", "expected")


@pytest.mark.parametrize("table", ["history", "result"])
@pytest.mark.parametrize("change", ["UPDATE {} SET attempt = 'forged'", "DELETE FROM {}"])
def test_database_refuses_changes_of_history_and_results(registry, lab, table, change):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.record_burn_in_result("blade01", "a1", {"verdict": "healthy"}, [{"type": "start"}])
    with (
        pytest.raises((DBAPIError, EnvironmentFault), match="append-only"),
        registry._writing() as connection,
    ):
        connection.execute(text(change.format(table)))


def test_retired_node_frees_its_slot(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1, serial="AAAA1111")))
    old = registry.get_node("blade01").id
    registry.move_node("blade01", "retired", "board died")
    registry.apply_source_report(lab.rack(lab.blade(1, at=1, serial="BBBB2222"), at=1))
    assert registry.get_node("blade01").id != old
    assert registry.get_node(old).state == "retired"


def test_file_that_is_not_a_database_is_reported_in_one_line(tmp_path):
    with pytest.raises(InputError, match="GPUFLEET_DATABASE_URL"):
        Registry("not a url")
    (tmp_path / "file.db").write_text("this is not a database, and long enough to be read as one" * 9)
    with pytest.raises(EnvironmentFault, match="does not answer"):
        Registry(f"sqlite:///{tmp_path / 'file.db'}")


def test_complete_report_marks_absent_nodes_as_missing_and_a_partial_one_does_not(registry, lab):
    both, first = (lab.blade(1), lab.blade(2)), (lab.blade(1, at=5),)
    registry.apply_source_report(lab.rack(*both))
    partial = registry.apply_source_report(SourceReport("rack:r1", lab.minutes(5), first, complete=False))
    assert (partial.missing, registry.get_node("blade02").is_missing) == ([], False)
    complete = registry.apply_source_report(SourceReport("rack:r1", lab.minutes(6), first, complete=True))
    assert (complete.missing, registry.get_node("blade02").is_missing) == (["blade02"], True)


def test_complete_report_replaces_values_of_a_node_and_a_partial_one_adds_to_them(registry, lab):
    def expected_values():
        return {
            v.key: v.value
            for v in registry.list_node_values("blade01")
            if v.source == "scan" and "observed." in v.key
        }

    def seen(at, complete, **observed):
        identity = NodeIdentity(rack="r1", slot="1")
        observation = NodeObservation(
            "scan", "blade01", identity, observed=observed, observed_at=lab.minutes(at)
        )
        registry.apply_source_report(SourceReport("scan", lab.minutes(at), [observation], complete=complete))

    registry.apply_source_report(lab.rack(lab.blade(1)))
    seen(1, True, arch="aarch64", kernel="6.1")
    seen(2, False, kernel="6.6")
    assert expected_values() == {"observed.arch": "aarch64", "observed.kernel": "6.6"}
    seen(3, True, kernel="6.8")
    assert expected_values() == {"observed.kernel": "6.8"}


def test_only_a_complete_report_is_recorded_as_the_last_of_its_source(registry, lab):
    registry.apply_source_report(SourceReport("rack:r1", lab.minutes(0), (lab.blade(1),), complete=True))
    registry.apply_source_report(
        SourceReport("rack:r1", lab.minutes(9), (lab.blade(1, at=9),), complete=False)
    )
    (source,) = [source for source in registry.list_source_statuses() if source.name == "rack:r1"]
    assert source.observed_at == lab.minutes(0)
    begun = registry.create_revision()
    late = registry.apply_source_report(
        SourceReport("rack:r1", lab.minutes(5), (lab.blade(1, at=5), lab.blade(2, at=5)))
    )
    assert not late.stale
    with registry.transaction(revision_number=begun):
        assert registry.apply_source_report(
            SourceReport("rack:r1", lab.minutes(4), (lab.blade(1, at=4),))
        ).stale


def test_outdated_partial_report_restores_no_changed_value(registry, lab):
    identity = NodeIdentity(rack="r1", slot="1")

    def seen(**observed):
        observation = NodeObservation(
            "ssh", "blade01", identity, observed=observed, observed_at=lab.minutes(1)
        )
        return SourceReport("ssh", lab.minutes(1), [observation], complete=False)

    registry.apply_source_report(lab.rack(lab.blade(1)))
    begun = registry.create_revision()
    registry.apply_source_report(seen(kernel="6.6"))
    with registry.transaction(revision_number=begun):
        registry.apply_source_report(seen(kernel="6.1", arch="aarch64"))
    expected_values = {v.key: v.value for v in registry.list_node_values("blade01") if v.source == "ssh"}
    assert (expected_values["observed.kernel"], expected_values["observed.arch"]) == ("6.6", "aarch64")


def test_newest_value_of_a_key_is_given_for_all_nodes_at_once(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    for source, name, drivers in (("b", "blade01", "old"), ("a", "blade01", "new"), ("a", "blade02", [2])):
        registry.apply_observation(
            NodeObservation(source, name, NodeIdentity(), observed={"drivers": drivers})
        )
    ids = {node.name: node.id for node in registry.list_nodes()}
    assert registry.list_newest_values("observed.drivers") == {ids["blade01"]: "new", ids["blade02"]: [2]}
    assert registry.list_newest_values("observed.unknown") == {}


def test_reason_of_the_present_verdict_is_given_for_all_nodes_at_once(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2), lab.blade(3)))
    for name, verdict in (("blade01", "faulty"), ("blade02", "degraded")):
        for reason in ("first", "second"):
            attempt = registry.start_attempt(name, "burn_in")
            report = {"attempt": attempt, "verdict": verdict, "checks": []}
            registry.record_burn_in_result(name, attempt, report, [{"type": reason}], reason=reason)
    names = {node.id: node.name for node in registry.list_nodes()}
    reasons = {names[node]: reason for node, reason in registry.list_verdict_reasons().items()}
    assert reasons.keys() == {"blade01", "blade02"}
    assert reasons["blade02"] == "degraded: second"
