"""Test that events are ordered by revision, although clocks may jump by a day or a year."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import create_engine, event, text

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.nodes.database import HEAD
from gpufleet.nodes.revision import STEP, hash_event_key

DAY = 24 * 60
YEAR = 365 * DAY
JUMPS = pytest.mark.parametrize("jump", [-DAY, YEAR], ids=["a_day_back", "a_year_ahead"])


@JUMPS
def test_live_report_is_applied_despite_clock_jumps(registry, lab, jump):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2), at=0))
    registry.apply_source_report(lab.rack(lab.blade(1), at=jump))
    last = registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(3), at=5))
    assert not last.stale
    assert {node.name: node.is_missing for node in registry.list_nodes()} == {
        "blade01": False, "blade02": True, "blade03": False,
    }  # fmt: skip


@JUMPS
def test_reachability_follows_the_last_report_despite_clock_jumps(registry, lab, jump):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.record_reachability("blade01", True, lab.minutes(jump))
    registry.record_reachability("blade01", False, lab.minutes(1), "timed out")
    assert registry.get_node("blade01").reachable is False
    registry.record_reachability("blade01", True, lab.minutes(-jump))
    assert registry.get_node("blade01").reachable is True
    assert lab.events(registry, "blade01")[1:] == ["reachable", "unreachable", "reachable"]


@JUMPS
def test_verdict_is_applied_despite_clock_jumps(registry, lab, jump):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.start_attempt("blade01", "burn_in", "first", lab.minutes(jump))
    begun = {"started_at": lab.minutes(1), "when": lab.minutes(2)}
    assert (
        registry.record_burn_in_result("blade01", "second", {"verdict": "healthy"}, [{}], **begun)
        == "applied"
    )
    late = {"started_at": lab.minutes(YEAR), "when": lab.minutes(YEAR)}
    assert (
        registry.record_burn_in_result("blade01", "first", {"verdict": "faulty"}, [{}], **late) == "ignored"
    )
    assert (registry.get_node("blade01").state, registry.get_node("blade01").attempt) == ("ready", "second")


@JUMPS
def test_newest_value_is_used_despite_clock_jumps(registry, lab, jump):
    identity = NodeIdentity(instance_id="i-1")
    for minute, machine, source in ((jump, "old", "pulumi:a"), (0, "new", "aws:r")):
        seen = NodeObservation(
            source, "vm", identity, observed={"machine": machine}, observed_at=lab.minutes(minute)
        )
        registry.apply_observation(seen)
    assert registry.get_node("vm").machine == "new"


def test_slow_reader_does_not_overwrite_a_later_faster_one(registry, lab):
    slow = registry.create_revision()
    fast = registry.create_revision()
    with registry.transaction(revision_number=fast):
        registry.apply_source_report(lab.rack(lab.blade(1)))
    with registry.transaction(revision_number=slow):
        assert registry.apply_source_report(lab.rack(lab.blade(2))).stale
    assert [node.name for node in registry.list_nodes()] == ["blade01"]


def test_healthy_result_from_before_a_repair_releases_no_node(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.advance_node("blade01", "burn_in", "test")
    before = registry.create_revision()
    registry.move_node("blade01", "repair", "board is out")
    registry.move_node("blade01", "burn_in", "board is back")
    with registry.transaction(revision_number=before):
        assert registry.record_burn_in_result("blade01", "old", {"verdict": "healthy"}, [{}]) == "ignored"
    assert registry.get_node("blade01").state == "burn_in"


def test_events_of_a_run_have_increasing_revisions(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), at=0))
    registry.apply_source_report(lab.rack(lab.blade(1), at=60))
    numbers = []
    for minute in (10, 11, 12):
        with registry.transaction_of_past_event(
            "run", lab.minutes(minute), numbers[-1] if numbers else None
        ) as number:
            registry.record_applied_event(hash_event_key("run", minute), "run")
            numbers.append(number)
    assert STEP < numbers[0] < numbers[1] < numbers[2] < 2 * STEP
    with registry.transaction_of_past_event("run", lab.minutes(9), None) as earlier:
        assert STEP <= earlier <= numbers[0]
    assert registry.find_event_revision(hash_event_key("run", 11)) == numbers[1]


def test_unchanged_report_writes_no_node(registry, lab):
    blades = [lab.blade(n) for n in range(1, 200)]
    registry.apply_source_report(lab.rack(*blades))
    statements = _statements(registry, lambda: registry.apply_source_report(lab.rack(*blades, at=1)))
    written = [statement for statement in statements if statement.startswith(("INSERT", "UPDATE", "DELETE"))]
    assert [statement.split()[2].strip('"') for statement in written] == ["revision", "source"]
    assert registry.get_node("blade07").sources[0].observed_at == lab.minutes(1)
    assert {value.observed_at for value in registry.list_node_values("blade07")} == {lab.minutes(1)}


def test_number_of_statements_does_not_grow_with_nodes_or_sources(registry, lab):
    from gpufleet.nodes import SourceReport

    def reports(count, at):
        for rack in range(count):
            identities = [NodeIdentity(rack=f"r{rack}", slot=str(n)) for n in range(5)]
            seen = [
                NodeObservation(
                    f"rack:r{rack}", f"r{rack}-{n}", identities[n], declared={"kind": "server", "at": at}
                )
                for n in range(5)
            ]
            yield SourceReport(f"rack:r{rack}", lab.minutes(at), seen)

    first = _statements(registry, lambda: registry.apply_source_reports(list(reports(90, 0))))
    second_count = _statements(registry, lambda: registry.apply_source_reports(list(reports(90, 1))))
    assert len(first) < 25
    assert len(second_count) < 25


def _statements(registry, work):
    seen = []
    note = lambda *event_arguments: seen.append(event_arguments[2])  # noqa: E731 - a listener
    event.listen(registry._database.engine, "before_cursor_execute", note)
    work()
    event.remove(registry._database.engine, "before_cursor_execute", note)
    return seen


@pytest.mark.parametrize("ready", [False, True])
def test_registry_of_the_first_version_keeps_the_order_of_its_facts(empty_url, lab, ready):
    _first_version(empty_url, lab)
    with Registry(empty_url) as registry:
        with registry._reading() as connection:
            assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
        node = registry.get_node("blade01")
        assert (node.state, node.reachable, node.attempt) == ("burn_in", True, "a1")
        with registry.transaction_of_past_event("old-run", lab.minutes(5), None):
            assert not registry.record_reachability("blade01", False, lab.minutes(5), "late news")
        assert registry.get_node("blade01").reachable is True
        verdict = {"verdict": "healthy" if ready else "faulty"}
        assert registry.record_burn_in_result("blade01", "a1", verdict, [{}]) == "applied"
        assert not registry.apply_source_report(lab.rack(lab.blade(1), at=-DAY)).stale


def _first_version(url, lab):
    """Make a registry of version 0001 with one node in burn-in."""
    from alembic import command
    from alembic.config import Config

    from gpufleet.nodes.model import format_utc_time

    engine = create_engine(url)
    config = Config()
    config.set_main_option("script_location", "gpufleet.nodes:migrations")
    times = {
        name: format_utc_time(lab.minutes(minute)) for name, minute in (("t0", 0), ("t1", 10), ("t2", 20))
    }
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in (
            (
                "INSERT INTO node (id, name, kind, state, state_since, state_reason, rack, slot, accelerators, "
                "reachable, reachable_at, attempt) VALUES ('n-000000000001', 'blade01', 'compute_blade', 'burn_in', "
                ":t1, 'test', 'r1', '1', '[]', TRUE, :t2, 'a1')"
            ),
            "INSERT INTO observation VALUES ('n-000000000001', 'rack:r1', 'declared.kind', '\"compute_blade\"', :t0)",
            "INSERT INTO presence VALUES ('n-000000000001', 'rack:r1', :t0, NULL)",
            "INSERT INTO source VALUES ('rack:r1', :t0, NULL, NULL)",
            "INSERT INTO attempt VALUES ('n-000000000001', 'a1', 'burn_in', :t1, NULL, NULL)",
        ):
            names = {name: value for name, value in times.items() if f":{name}" in statement}
            connection.execute(text(statement), names)
    engine.dispose()


def test_unknown_run_is_placed_by_time_only(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), at=0))
    registry.apply_source_report(lab.rack(lab.blade(1), at=YEAR))
    with registry.transaction_of_past_event("unknown", lab.minutes(0) + timedelta(hours=1), None) as number:
        assert STEP < number < 2 * STEP
