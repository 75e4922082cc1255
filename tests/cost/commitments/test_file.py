"""Test ``commitments.yaml``: valid files, and each mistake as one line with its place."""

from __future__ import annotations

from datetime import date

import pytest

from gpufleet import cost
from gpufleet.errors import InputError

RI = "id: ri, kind: reserved_instance, region: us-east-1, machine: g5.2xlarge, count: 2, usd_per_hour: 0.7"
TERM = "start: 2026-01-01, end: 2027-01-01, source: invoice"
SP = "id: sp, kind: compute_savings_plan, usd_per_hour: 3"
CUD = "id: cud, kind: resource_cud, region: us-central1, usd_per_hour: 3"


@pytest.fixture
def write_commitments(tmp_path):
    def write_entries(*entries):
        file = tmp_path / "commitments.yaml"
        file.write_text("commitments:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries))
        return file

    return write_entries


def test_commitments_file_is_read(write_commitments):
    commitments = cost.load_commitments(
        write_commitments(f"{RI}, {TERM}", f"{SP}, discount_percent: 20, {TERM}")
    ).commitments
    assert [commitment.id for commitment in commitments] == ["ri", "sp"]
    assert [float(commitment.paid_usd_per_hour) for commitment in commitments] == [1.4, 3.0]
    assert commitments[0].is_in_force(date(2026, 1, 1))
    assert not commitments[0].is_in_force(date(2027, 1, 1))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            f"id: x, {TERM}",
            ":2: commitments[0].kind: is missing; add one of capacity_block, reserved_instance",
        ),
        (f"{RI.replace('instance,', 'instanc,', 1)}, {TERM}", "kind: is 'reserved_instanc'; did you mean"),
        (f"{RI}, start: 2026-01-01, end: 2026-01-01, source: abc", "end 2026-01-01 is not after start"),
        (f"{RI}, coun: 3, {TERM}", "commitments[0].coun: unknown key 'coun'; did you mean 'count'?"),
        (f"{RI.replace('count: 2', 'count: 0')}, {TERM}", "commitments[0].count: is 0; give more than 0"),
        (f"{RI}, start: 2026-01-01, end: 2027-01-01", "commitments[0].source: is missing"),
        (
            f"{SP}, {TERM}",
            "needs either rates or discount_percent; give one of them: rates by machine, or discount_percent",
        ),
        (f"{SP}, discount_percent: 20, rates: {{a: 1}}, {TERM}", "needs either rates or discount_percent"),
        (f"{CUD}, {TERM}", "has neither vcpus nor accelerators"),
        (f"{CUD}, vcpus: 8, {TERM}", "vcpus and memory_gib must be given together"),
        (f"{CUD}, vcpus: 8, memory_gib: 30, {TERM}", "vcpus is given without series"),
        (f"{CUD}, accelerators: 8, {TERM}", "accelerator and accelerators must be given together"),
    ],
)
def test_mistake_is_reported_in_one_line_with_its_place(write_commitments, entry, message):
    with pytest.raises(InputError) as excinfo:
        cost.load_commitments(write_commitments(entry))
    assert message in str(excinfo.value)
    assert "commitments.yaml:2" in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


def test_duplicate_id_is_refused(write_commitments):
    with pytest.raises(InputError, match="two commitments are called ri"):
        cost.load_commitments(write_commitments(f"{RI}, {TERM}", f"{RI}, {TERM}"))


def test_missing_file_and_file_without_a_mapping_are_refused(tmp_path):
    with pytest.raises(InputError, match="file not found"):
        cost.load_commitments(tmp_path / "none.yaml")
    (tmp_path / "text.yaml").write_text("words\n")
    with pytest.raises(InputError, match="start with commitments"):
        cost.load_commitments(tmp_path / "text.yaml")
