"""Moments as people give them: a date, a time, so long ago, or a burn-in attempt."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from gpufleet.errors import InputError
from gpufleet.nodes.model import utc_now

ATTEMPT_TIME = re.compile(r"(\d{8}T\d{6}Z)(?:-[0-9a-f]+)?")
AGO = re.compile(r"(\d{1,5})([mhdw])")
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_since(text: str) -> datetime:
    """Return the moment of a date, a time, an attempt's id, ``yesterday`` or ``24h`` ago; without a zone it is UTC."""
    if ago := AGO.fullmatch("1d" if text == "yesterday" else text):
        return utc_now() - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    match = ATTEMPT_TIME.fullmatch(text)
    try:
        moment = datetime.strptime(match[1], "%Y%m%dT%H%M%SZ") if match else datetime.fromisoformat(text)  # noqa: DTZ007 - its zone follows
    except ValueError:
        raise InputError(
            f"{text!r} is not a time",
            key="--since",
            remedy="give 24h, 7d, 2026-11-21, 2026-11-21T10:00, or an attempt such as 20261121T103839Z-a1b2c3",
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
