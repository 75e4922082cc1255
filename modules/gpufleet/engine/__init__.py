"""The Pulumi engine, found or built, and what it says as typed values.

In: a machine with or without `pulumi`, and the engine's own JSON: previews (``pulumi preview --json``), event
logs (``--event-log``) and states (``pulumi stack export``). Out: an ``Engine`` that can run Python programs,
built once into the user's cache where none is installed; ``Step`` and ``Resource`` values in which "not known
yet" and "secret" are the markers ``UNKNOWN`` and ``SECRET``, never a string that looks like a value.
"""

from __future__ import annotations

from gpufleet.engine.build import ensure
from gpufleet.engine.command import run_pulumi
from gpufleet.engine.document import read_document, reading
from gpufleet.engine.events import Events, parse_events, read_events
from gpufleet.engine.installation import LAUNCHER_MARK, VERSION, Engine, Found, find, installed
from gpufleet.engine.lock import exclusive
from gpufleet.engine.preview import Step, parse_preview
from gpufleet.engine.state import Resource, parse_state, urn_type
from gpufleet.engine.values import REMEDY, SECRET, UNKNOWN, Marker, decode_object

__all__ = [
    "LAUNCHER_MARK",
    "REMEDY",
    "SECRET",
    "UNKNOWN",
    "VERSION",
    "Engine",
    "Events",
    "Found",
    "Marker",
    "Resource",
    "Step",
    "decode_object",
    "ensure",
    "exclusive",
    "find",
    "installed",
    "parse_events",
    "parse_preview",
    "parse_state",
    "read_document",
    "read_events",
    "reading",
    "run_pulumi",
    "urn_type",
]
