"""Issues and verifies passports of nodes: what the registry knows of one, signed with the operator's key."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.boundary import (
    OWN_STATE,
    DocumentLimits,
    Json,
    make_printable,
    read_bytes,
    sync_to_disk,
    write_text,
)
from gpufleet.burnin.passport import sign_passport, verify_passport
from gpufleet.burnin.report import is_rehearsed
from gpufleet.burnin.signed_document import compute_key_id
from gpufleet.errors import CheckFailed, InputError
from gpufleet.nodes import BurnInResult, Node, Registry
from gpufleet.nodes.model import format_utc_time, utc_now
from gpufleet.operations import node_view, repair

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_KEY_FILE = DocumentLimits(bytes=16_384)
_IDENTITY = (
    "id",
    "name",
    "kind",
    "serial",
    "instance_id",
    "cloud",
    "region",
    "pool",
    "rack",
    "slot",
    "machine",
)


def create_key(path: Path) -> str:
    """Write a new private key (0600) and its public key (``.pub``); return the key's id."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public_path = path.with_name(f"{path.name}.pub")
    for file in (path, public_path):
        if file.exists() or file.is_symlink():
            raise InputError(
                "exists already", where=str(file), remedy="name another file; keys are not replaced"
            )
    key = Ed25519PrivateKey.generate()
    private_text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_text = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_text(path, private_text.decode(), mode=0o600)
    write_text(public_path, public_text.decode())
    for written in (path, public_path, path.parent):
        sync_to_disk(written)
    return compute_key_id(key.public_key())


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Return a private key; InputError for one that others may read, or that is not an Ed25519 key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = read_bytes(path, _KEY_FILE)
    if b"PUBLIC KEY" in content:
        raise InputError("is a public key", where=str(path), remedy="give the private one, without .pub")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        mode = f"{stat.S_IMODE(path.stat().st_mode):04o}"
        raise InputError(
            f"others may read this key (mode {mode})", where=str(path), remedy=f"chmod 600 {path}"
        )
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it needs a passphrase
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            "is not an unencrypted Ed25519 private key in PEM",
            where=str(path),
            remedy="gpufleet passport keygen",
        )
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Return a public key; InputError for anything else."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = read_bytes(path, _KEY_FILE)
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError("is not an Ed25519 public key in PEM", where=str(path), remedy="give the .pub file")
    return key


def issue_passport(registry: Registry, reference: str, key_path: Path, issued_by: str) -> tuple[Json, str]:
    """Return a node's passport and its signed file."""
    key = load_private_key(key_path)
    passport = build_passport(registry, registry.get_node(reference), issued_by)
    return passport, sign_passport(passport, key)


def build_passport(registry: Registry, node: Node, issued_by: str) -> Json:
    """Return what the registry knows of a node: identity, parts with ledger, results, history."""
    results = registry.list_burn_in_results(node.id)
    names = {each.id: each.name for each in registry.list_nodes()}
    statuses = repair.list_part_statuses(registry, node)
    return {
        "issued_at": format_utc_time(utc_now()),
        "issued_by": issued_by,
        "node": {name: getattr(node, name) for name in _IDENTITY},
        **_describe_health(node, results),
        "holds": [{"kind": hold.kind, "reason": hold.reason} for hold in node.holds],
        "evidence": repair.build_quarantine_evidence(registry, node),
        "parts": [
            status.as_json() | {"timeline": repair.build_timeline(status.part, names)} for status in statuses
        ],
        "report": results[-1].report if results else None,
        "results": [_result_as_json(result) for result in results],
        "history": [
            node_view.history_entry_as_json(entry)
            for entry in node_view.sort_history_by_time(registry.list_node_history(node.id))
        ],
    }


def _describe_health(node: Node, results: Sequence[BurnInResult]) -> Json:
    """Return whether the node is healthy, and if not, why."""
    verdict = results[-1].verdict if results else None
    healthy = verdict == "healthy" and node.is_usable
    reasons = [f"{node.state} ({node.state_reason})", f"burn-in: {verdict or 'never measured'}"]
    rehearsed = bool(results) and is_rehearsed(results[-1].report)
    reasons += [f"hold {hold.kind}: {hold.reason}" for hold in node.holds]
    return {
        "healthy": healthy,
        "statement": ("healthy" if healthy else f"NOT healthy: {'; '.join(reasons)}")
        + (" (a rehearsed host, not hardware)" if rehearsed else ""),
        "verdict": verdict,
        "state": node.state,
        "state_since": format_utc_time(node.state_since),
    }


def _result_as_json(result: BurnInResult) -> Json:
    return {
        "attempt": result.attempt,
        "verdict": result.verdict,
        "recorded_at": format_utc_time(result.recorded_at),
        "record": result.number,
        "records_sha256": result.digest,
    }


def verify_passport_file(path: Path, key_path: Path, *, require_healthy: bool = False) -> Json:
    """Return the passport in a file that the key signed; CheckFailed otherwise."""
    key = load_public_key(key_path)
    passport = verify_passport(read_bytes(path, OWN_STATE), key, str(path))
    if require_healthy and passport.get("healthy") is not True:
        raise CheckFailed(
            f"{path}: the signature is valid, but the node is {make_printable(passport.get('statement'))}"
        )
    return passport
