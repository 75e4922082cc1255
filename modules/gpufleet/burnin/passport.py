"""Passports: a node's identity, results and history as a signed document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.boundary import Json
from gpufleet.burnin.signed_document import DocumentForm, sign_document, verify_document

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = "gpufleet.passport/1"
FORM = DocumentForm("passport", FORMAT, "passport")


def sign_passport(passport: Json, key: Ed25519PrivateKey) -> str:
    """Return the file of a signed passport; the key's id is added to it."""
    return sign_document(passport, key, FORM)


def verify_passport(content: bytes, key: Ed25519PublicKey, where: str) -> Json:
    """Return the passport in a file; CheckFailed in one line unless the key signed exactly this file."""
    return verify_document(content, key, FORM, where)
