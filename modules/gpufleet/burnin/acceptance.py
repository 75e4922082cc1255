"""Acceptance of a fleet: one verdict over the newest results of its nodes, by a stated rule, with every reason.

Input: what the registry knows of each node (``NodeEvidence``). Output: a document that is printed, signed and
verified (``acceptance.schema.json``). Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from gpufleet.boundary import DocumentLimits, Json, make_printable, read_packaged_json
from gpufleet.burnin.check_definition import PROFILES
from gpufleet.burnin.evidence import list_or_empty, mapping_or_empty, to_finite_number
from gpufleet.burnin.signed_document import DocumentForm, sign_document, verify_document
from gpufleet.errors import CheckFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORM = DocumentForm("acceptance", "gpufleet.acceptance/1", "acceptance report")
PAGE_FORM = DocumentForm("page", "gpufleet.acceptance-page/1", "acceptance page")
MAX_NODES = 5000
FILE_LIMITS = DocumentLimits(bytes=128 * 2**20, depth=16, values=4_000_000)
MAX_REASONS = 20
MAX_VERSIONS = 500
LONGEST_REASON = 500
STATUSES = ("accepted", "reservation", "rejected")
VERDICTS = ("accepted", "accepted_with_reservations", "not_accepted")
REHEARSED = "; a rehearsal: these are simulated hosts, not hardware"
RULE = (
    "A node is rejected without a current result, with the verdict faulty or incomplete, or if it is out of use.",
    "A node that failed the network test, or that it could not measure, is rejected too.",
    "A node has reservations if its verdict is degraded, or if a hold or a looser bound of the site concerns it.",
    "A node with a warning of the network test, or slower than its equals, has reservations too.",
    "One rejected node: the fleet is not accepted. Else one with reservations: accepted with reservations.",
)


@dataclass(frozen=True)
class NodeEvidence:
    """What the registry knows of a node: who it is, its newest result if any, and what else counts.

    ``stale`` is why the result does not describe the node as it is now; empty if it does.
    """

    identity: Json
    state: str
    state_reason: str
    is_out_of_use: bool
    holds: Sequence[tuple[str, str]] = ()
    report: Mapping[str, Any] | None = None
    recorded_at: str = ""
    records_sha256: str = ""
    agent_version: str = ""
    stale: str = ""
    mesh: Mapping[str, Any] | None = None
    mesh_stale: str = ""
    stragglers: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def build_acceptance(
    nodes: Sequence[NodeEvidence], overrides: Sequence[Json], head: Json, site_rules: Sequence[str] = ()
) -> Json:
    """Return the document; ``head`` says when, by whom, with which version and over which nodes.

    ``site_rules`` are the site's own rules of the kernel log, and the rules over time that it only records.
    """
    rows = [build_node_row(node) for node in nodes]
    counts = Counter(row["status"] for row in rows)
    verdict = (
        "not_accepted"
        if counts["rejected"] or not rows
        else "accepted_with_reservations"
        if counts["reservation"]
        else "accepted"
    )
    return {
        **head,
        "verdict": verdict,
        "statement": build_statement(verdict, counts, len(rows))
        + (REHEARSED if head.get("rehearsal") else ""),
        "rule": list(RULE),
        "counts": {status: counts[status] for status in STATUSES},
        "runs": summarize_runs(nodes),
        "checks": summarize_checks(nodes),
        "versions": summarize_versions(nodes),
        "mesh": summarize_mesh(nodes),
        "overrides": list(overrides),
        "site_rules": list(site_rules),
        "nodes": rows,
    }


def build_statement(verdict: str, counts: Mapping[str, int], total: int) -> str:
    """Return the verdict as one sentence."""
    if not total:
        return "not accepted: there is no node"
    parts = [f"{counts['accepted']} accepted"]
    parts += [f"{counts['reservation']} with reservations"] if counts["reservation"] else []
    parts += [f"{counts['rejected']} rejected"] if counts["rejected"] else []
    return f"{verdict.replace('_', ' ')}: {total} node{'s' if total != 1 else ''}, {', '.join(parts)}"


def build_node_row(node: NodeEvidence) -> Json:
    """Return one node's row: its status with the reasons, and its checks."""
    report = mapping_or_empty(node.report)
    rejections = limit_reasons(list_rejections(node))
    reservations = limit_reasons(list_reservations(node))
    mesh = mapping_or_empty(node.mesh)
    return {
        **node.identity,
        "status": "rejected" if rejections else "reservation" if reservations else "accepted",
        "rejections": rejections,
        "reservations": reservations,
        "state": node.state,
        "verdict": report.get("verdict"),
        "profile": report.get("profile"),
        "attempt": report.get("attempt"),
        "recorded_at": node.recorded_at or None,
        "records_sha256": node.records_sha256 or None,
        # The sources of bounds are in the summary of the checks: a fleet has thousands of nodes.
        "checks": [
            {key: check.get(key) for key in ("name", "outcome", "measured", "unit", "threshold")}
            | {"reason": str(check.get("reason") or "")[:LONGEST_REASON]}
            for check in list_checks(report)
        ],
        "mesh": str(mesh["outcome"])[:20] if "outcome" in mesh else None,
    }


