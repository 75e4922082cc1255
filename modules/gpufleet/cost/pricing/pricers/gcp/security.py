"""Keys and secrets, which bill for each version and each use."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Text, read_input_list, read_input_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.service import GLOBAL, exact_count, service_context
from gpufleet.engine import StateResource

SECRET = "gcp:secretmanager/secret:Secret"  # noqa: S105 - a type


@dataclass(frozen=True)
class CryptoKeyInputs:
    """The inputs of a key. The protection level decides the price of its versions."""

    protection_level: Text


def parse_crypto_key_inputs(inputs: Any) -> CryptoKeyInputs:
    """Parse a key."""
    return CryptoKeyInputs(read_input_text(inputs, "versionTemplate", "protectionLevel"))


def parse_secret_replica_count(inputs: Any) -> Decimal:
    """Parse in how many places a secret is kept: one if Google chooses them."""
    replicas = len(read_input_list(inputs, "replication", "userManaged", "replicas"))
    return Decimal(replicas or 1)


def price_crypto_key(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a key with its one version, and the operations with it."""
    key = parse_crypto_key_inputs(resource.inputs)
    if key.protection_level is not None and not isinstance(key.protection_level, str):
        return [UnpricedComponent("its protection level is not known until deployment", "version")]
    level = (key.protection_level or "SOFTWARE").lower()
    context = service_context(resource, graph, GLOBAL)
    usage = graph.usage_of_resource(resource)
    operation = "kms:operation" if level == "software" else f"kms:{level}_operation"
    return [
        context.make_part_component("version", f"kms:{level}_key_version"),
        context.make_usage_component("operations", operation, "monthly_key_operations", usage),
    ]


def price_secret_version(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a version of a secret, in each place where its secret is kept."""
    secret = graph.find_referenced_resource(resource, ("secret",), SECRET)
    replicas = parse_secret_replica_count(secret.inputs) if secret else Decimal(1)
    context = service_context(resource, graph, GLOBAL, exact_count(replicas))
    usage = graph.usage_of_resource(resource)
    return [
        context.make_part_component("version", "secret_manager:version"),
        context.make_usage_component("accesses", "secret_manager:access", "monthly_access_operations", usage),
    ]
