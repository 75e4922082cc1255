"""Ranges of names in rack files, such as ``blade[01-20]``."""

from __future__ import annotations

from gpufleet.boundary import name_range
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import build_spec_error

MAX_NAMES = 1000


def expand_name_range(names: str) -> tuple[str, ...]:
    """Return the names of a ClusterShell range: ``blade[01-03]`` is blade01, blade02, blade03."""
    try:
        return name_range.expand_name_range(names, MAX_NAMES)
    except InputError as error:
        raise build_spec_error(error.problem, error.remedy) from error
