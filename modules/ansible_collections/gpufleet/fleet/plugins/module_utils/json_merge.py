# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""JSON files with several writers: our keys set, everybody else's kept as they were."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError


def merge_mappings(current: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return ``current`` with ``changes`` merged into it at every depth; None in ``changes`` removes a key."""
    merged = {key: value for key, value in current.items() if not (key in changes and changes[key] is None)}
    for key, value in changes.items():
        if isinstance(value, dict):
            inner = merged.get(key)
            merged[key] = merge_mappings(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            merged[key] = value
    return merged


def parse_json_mapping(text: str, path: str) -> dict[str, Any]:
    """Return a JSON text as a mapping; an empty text is an empty mapping."""
    try:
        mapping = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise HostError(f"{path} was not changed: it is not JSON: {error}", refused=path) from None
    if not isinstance(mapping, dict):
        raise HostError(f"{path} was not changed: it does not contain a JSON object", refused=path)
    return mapping


def merge_json_text(content: str, current: str | None, path: str) -> str:
    """Return the file's new text; the old one, byte for byte, if it already contains the content."""
    existing = parse_json_mapping(current or "", path)
    merged = merge_mappings(existing, parse_json_mapping(content, f"the content for {path}"))
    if current is not None and merged == existing:
        return current
    return json.dumps(merged, indent=4, ensure_ascii=False) + "\n"
