"""Passports: a node's identity, results and history as canonical JSON, signed with Ed25519 and verified offline.

The signature covers the canonical form (RFC 8785) of the passport, and the file itself must be in that form: no other
spelling of the same values counts. Ed25519 is the ``cryptography`` package's, the canonical form ``rfc8785``'s.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Any

from gpufleet.boundary import OWN_STATE, Json, decode_json_object, make_printable
from gpufleet.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = "gpufleet.passport/1"
_PURPOSE = b"gpufleet.passport/1\n"  # signed too: a signature for another purpose is not one of a passport
_EXACT_INTEGERS = 2**53 - 1  # RFC 8785: what every JSON reader reads exactly


def compute_key_id(key: Ed25519PublicKey) -> str:
    """Return a public key's id: the SHA-256 of its 32 bytes, as OpenSSH writes fingerprints."""
    digest = hashlib.sha256(key.public_bytes_raw()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def sign_passport(passport: Json, key: Ed25519PrivateKey) -> str:
    """Return the file of a signed passport; the key's id is added to it."""
    import rfc8785

    signed = _make_exact({**passport, "format": FORMAT, "key_id": compute_key_id(key.public_key())})
    signature = key.sign(_PURPOSE + rfc8785.dumps(signed))
    document = {"passport": signed, "signature": base64.b64encode(signature).decode()}
    return rfc8785.dumps(document).decode() + "\n"


def verify_passport(content: bytes, key: Ed25519PublicKey, where: str) -> Json:
    """Return the passport in a file; CheckFailed in one line unless the key signed exactly this file."""
    from cryptography.exceptions import InvalidSignature

    try:
        document = decode_json_object(content, where, OWN_STATE)
    except InputError as error:
        raise CheckFailed(f"{where}: is cut off or not a passport: {error.problem}") from None
    passport, signature = document.get("passport"), _decode_signature(document.get("signature"))
    if not isinstance(passport, dict) or signature is None or set(document) != {"passport", "signature"}:
        raise CheckFailed(f"{where}: is not a passport: it must have exactly a passport and a signature")
    if passport.get("format") != FORMAT:
        raise CheckFailed(f"{where}: is not a passport of the format {FORMAT}")
    key_id = compute_key_id(key)
    if passport.get("key_id") != key_id:
        raise CheckFailed(
            f"{where}: was signed by the key {make_printable(passport.get('key_id'), 80)}, not by {key_id}"
        )
    if _canonical(document) + b"\n" != content:
        raise CheckFailed(
            f"{where}: is not in the canonical form of RFC 8785: it was rewritten after it was signed"
        )
    try:
        key.verify(signature, _PURPOSE + _canonical(passport))
    except InvalidSignature:
        raise CheckFailed(
            f"{where}: the signature is wrong: the passport was changed after it was signed"
        ) from None
    return passport


def _canonical(value: Json) -> bytes:
    """Return the canonical form; empty for values that have none."""
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError):
        return b""


def _decode_signature(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _make_exact(value: Any) -> Any:
    """Return values of which each has a canonical form: an integer that JSON readers round becomes a text."""
    if isinstance(value, dict):
        return {str(key): _make_exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_exact(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT_INTEGERS:
        return str(value)
    return value
