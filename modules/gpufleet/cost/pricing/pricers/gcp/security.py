"""Keys, secrets and certificate authorities, and the policies of Cloud Armor."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Text,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.service import GLOBAL, exact_count, service_context
from gpufleet.cost.pricing.pricers.required_input import unpriced_if_unreadable
from gpufleet.engine import StateResource

CA_POOL = "gcp:certificateauthority/caPool:CaPool"
DEFAULT_RULE_PRIORITIES = (2147483647, "2147483647")  # of the rule that every policy has
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


def parse_security_rule_count(inputs: Any) -> Decimal:
    """Parse how many rules a policy has in addition to its default rule."""
    rules = read_input_list(inputs, "rules")
    return Decimal(sum(read_input(rule, "priority") not in DEFAULT_RULE_PRIORITIES for rule in rules))


def price_security_policy(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a policy of Cloud Armor with its rules, and the requests that it checks."""
    hidden = unpriced_if_unreadable(read_input_marker(resource.inputs, "rules"), "its rules are", "rules")
    context = service_context(resource, graph, GLOBAL)
    usage = graph.usage_of_resource(resource)
    rules = parse_security_rule_count(resource.inputs)
    components: Components = [*hidden, context.make_part_component("policy", "cloud_armor:policy")]
    if rules:
        components.append(context.make_part_component("rules", "cloud_armor:rule", rules))
    return [
        *components,
        context.make_usage_component("requests", "cloud_armor:request", "monthly_requests", usage),
    ]


def price_security_rule(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a rule that a program declares apart from its policy."""
    if read_input(resource.inputs, "priority") in DEFAULT_RULE_PRIORITIES:
        return []
    return [service_context(resource, graph, GLOBAL).make_part_component("rule", "cloud_armor:rule")]


def price_certificate_authority(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an authority by the tier of its pool."""
    pool = graph.find_referenced_resource(resource, ("pool",), CA_POOL)
    tier = read_input_text(pool.inputs, "tier") if pool else None
    if not isinstance(tier, str):
        return [UnpricedComponent("the tier of its pool is not known", "authority")]
    context = service_context(resource, graph, GLOBAL)
    return [context.make_part_component("authority", f"certificate_authority:{tier.lower()}")]
