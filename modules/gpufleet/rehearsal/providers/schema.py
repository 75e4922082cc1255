"""The resource types of a simulated cloud, read from ``data/``.

``<cloud>.json`` has ids, computed outputs and the account; ``schema/<cloud>.json`` every input (generated from the
SDKs); ``replacements/<cloud>.json`` what a change replaces, from the real provider's source.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.boundary import read_packaged_json
from gpufleet.rehearsal.providers.input_types import InputSchema

_PACKAGE = "gpufleet.rehearsal.providers"


@dataclass(frozen=True)
class SimulatedResourceType:
    """One resource type: inputs that force a replacement, computed outputs.

    ``replace`` are paths; one that ends with ``$`` means the value as a whole (Terraform's ForceNew of a block).
    A removed input of ``server_default`` is no change: the cloud keeps its value (Terraform's Optional and Computed).
    ``immutable`` paths cannot change in place, and the provider does not replace the resource by itself.
    """

    token: str
    id: str
    required: tuple[str, ...]
    replace: tuple[str, ...]
    computed: dict[str, Any]
    name: str | None  # the input that the provider fills if the program leaves it out
    server_default: tuple[str, ...] = ()
    immutable: tuple[str, ...] = ()

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
    inputs: InputSchema = field(repr=False)


def load_cloud_schema(cloud: str) -> CloudSchema:
    """Load the cloud's data files; its version is that of the SDK, as with the real plugin."""
    data = read_packaged_json(_PACKAGE, f"data/{cloud}.json")
    replacements = read_packaged_json(_PACKAGE, f"data/replacements/{cloud}.json")["types"]
    generated = read_packaged_json(_PACKAGE, f"data/schema/{cloud}.json")
    enums = dict(generated["enums"])
    objects, inputs = _add_source_enums(generated, replacements, enums)
    types = {
        token: _resource_type(token, fields, replacements.get(token, {}), inputs[token])
        for token, fields in data["types"].items()
    }
    return CloudSchema(
        cloud,
        importlib.metadata.version(f"pulumi-{cloud}"),
        data["public_network"],
        data["defaults"],
        data.get("required_config", {}),
        types,
        # Terraform's SDK converts "true" and "4"; Azure's API takes JSON as it is.
        InputSchema(inputs, objects, enums, converts_text=cloud != "azure-native"),
    )


def _add_source_enums(
    generated: Mapping[str, Any], replacements: Mapping[str, Any], enums: dict[str, list[str]]
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Return the objects and the types with the enums that only the provider's source has."""
    objects = {name: dict(properties) for name, properties in generated["objects"].items()}
    types = {token: dict(properties) for token, properties in generated["types"].items()}
    by_owner = {f"{token.split(':')[1].split('/')[0]}.{token.split(':')[2]}": token for token in types}
    for fields in replacements.values():
        for path, values in fields.get("enums", {}).items():
            owner, _, key = path.rpartition(".")
            properties = types[by_owner[owner]] if owner in by_owner else objects[owner]
            if "string" in properties[key]:
                enums[path] = values
                properties[key] = properties[key].replace("string", f"={path}")
    return objects, types


def _resource_type(
    token: str, fields: Mapping[str, Any], source: Mapping[str, Any], inputs: Mapping[str, str]
) -> SimulatedResourceType:
    replace = source.get("replace", ())
    if "*" in replace:
        replace = [key for key in inputs if key not in source["in_place"]]
    return SimulatedResourceType(
        token,
        fields["id"],
        tuple(fields.get("required", ())),
        tuple(replace),
        fields.get("computed", {}),
        fields.get("name"),
        tuple(source.get("computed", ())),
        tuple(source.get("immutable", ())),
    )
