"""Generations of serving engines: what a step costs beside arithmetic changed more between them than within."""

from __future__ import annotations

import re
from functools import cache

from gpufleet.errors import InputError
from gpufleet.sizing.data_file import Row, load_sizing_rows

DATE = re.compile(r"^(\d{4})(-\d{2}){0,2}$")
YEAR_LENGTH = 4
VERSION = re.compile(r"^v?(\d+(?:\.\d+)*)")


@cache
def load_engine_versions() -> dict[str, tuple[Row, ...]]:
    """Return by engine the first version of each generation, oldest first."""
    versions: dict[str, tuple[Row, ...]] = {}
    for row in load_sizing_rows("engine_versions.csv"):
        versions[row["engine"]] = (*versions.get(row["engine"], ()), row)
    return versions


@cache
def find_engine_generation(engine: str, version: str = "") -> str:
    """Return the generation of an engine's version or date, the newest if none is given; empty for other engines.

    Raises:
        InputError: the version is neither a number nor a date, or the engine has no generations.
    """
    rows = load_engine_versions().get(engine, ())
    if not version:
        return rows[-1]["generation"] if rows else ""
    is_date, number = DATE.match(version), VERSION.match(version)
    if not is_date and not number:
        raise InputError(
            f"{version!r} is not a version",
            where="--engine-version",
            remedy="give a number or a date: 0.11.0, 2025-10",
        )
    if not rows:
        return ""
    if is_date:
        day = version + ("-06-30" if len(version) == YEAR_LENGTH else "")  # of a year alone: its middle
        reached = [row for row in rows if row["date"][: len(day)] <= day]
    else:
        reached = [row for row in rows if _numbers(row["version"]) <= _numbers(version)]
    return (reached or [rows[0]])[-1]["generation"]


def _numbers(version: str) -> tuple[int, ...]:
    match = VERSION.match(version)
    return tuple(int(number) for number in match[1].split(".")) if match else ()
