"""Test the ledger of parts on each database: places, faults, actions, late results, parts that move."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gpufleet.errors import EnvironmentFault
from gpufleet.nodes import ObservedFault, ObservedPart, PartObservation, Registry

GPU = ObservedPart("gpu", "1650321001234", "GPU-b01b80eb-0f18-1df0", "NVIDIA H100 80GB HBM3", "0000:18:00.0")
XID = ObservedFault("xid_79", "gpu_xid", "NVRM: Xid (PCI:0000:18:00): 79", "gpu", "0000:18:00.0")


@pytest.fixture
def blades(registry, lab):
    registry.apply_source_report(
        lab.rack(lab.blade(1, serial="10000000aaaa1111"), lab.blade(2, serial="10000000bbbb2222"))
    )
    for name in ("blade01", "blade02"):
        registry.advance_node(name, "commissioning", "answered", lab.minutes(1))
    return registry


def burn_in(registry, node, attempt, *, parts=(GPU,), faults=(), verdict=None):
    """Store a result as a playbook run does; return what became of it."""
    verdict = verdict or ("faulty" if faults else "healthy")
    report = {"verdict": verdict, "checks": []}
    seen = PartObservation(tuple(parts), tuple(faults))
    return registry.record_burn_in_result(
        node, attempt, report, [{"attempt": attempt}], reason="r", seen=seen
    )


def find(registry, kind="gpu", label=None):
    (part,) = [p for p in registry.list_parts() if p.kind == kind and label in (None, p.label)]
    return part


def entries(part):
    return [(entry.event, entry.name, entry.attempt) for entry in part.entries]


def test_fault_is_recorded_with_its_evidence(blades):
    fault = ObservedFault(
        "gpu_memory.wrong_vectors", "gpu_memory", "read back wrong", "gpu", GPU.position, 3.0, 0.0, "vectors"
    )
    burn_in(blades, "blade01", "a1", faults=[fault])
    (entry,) = find(blades).entries
    assert (entry.check, entry.measured, entry.threshold, entry.unit) == ("gpu_memory", 3.0, 0.0, "vectors")
    (result,) = blades.list_burn_in_results("blade01")
    assert entry.digest == result.digest
    assert find(blades, "board", "10000000aaaa1111").entries == ()


def test_gpu_keeps_its_ledger_when_it_moves(blades):
    burn_in(blades, "blade01", "a1", faults=[XID])
    burn_in(blades, "blade02", "b1")
    part = find(blades)
    names = {node.id: node.name for node in blades.list_nodes()}
    assert [names[place.node] for place in part.placements] == ["blade01", "blade02"]
    assert entries(part) == [("fault", "xid_79", "a1"), ("passed", "xid_79", "b1")]


def test_another_gpu_in_the_same_place_takes_the_old_one_out(blades):
    burn_in(blades, "blade01", "a1")
    other = ObservedPart("gpu", None, "GPU-ffffffff-1111", GPU.model, GPU.position)
    burn_in(blades, "blade01", "a2", parts=[other])
    assert find(blades, label=GPU.serial).place.node is None
    assert find(blades, label=other.uuid).place.node == blades.get_node("blade01").id


def test_gpu_that_no_longer_answers_is_found_by_its_last_place(blades):
    burn_in(blades, "blade01", "a1")
    burn_in(blades, "blade01", "a2", parts=[], faults=[XID])
    assert entries(find(blades)) == [("fault", "xid_79", "a2")]


def test_fault_of_an_unknown_part_is_the_boards(blades):
    burn_in(blades, "blade01", "a1", parts=[], faults=[XID])
    assert entries(find(blades, "board", "10000000aaaa1111")) == [("fault", "xid_79", "a1")]


def test_late_result_of_an_old_attempt_adds_nothing(blades, lab):
    blades.start_attempt("blade01", "burn_in", "old", lab.minutes(2))
    blades.start_attempt("blade01", "burn_in", "new", lab.minutes(3))
    assert burn_in(blades, "blade01", "old", faults=[XID]) == "ignored"
    assert blades.list_parts() == []


def test_same_records_are_one_occurrence(blades):
    seen = PartObservation((GPU,), (XID,))
    for attempt in ("a1", "rejudged"):
        blades.record_burn_in_result(
            "blade01", attempt, {"verdict": "faulty"}, [{"x": 1}], reason="r", seen=seen
        )
    assert entries(find(blades)) == [("fault", "xid_79", "a1")]


def test_two_gpus_of_one_board_share_a_serial_and_stay_two_parts(blades):
    twin = ObservedPart("gpu", GPU.serial, "GPU-30bc2701-3bc2-5f35", GPU.model, "0000:19:00.0")
    burn_in(blades, "blade01", "a1", parts=[GPU, twin])
    assert len([part for part in blades.list_parts() if part.kind == "gpu"]) == 2


def test_part_first_known_by_serial_gets_its_uuid(blades):
    burn_in(blades, "blade01", "a1", parts=[ObservedPart("gpu", GPU.serial, None, None, GPU.position)])
    burn_in(blades, "blade01", "a2")
    assert find(blades).uuid == GPU.uuid


def test_malformed_identity_stays_out(blades):
    hostile = ObservedPart("gpu", "x\x1b[2J{{ 7 }}", None, None, "0000:18:00.0")
    burn_in(blades, "blade01", "a1", parts=[hostile, ObservedPart("gpu")])
    assert [part.kind for part in blades.list_parts()] == ["board"]


def test_board_without_a_serial_is_its_node(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.advance_node("blade01", "commissioning", "answered", lab.minutes(1))
    burn_in(registry, "blade01", "a1", parts=[])
    assert find(registry, "board").uuid == f"node:{registry.get_node('blade01').id}"


def test_action_is_recorded_with_who_and_why(blades):
    burn_in(blades, "blade01", "a1", faults=[XID])
    part = blades.record_repair_action(find(blades).id, "replace", "new card", "ann")
    assert (part.entries[-1].actor, part.entries[-1].detail, part.place.node) == ("ann", "new card", None)


@pytest.mark.parametrize("table", ["placement", "repair"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET attempt = 'x'", "DELETE FROM {}"])
def test_ledger_is_append_only(blades, table, statement):
    burn_in(blades, "blade01", "a1", faults=[XID])
    with (
        pytest.raises((DBAPIError, EnvironmentFault), match="append-only"),
        blades._database.write_transaction() as connection,
    ):
        connection.execute(text(statement.format(table)))


def test_concurrent_records_lose_nothing(blades, url):
    burn_in(blades, "blade01", "a1", faults=[XID])
    part = find(blades).id
    code = (
        "import sys; from gpufleet.nodes import Registry\n"
        "with Registry(sys.argv[1]) as r:\n"
        "    for n in range(5): r.record_repair_action(sys.argv[2], 'reset', f'{sys.argv[3]} {n}', sys.argv[3])"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, url, part, who]) for who in ("ann", "bob")]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    reasons = sorted(entry.detail for entry in find(blades).entries if entry.event == "action")
    assert reasons == sorted(f"{who} {n}" for who in ("ann", "bob") for n in range(5))


def test_registry_of_schema_two_is_migrated(empty_url):
    from alembic import command
    from alembic.config import Config

    from gpufleet.nodes import database

    opened = database._engine(database._parse_url(empty_url), 10)
    config = Config()
    config.set_main_option("script_location", "gpufleet.nodes:migrations")
    with database._writing(opened, database._parse_url(empty_url), 10) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    opened.dispose()
    with Registry(empty_url) as registry:
        assert registry.list_parts() == []
