"""The Pulumi engine, found or built, and its output as typed values.

Input: a machine with or without `pulumi`, and the engine's own JSON: previews (``pulumi preview --json``), event
logs (``--event-log``) and states (``pulumi stack export``). Output: an engine that can run Python programs,
built once into the user's cache if none is installed; ``PreviewStep`` and ``StateResource`` values in which unknown
and secret values are the markers ``UNKNOWN`` and ``SECRET``.
"""

from __future__ import annotations

from gpufleet.engine.build import ensure_pulumi_engine
from gpufleet.engine.command import run_pulumi
from gpufleet.engine.engine_json import add_source_to_errors, parse_engine_json
from gpufleet.engine.event_log import EventLogPhase, parse_last_phase_of_events, parse_last_phase_of_log
from gpufleet.engine.installation import (
    LAUNCHER_MARK,
    VERSION,
    PulumiEngine,
    find_installed_pulumi_engine,
    find_pulumi_engine,
)
from gpufleet.engine.lock import exclusive_file_lock
from gpufleet.engine.preview import PreviewStep, parse_pulumi_preview
from gpufleet.engine.project_file import read_project_setting
from gpufleet.engine.property_path import parse_property_path, reset_ignored_inputs
from gpufleet.engine.property_value import (
    REMEDY,
    SECRET,
    UNKNOWN,
    UnreadableValue,
    decode_properties,
    hide_secret_values,
)
from gpufleet.engine.state import ResourceAlias, StateResource, parse_stack_state, parse_type_from_urn

__all__ = [
    "LAUNCHER_MARK",
    "REMEDY",
    "SECRET",
    "UNKNOWN",
    "VERSION",
    "EventLogPhase",
    "PreviewStep",
    "PulumiEngine",
    "ResourceAlias",
    "StateResource",
    "UnreadableValue",
    "add_source_to_errors",
    "decode_properties",
    "ensure_pulumi_engine",
    "exclusive_file_lock",
    "find_installed_pulumi_engine",
    "find_pulumi_engine",
    "hide_secret_values",
    "parse_engine_json",
    "parse_last_phase_of_events",
    "parse_last_phase_of_log",
    "parse_property_path",
    "parse_pulumi_preview",
    "parse_stack_state",
    "parse_type_from_urn",
    "read_project_setting",
    "reset_ignored_inputs",
    "run_pulumi",
]
