"""The resource types of a simulated cloud, read from ``data/<cloud>.json``."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import read_packaged_json

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class SimulatedResourceType:
    """One resource type: required inputs, inputs that force a replacement, computed outputs."""

    token: str
    id: str
    required: tuple[str, ...]
    replace: tuple[str, ...]
    computed: dict[str, Any]
    name: str | None  # the input that the provider fills if the program leaves it out

    @property
    def has_unique_name(self) -> bool:
        """True if the name is the id: then two can't exist, not even during a replacement."""
        return self.name is not None and "{hex17}" not in self.id


@dataclass(frozen=True)
class CloudSchema:
    """One simulated cloud.

    ``defaults`` are facts of a real account or its configuration; ``required_config`` maps each setting without which
    the real plugin does not start to the environment variable that can replace it. ``public_network`` is a block
    reserved for documentation (RFC 5737): an address of a simulated cloud is never a real one.
    """

    cloud: str
    version: str
    public_network: str
    defaults: dict[str, str]
    required_config: dict[str, str]
    types: dict[str, SimulatedResourceType]


def load_cloud_schema(cloud: str) -> CloudSchema:
    """Load the cloud's data file; its version is that of the SDK, as with the real plugin."""
    data = read_packaged_json("gpufleet.rehearsal.providers", f"data/{cloud}.json")
    types = {token: _resource_type(token, fields) for token, fields in data["types"].items()}
    version = importlib.metadata.version(f"pulumi-{cloud}")
    required_config = data.get("required_config", {})
    return CloudSchema(cloud, version, data["public_network"], data["defaults"], required_config, types)


def _resource_type(token: str, fields: dict[str, Any]) -> SimulatedResourceType:
    return SimulatedResourceType(
        token,
        fields["id"],
        tuple(fields.get("required", ())),
        tuple(fields.get("replace", ())),
        fields.get("computed", {}),
        fields.get("name"),
    )
