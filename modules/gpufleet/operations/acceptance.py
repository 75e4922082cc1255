"""Gathers what the registry knows of nodes for an acceptance report, signs it and verifies it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet import __version__
from gpufleet.boundary import (
    Json,
    make_block_printable,
    make_printable,
    make_values_printable,
    read_bytes,
)
from gpufleet.burnin import acceptance
from gpufleet.burnin.check_definition import PROFILES
from gpufleet.burnin.evidence import mapping_or_empty
from gpufleet.burnin.kernel_rule import load_kernel_rules
from gpufleet.burnin.outliers import MIN_GROUP
from gpufleet.burnin.overrides import ThresholdOverride
from gpufleet.burnin.report import is_rehearsed
from gpufleet.errors import CheckFailed, InputError
from gpufleet.nodes import NEW_STATES, BurnInResult, Node, Registry
from gpufleet.nodes.host import list_ansible_groups
from gpufleet.nodes.model import format_utc_time, utc_now
from gpufleet.operations import fleet_comparison
from gpufleet.operations.burnin import StoredBurninResult, load_newest_burnin_results, open_results_registry
from gpufleet.operations.passport import load_private_key, load_public_key
from gpufleet.operations.site_file import (
    load_recorded_rules,
    load_site_kernel_rules,
    load_site_overrides,
)
from gpufleet.operations.text.acceptance import format_acceptance
from gpufleet.operations.version_consistency import read_node_versions
from gpufleet.remote import parse_host_pattern

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

IDENTITY = ("name", "serial", "machine", "kind", "rack", "slot", "pool")
MESH = "observed.network_mesh"
OUT_OF_USE = ("quarantined", "repair")


@dataclass(frozen=True)
class AcceptanceOptions:
    """Over which nodes, and what counts as a current result: its age, and the least profile (None: any)."""

    pattern: str = "all"
    max_age_days: int = 30
    profile: str | None = None
    issued_by: str = ""


@dataclass(frozen=True)
class IssuedAcceptance:
    """A document, and the key that signs its files; without one it is only printed."""

    document: Json
    key: Ed25519PrivateKey | None
    render_page: Callable[[Json], str]

    def render_file(self, format_name: str) -> str:
        """Return a file: plain text, or signed JSON or a signed page; InputError for these without a key."""
        if format_name == "table":
            return format_acceptance(self.document)
        if self.key is None:
            raise InputError(
                "a file must be signed", where="--output", remedy="give --key (see gpufleet passport keygen)"
            )
        if format_name == "json":
            return acceptance.sign_acceptance(self.document, self.key)
        return acceptance.sign_page(self.render_page(self.document), self.document, self.key)


def issue_acceptance(
    options: AcceptanceOptions, key_path: Path | None, render_page: Callable[[Json], str]
) -> IssuedAcceptance:
    """Return the acceptance of the nodes that the options mean; ``render_page`` makes a page of its document."""
    key = load_private_key(key_path) if key_path else None
    overrides = load_site_overrides()
    with open_results_registry() as registry:
        nodes = select_nodes(registry.list_nodes(), options.pattern)
        evidence = collect_evidence(registry, nodes, options)
    head = {
        "issued_at": format_utc_time(utc_now()),
        "issued_by": options.issued_by,
        "version": __version__,
        "pattern": make_printable(options.pattern, 500),
        "max_age_days": options.max_age_days,
        "profile": options.profile,
    }
    head["rehearsal"] = any(is_rehearsed(node.report or {}) for node in evidence)
    document = acceptance.build_acceptance(
        evidence, list_override_rows(overrides, evidence), head, list_site_rules()
    )
    return IssuedAcceptance(make_values_printable(document, make_block_printable), key, render_page)


def select_nodes(nodes: Sequence[Node], pattern: str) -> list[Node]:
    """Return the nodes of a pattern of names, ids and groups as the inventory has them; retired ones are left out."""
    ids: dict[str, set[str]] = defaultdict(set)
    live = [node for node in nodes if node.state != "retired"]
    for node in live:
        for name in ("all", node.name, node.id, *list_ansible_groups(node)):
            ids[name].add(node.id)
    parsed = parse_host_pattern(pattern)
    if strangers := parsed.names - ids.keys():
        raise InputError(
            f"no node or group {make_printable(min(strangers), 80)}",
            where="--limit",
            remedy="see: gpufleet nodes list",
        )
    chosen = parsed.combine(ids.__getitem__)
    if len(chosen) > acceptance.MAX_NODES:
        raise InputError(
            f"{len(chosen)} nodes are more than {acceptance.MAX_NODES}",
            where="--limit",
            remedy="accept racks or pools",
        )
    return [node for node in live if node.id in chosen]


def collect_evidence(
    registry: Registry, nodes: Sequence[Node], options: AcceptanceOptions
) -> list[acceptance.NodeEvidence]:
    """Return what the registry knows of each node."""
    chosen = {node.id for node in nodes}
    newest = [stored for stored in load_newest_burnin_results(registry, None) if stored.node.id in chosen]
    results = {stored.node.id: stored.result for stored in newest}
    stragglers: dict[str, list[str]] = defaultdict(list)
    for row in fleet_comparison.find_straggler_rows(newest, MIN_GROUP):
        stragglers[row["node"]].append(describe_straggler(row))
    meshes = registry.list_newest_values(MESH)
    return [
        replace(
            build_evidence(node, results.get(node.id), options),
            stragglers=stragglers[node.name],
            **describe_mesh(registry, node, options) if node.id in meshes else {},
        )
        for node in nodes
    ]


def describe_mesh(registry: Registry, node: Node, options: AcceptanceOptions) -> Json:
    """Return what the network test between nodes says of a node, or why its result does not count."""
    values = [value for value in registry.list_node_values(node.id) if value.key == MESH]
    newest = max(values, key=lambda value: (value.revision, value.observed_at))
    stale = describe_staleness(node, newest.observed_at, options)
    return {"mesh_stale": stale} if stale else {"mesh": mapping_or_empty(newest.value) or None}


def build_evidence(
    node: Node, result: BurnInResult | None, options: AcceptanceOptions
) -> acceptance.NodeEvidence:
    """Return what is known of one node and its result."""
    evidence = acceptance.NodeEvidence(
        identity={name: getattr(node, name) for name in IDENTITY},
        state=node.state,
        state_reason=node.state_reason,
        is_out_of_use=node.state in OUT_OF_USE,
        holds=[(hold.kind, hold.reason) for hold in node.holds],
    )
    if result is None:
        return evidence
    profile = str(result.report.get("profile"))
    is_short = options.profile and (
        profile not in PROFILES or PROFILES.index(profile) < PROFILES.index(options.profile)
    )
    short = f"it was measured by the profile {profile}, not {options.profile}" if is_short else ""
    versions = read_node_versions(StoredBurninResult(node, result))
    return replace(
        evidence,
        report=result.report,
        recorded_at=format_utc_time(result.recorded_at),
        records_sha256=result.digest,
        agent_version=find_agent_version(result.records),
        stale=describe_staleness(node, result.recorded_at, options) or short,
        versions=versions.parts if versions else {},
    )


def find_agent_version(records: Sequence[Any]) -> str:
    """Return the version of the agent that wrote records; empty if they do not say."""
    starts = [record for record in map(mapping_or_empty, records) if record.get("type") == "start"]
    return str(starts[-1].get("agent_version") or "")[:40] if starts else ""


def describe_staleness(node: Node, measured_at: datetime, options: AcceptanceOptions) -> str:
    """Return why a measurement does not count for the node as it is now; empty if it does."""
    measured = format_utc_time(measured_at)
    if node.state in NEW_STATES and node.state_since > measured_at:
        return f"it became {node.state} after the measurement of {measured} ({node.state_reason})"
    if utc_now() - measured_at > timedelta(days=options.max_age_days):
        return f"it was measured on {measured}, over {options.max_age_days} days ago"
    return ""


def describe_straggler(row: Mapping[str, Any]) -> str:
    """Return the evidence about a node that is worse than its equals, as one line."""
    device = f" of GPU {row['device']}" if row["device"] else ""
    value, middle = f"{row['value']:.6g} {row['unit']}", f"{row['median']:.6g}"
    return (
        f"worse than its equals: {row['measurement']}{device} {value}, median {middle} of {row['group_size']}"
    )


def list_override_rows(
    overrides: Sequence[ThresholdOverride], nodes: Sequence[acceptance.NodeEvidence]
) -> list[Json]:
    """Return the site's bounds in force: what they replace, why, by whom and when, and how many nodes they concern."""
    texts = [
        str(check.get("reason") or "")
        for node in nodes
        for check in acceptance.list_checks(node.report or {})
    ]
    return [
        {
            "check": override.site.check,
            "metric": override.site.metric,
            "kind": override.kind,
            "text": override.site.override,
            "nodes": sum(override.site.override in text for text in texts),
        }
        for override in overrides
    ]


