"""What a simulated cloud sells: resource types and lookups, read from ``data/<cloud>.json``."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import packaged_json

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class ResourceType:
    """How one type behaves: what it needs, what forces a replacement, what the cloud computes."""

    token: str
    id: str
    required: tuple[str, ...]
    replace: tuple[str, ...]
    computed: dict[str, Any]
    name: str | None  # the input that names it, where the provider names what the program left unnamed

    @property
    def has_unique_name(self) -> bool:
        """Tell whether the name is the id: then there can't be two, not even during a replacement."""
        return self.name is not None and "{hex17}" not in self.id


@dataclass(frozen=True)
class CloudSchema:
    """One simulated cloud.

    ``defaults`` are the facts that a real account or its configuration brings; ``required_config`` names what
    the real plugin refuses to start without, each with the variable that may stand in for it.
    """

    cloud: str
    version: str
    defaults: dict[str, str]
    required_config: dict[str, str]
    types: dict[str, ResourceType]


def load_schema(cloud: str) -> CloudSchema:
    """Read the cloud's data file; its version is that of the SDK, as with the real plugin."""
    data = packaged_json("gpufleet.rehearsal.providers", f"data/{cloud}.json")
    types = {token: _resource_type(token, fields) for token, fields in data["types"].items()}
    version = importlib.metadata.version(f"pulumi-{cloud}")
    return CloudSchema(cloud, version, data["defaults"], data.get("required_config", {}), types)


def _resource_type(token: str, fields: dict[str, Any]) -> ResourceType:
    return ResourceType(
        token,
        fields["id"],
        tuple(fields.get("required", ())),
        tuple(fields.get("replace", ())),
        fields.get("computed", {}),
        fields.get("name"),
    )
