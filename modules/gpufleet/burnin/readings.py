"""Compute a check's metrics from its raw record; pure, and never trusting the record."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module, resources

from gpufleet.burnin.check_definition import load_checks
from gpufleet.burnin.evidence import CheckReadings, Raw
from gpufleet.burnin.kernel_rule import KernelRule

RecordReader = Callable[..., CheckReadings]
KERNEL_LOG = "gpu_xid"
"""The check of the kernel log, which runs on every node; it has the name of its first rules."""


def extract_check_metrics(
    check_name: str, raw: Raw, kernel_rules: tuple[KernelRule, ...] = ()
) -> CheckReadings:
    """Return a check's metrics; none for a name that is not a check, and for a check that is only recorded.

    ``kernel_rules`` are the site's own rules of the kernel log.
    """
    if check_name not in list_read_checks():
        return CheckReadings()
    reader = find_reader(check_name)
    return reader(raw, kernel_rules) if check_name == KERNEL_LOG else reader(raw)


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
