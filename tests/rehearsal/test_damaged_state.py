"""Damaged files of a rehearsal, e.g. truncated by a full disk: one line with the remedy."""

from __future__ import annotations

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal import backend
from gpufleet.rehearsal.rack import hosts, lifecycle
from gpufleet.rehearsal.rehearsal import Rehearsal

DAMAGED = pytest.mark.parametrize("text", ["", "{", "[]", '{"a": NaN}', "[" * 5000, "\x00"])


@DAMAGED
def test_damaged_rehearsal_record_is_reported_with_its_remedy(tmp_path, text):
    rehearsal = Rehearsal(tmp_path, "poc")
    rehearsal.facts_file.parent.mkdir(parents=True)
    rehearsal.facts_file.write_text(text)
    with pytest.raises(InputError, match=r"gpufleet rehearse down -s poc, then up again$") as excinfo:
        rehearsal.read_rehearsal_facts()
    assert str(excinfo.value).startswith(str(rehearsal.facts_file))


@DAMAGED
def test_damaged_host_record_is_reported_with_its_remedy(tmp_path, text):
    (tmp_path / "r-1.json").write_text(text)
    for read in (lambda: hosts.read_host_record(tmp_path / "r-1"), lambda: hosts.read_host_records(tmp_path)):
        with pytest.raises(
            InputError, match=r"r-1\.json: is damaged; gpufleet rehearse down, then up again$"
        ):
            read()


@DAMAGED
def test_damaged_network_record_is_replaced_with_new_networks(tmp_path, text):
    (tmp_path / "n").write_text(text)
    assert lifecycle._read_networks(tmp_path / "n") == {}
    assert lifecycle._read_networks(tmp_path / "none") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checkpoint": 5}', '{"checkpoint": {"latest": []}}'])
def test_damaged_engine_state_counts_as_zero_resources(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    assert backend._read_latest(tmp_path / "s.json") == {}
