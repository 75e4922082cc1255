"""The Pulumi engine, found or built, and its output as typed values.

Input: a machine with or without `pulumi`, and the engine's own JSON: previews (``pulumi preview --json``), event
logs (``--event-log``) and states (``pulumi stack export``). Output: an engine that can run Python programs,
built once into the user's cache if none is installed; ``Step`` and ``Resource`` values in which unknown and secret
values are the markers ``UNKNOWN`` and ``SECRET``.
"""

from __future__ import annotations

from gpufleet.engine.build import ensure_engine
from gpufleet.engine.command import run_pulumi
from gpufleet.engine.engine_json import name_source_in_errors, parse_json_object
from gpufleet.engine.event_log import EventLog, parse_event_log, parse_last_phase
from gpufleet.engine.installation import (
    LAUNCHER_MARK,
    VERSION,
    InstalledEngine,
    PulumiEngine,
    find_engine,
    find_installed_engine,
)
from gpufleet.engine.lock import exclusive_lock
from gpufleet.engine.preview import PreviewStep, parse_preview
from gpufleet.engine.property_value import REMEDY, SECRET, UNKNOWN, ValueMarker, decode_object
from gpufleet.engine.state import StateResource, parse_state, parse_urn_type

__all__ = [
    "LAUNCHER_MARK",
    "REMEDY",
    "SECRET",
    "UNKNOWN",
    "VERSION",
    "EventLog",
    "InstalledEngine",
    "PreviewStep",
    "PulumiEngine",
    "StateResource",
    "ValueMarker",
    "decode_object",
    "ensure_engine",
    "exclusive_lock",
    "find_engine",
    "find_installed_engine",
    "name_source_in_errors",
    "parse_event_log",
    "parse_json_object",
    "parse_last_phase",
    "parse_preview",
    "parse_state",
    "parse_urn_type",
    "run_pulumi",
]