def list_site_rules() -> list[str]:
    """Return what the site changed of the rules of the kernel log and of the rules over time, as text."""
    texts = [f"rule over time {name}: only recorded" for name in sorted(load_recorded_rules())]
    shipped = {rule.id for rule in load_kernel_rules()}
    for rule in load_site_kernel_rules():
        origin = "replaces the shipped rule" if rule.id in shipped else "added"
        texts.append(
            f"rule of the kernel log {rule.id}: {rule.outcome}, {origin}: {rule.meaning} ({rule.source})"
        )
    return texts


def require_accepted(document: Mapping[str, Any]) -> None:
    """Raise CheckFailed for a fleet that is not accepted."""
    if document.get("verdict") not in ("accepted", "accepted_with_reservations"):
        raise CheckFailed(make_printable(str(document.get("statement")), 500))


def is_acceptance_file(path: Path) -> bool:
    """Return True if a signed file claims to be an acceptance report, as JSON or as a page."""
    content = read_bytes(path, acceptance.FILE_LIMITS)
    return acceptance.is_page(content) or content.startswith(b'{"acceptance":')


def verify_acceptance_file(path: Path, key_path: Path, *, require_verdict: bool = False) -> Json:
    """Return what a file that the key signed says; CheckFailed otherwise."""
    key = load_public_key(key_path)
    document = acceptance.verify_acceptance(read_bytes(path, acceptance.FILE_LIMITS), key, str(path))
    if require_verdict and document.get("verdict") != "accepted":
        raise CheckFailed(
            f"{path}: the signature is valid, but the fleet is {make_printable(document.get('statement'))}"
        )
    return document
