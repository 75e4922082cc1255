"""Differences between two versions of a resource's inputs, and which force a replacement. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from gpufleet.rehearsal.providers.property_values import SECRET, PlainValues

Kind = Literal["add", "delete", "update"]
_MISSING = object()


@dataclass(frozen=True)
class PropertyChange:
    """One changed property, as a path that the engine understands: ``scheduling.preemptible``, ``tags["a-b"]``."""

    path: str
    kind: Kind
    replaces: bool


def diff_resource_inputs(
    old_inputs: PlainValues,
    new_inputs: PlainValues,
    replacement_paths: tuple[str, ...],
    server_default_paths: tuple[str, ...] = (),
) -> list[PropertyChange]:
    """Compare inputs leaf by leaf; a path at or below one of ``replacement_paths`` forces a replacement.

    A removed input at or below one of ``server_default_paths`` is no change: the cloud keeps the value.
    """
    return [
        PropertyChange(path, kind, matches_path(path, replacement_paths))
        for path, kind in _changed_leaves(old_inputs, new_inputs, "")
        if kind != "delete" or not matches_path(path, server_default_paths)
    ]


def matches_path(path: str, roots: tuple[str, ...]) -> bool:
    """Return whether ``path`` is one of ``roots`` or below it; a root that ends with ``$`` matches only itself."""
    plain = re.sub(r"\[\d+\]", "", path)  # "networkInterfaces.network" means every interface
    return any(plain == root.rstrip("$") or plain.startswith((f"{root}.", f"{root}[")) for root in roots)


def keep_reported_properties(old: Any, reported: Any) -> Any:
    """Return the parts of ``old`` that ``reported`` has, so that outputs added by a cloud are not changes."""
    if isinstance(old, dict) and isinstance(reported, dict):
        return {
            key: keep_reported_properties(value, reported[key])
            for key, value in old.items()
            if key in reported
        }
    if isinstance(old, list) and isinstance(reported, list) and len(old) == len(reported):
        return [keep_reported_properties(before, after) for before, after in zip(old, reported, strict=True)]
    return old


def _changed_leaves(old: Any, new: Any, path: str) -> Iterator[tuple[str, Kind]]:
    old, new = _without_secret_mark(old), _without_secret_mark(new)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _changed_leaves(old.get(key, _MISSING), new.get(key, _MISSING), _join_path(path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changed_leaves(before, after, f"{path}[{index}]")
    elif old != new:
        yield path, "add" if old is _MISSING else "delete" if new is _MISSING else "update"


def _without_secret_mark(value: Any) -> Any:
    return value[SECRET] if isinstance(value, dict) and SECRET in value else value


def _join_path(path: str, key: str) -> str:
    if not re.fullmatch(r"[A-Za-z_$][\w$]*", key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key
