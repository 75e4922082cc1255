"""Compute a check's metrics from its raw record; pure, and never trusting the record."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module, resources

from gpufleet.burnin.check_definition import load_checks
from gpufleet.burnin.evidence import CheckReadings, Raw

RecordReader = Callable[[Raw], CheckReadings]


def extract_check_metrics(check_name: str, raw: Raw) -> CheckReadings:
    """Return a check's metrics; none for a name that is not a check, and for a check that is only recorded."""
    return find_reader(check_name)(raw) if check_name in list_read_checks() else CheckReadings()


@cache
def list_read_checks() -> tuple[str, ...]:
    """Return the checks with a `read.py`."""
    folder = resources.files("gpufleet.burnin") / "checks"
    return tuple(name for name in load_checks() if (folder / name / "read.py").is_file())


@cache
def find_reader(check_name: str) -> RecordReader:
    """Return ``read_record`` of a check; it is imported when its first record comes."""
    reader: RecordReader = import_module(f"gpufleet.burnin.checks.{check_name}.read").read_record
    return reader