def list_checks(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the checks of a stored report."""
    return [check for check in list_or_empty(report.get("checks")) if isinstance(check, Mapping)]


def limit_reasons(reasons: Iterable[str]) -> list[str]:
    """Return reasons of limited number and length, each once."""
    unique = [make_printable(reason, LONGEST_REASON) for reason in dict.fromkeys(reasons)]
    more = len(unique) - MAX_REASONS
    return [*unique[:MAX_REASONS], *([f"and {more} more"] if more > 0 else [])]


def list_rejections(node: NodeEvidence) -> Iterable[str]:
    """Yield why a node is not accepted."""
    report = mapping_or_empty(node.report)
    if not report:
        yield f"no result: it was never measured, and is {node.state}"
        return
    if node.stale:
        yield f"no current result: {node.stale}"
    verdict = str(report.get("verdict"))
    if verdict not in ("healthy", "degraded"):
        outcomes = ("fail",) if verdict == "faulty" else ("fail", "not_run")
        wrong = [describe_check(check) for check in list_checks(report) if check.get("outcome") in outcomes]
        yield from wrong or [f"burn-in: {verdict}"]
    else:  # a stored result may have been changed, or be of another program
        checks = list_checks(report)
        if not checks:
            yield f"burn-in: the result is {verdict}, but has no checks"
        yield from (describe_check(check) for check in checks if check.get("outcome") == "fail")
    if node.is_out_of_use:
        yield f"{node.state}: {node.state_reason}"
    mesh = mapping_or_empty(node.mesh)
    if node.mesh and mesh.get("outcome") not in ("pass", "warn"):
        reasons = [str(reason) for reason in list_or_empty(mesh.get("reasons"))]
        yield from (
            f"network: {reason}" for reason in reasons or [f"the test ended in {mesh.get('outcome')}"]
        )


def list_reservations(node: NodeEvidence) -> Iterable[str]:
    """Yield what a person should know of a node that may be accepted."""
    report = mapping_or_empty(node.report)
    if report.get("verdict") == "degraded" and not any(
        check.get("outcome") == "warn" for check in list_checks(report)
    ):
        yield "burn-in: degraded"
    for check in list_checks(report):
        if check.get("outcome") == "warn":
            yield describe_check(check)
        yield from (f"{check.get('name')}: {text}" for text in find_looser_overrides(check))
    yield from (f"hold {kind}: {reason}" for kind, reason in node.holds)
    mesh = mapping_or_empty(node.mesh)
    if node.mesh_stale:
        yield f"network: {node.mesh_stale}"
    if mesh.get("outcome") == "warn":
        yield from (f"network: {reason}" for reason in list_or_empty(mesh.get("reasons")))
    yield from node.stragglers


def find_looser_overrides(check: Mapping[str, Any]) -> list[str]:
    """Return the site's bounds that make a check pass or warn more easily, as its report names them."""
    parts = str(check.get("reason") or "").split("; ")
    return [part for part in parts if part.startswith(("site override (looser)", "site override (changed)"))]


def describe_check(check: Mapping[str, Any]) -> str:
    """Return a check with its outcome and reason."""
    outcome = str(check.get("outcome")).replace("_", " ")
    return f"{check.get('name')} ({outcome}): {check.get('reason') or 'no reason given'}"


def summarize_runs(nodes: Sequence[NodeEvidence]) -> list[Json]:
    """Return what was run: for each profile and version of the agent, the nodes and the dates."""
    groups: dict[tuple[str, str], list[NodeEvidence]] = {}
    for node in nodes:
        if node.report:
            groups.setdefault((str(node.report.get("profile")), node.agent_version), []).append(node)
    order = {profile: place for place, profile in enumerate(PROFILES)}
    return [
        {
            "profile": profile,
            "agent_version": version,
            "nodes": len(members),
            "first": min(node.recorded_at for node in members),
            "last": max(node.recorded_at for node in members),
            "checks": sorted(
                {str(check.get("name")) for node in members for check in list_checks(node.report or {})}
            ),
        }
        for (profile, version), members in sorted(
            groups.items(), key=lambda item: (order.get(item[0][0], 9), item[0])
        )
    ]


def summarize_checks(nodes: Sequence[NodeEvidence]) -> list[Json]:
    """Return each check and bound over all nodes that it bounds: how many passed, and the spread of the numbers."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for node in nodes:
        for check in list_checks(node.report or {}):
            names = ("name", "threshold", "unit", "threshold_source")
            groups.setdefault(tuple(str(check.get(key)) for key in names), []).append(check)
    rows = []
    for _, checks in sorted(groups.items()):
        numbers = [
            value for check in checks if (value := to_finite_number(check.get("measured"))) is not None
        ]
        outcomes = Counter(check.get("outcome") for check in checks)
        rows.append(
            {key: checks[0].get(key) for key in ("name", "unit", "threshold", "threshold_source")}
            | {outcome: outcomes[outcome] for outcome in ("pass", "warn", "fail", "not_run")}
            | {
                "lowest": min(numbers, default=None),
                "median": median(numbers) if numbers else None,
                "highest": max(numbers, default=None),
            }
        )
    return rows


def summarize_versions(nodes: Sequence[NodeEvidence]) -> list[Json]:
    """Return which versions of kernel, firmware and drivers were measured, with the number of nodes of each."""
    counts = Counter((part, version) for node in nodes for part, version in node.versions.items())
    rows = [
        {"part": part[:100], "version": version[:200], "nodes": count}
        for (part, version), count in sorted(counts.items())
    ]
    return rows[:MAX_VERSIONS]


def summarize_mesh(nodes: Sequence[NodeEvidence]) -> Json | None:
    """Return the network test between nodes; None if no node took part."""
    meshes = [mapping_or_empty(node.mesh) for node in nodes if node.mesh]
    if not meshes:
        return None
    outcomes = Counter(str(mesh.get("outcome")) for mesh in meshes)
    return {"nodes": len(meshes)} | {name: outcomes[name] for name in ("pass", "warn", "fail", "not_run")}


def load_acceptance_schema() -> Json:
    """Return the JSON Schema of the document."""
    schema: Json = read_packaged_json("gpufleet.burnin", "data/acceptance.schema.json")
    return schema


def sign_acceptance(document: Json, key: Ed25519PrivateKey) -> str:
    """Return the signed JSON file."""
    return sign_document(document, key, FORM)


def sign_page(page: str, document: Json, key: Ed25519PrivateKey) -> str:
    """Return a page with a last line that signs every byte before it."""
    body = page.rstrip("\n") + "\n"
    digest = hashlib.sha256(body.encode()).hexdigest()
    names = ("issued_at", "issued_by", "verdict", "statement", "pattern")
    signed = sign_document({name: document[name] for name in names} | {"page_sha256": digest}, key, PAGE_FORM)
    return f"{body}<!-- {PAGE_FORM.format} {base64.b64encode(signed.encode()).decode()} -->\n"


def is_page(content: bytes) -> bool:
    """Return True if a file is a page and not JSON."""
    return content.lstrip()[:1] == b"<"


def verify_page(content: bytes, key: Ed25519PublicKey, where: str) -> Json:
    """Return what a page's last line says of it; CheckFailed unless the key signed exactly this page."""
    body, mark, last = content.rpartition(b"\n<!-- " + PAGE_FORM.format.encode() + b" ")
    try:
        signed = base64.b64decode(last.removesuffix(b" -->\n"), validate=True) if mark else b""
    except (binascii.Error, ValueError):
        signed = b""
    if not signed or not last.endswith(b" -->\n"):
        raise CheckFailed(f"{where}: is cut off or not an acceptance page: its last line is not a signature")
    document = verify_document(signed, key, PAGE_FORM, where)
    if document.get("page_sha256") != hashlib.sha256(body + b"\n").hexdigest():
        raise CheckFailed(
            f"{where}: the signature is wrong: the acceptance page was changed after it was signed"
        )
    return document


def verify_acceptance(content: bytes, key: Ed25519PublicKey, where: str) -> Json:
    """Return the signed document of a page or a JSON file; CheckFailed unless the key signed exactly this file."""
    return (
        verify_page(content, key, where)
        if is_page(content)
        else verify_document(content, key, FORM, where, FILE_LIMITS)
    )
