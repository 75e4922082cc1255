"""Signed documents: canonical JSON with an Ed25519 signature, verified offline by the file and the public key alone.

The signature covers the canonical form (RFC 8785) of the document, and the file itself must be in that form: no other
spelling of the same values counts. Ed25519 is the ``cryptography`` package's, the canonical form ``rfc8785``'s.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from gpufleet.boundary import OWN_STATE, DocumentLimits, Json, decode_json_object, make_printable
from gpufleet.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_EXACT_INTEGERS = 2**53 - 1  # RFC 8785: what every JSON reader reads exactly


@dataclass(frozen=True)
class DocumentForm:
    """A kind of signed document: the key that it has in its file, its format, and what people call it.

    The format is signed too: a signature of one form is not one of another.
    """

    key: str
    format: str
    noun: str

    @property
    def purpose(self) -> bytes:
        """Return what is signed before the document."""
        return f"{self.format}\n".encode()


def compute_key_id(key: Ed25519PublicKey) -> str:
    """Return a public key's id: the SHA-256 of its 32 bytes, as OpenSSH writes fingerprints."""
    digest = hashlib.sha256(key.public_bytes_raw()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def sign_document(document: Json, key: Ed25519PrivateKey, form: DocumentForm) -> str:
    """Return the file of a signed document; its format and the key's id are added to it."""
    import rfc8785

    signed = _make_exact({**document, "format": form.format, "key_id": compute_key_id(key.public_key())})
    signature = key.sign(form.purpose + rfc8785.dumps(signed))
    content = {form.key: signed, "signature": base64.b64encode(signature).decode()}
    return rfc8785.dumps(content).decode() + "\n"


def verify_document(
    content: bytes, key: Ed25519PublicKey, form: DocumentForm, where: str, limits: DocumentLimits = OWN_STATE
) -> Json:
    """Return the document in a file; CheckFailed in one line unless the key signed exactly this file."""
    from cryptography.exceptions import InvalidSignature

    noun = form.noun
    article = "an" if noun[0] in "aeiou" else "a"
    try:
        values = decode_json_object(content, where, limits)
    except InputError as error:
        raise CheckFailed(f"{where}: is cut off or not {article} {noun}: {error.problem}") from None
    document, signature = values.get(form.key), _decode_signature(values.get("signature"))
    if not isinstance(document, dict) or signature is None or set(values) != {form.key, "signature"}:
        raise CheckFailed(
            f"{where}: is not {article} {noun}: it must have exactly {article} {noun} and a signature"
        )
    if document.get("format") != form.format:
        raise CheckFailed(f"{where}: is not {article} {noun} of the format {form.format}")
    key_id = compute_key_id(key)
    if document.get("key_id") != key_id:
        raise CheckFailed(
            f"{where}: was signed by the key {make_printable(document.get('key_id'), 80)}, not by {key_id}"
        )
    if _canonical(values) + b"\n" != content:
        raise CheckFailed(
            f"{where}: is not in the canonical form of RFC 8785: it was rewritten after it was signed"
        )
    try:
        key.verify(signature, form.purpose + _canonical(document))
    except InvalidSignature:
        raise CheckFailed(
            f"{where}: the signature is wrong: the {noun} was changed after it was signed"
        ) from None
    return document


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
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value
