"""A public SSH key, as the spec and rack files take it: whole, and never the private half."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import AfterValidator

from gpufleet.fleet.base import refusal

PUBLIC_KEYS = ("ssh-ed25519 ", "ssh-rsa ", "ecdsa-sha2-", "sk-ssh-ed25519@", "sk-ecdsa-sha2-")


def _public_key(value: str) -> str:
    if "PRIVATE KEY" in value:
        raise refusal("this is a private key", "give the public half, the line of the .pub file")
    if not value.startswith(PUBLIC_KEYS) or len(value.split()) < 2:  # noqa: PLR2004 - type and key
        raise refusal(f"{value[:30]!r} is not an SSH public key", "give a line like 'ssh-ed25519 AAAA… you'")
    if not _is_whole(*value.split()[:2]):
        problem = "the key is damaged: its body is not a whole key of the type it says"
        raise refusal(problem, "copy the .pub file's line")
    return value


def _is_whole(kind: str, body: str) -> bool:
    """Tell whether a key's body is a row of RFC 4253 strings to its very end, of which the first is its type."""
    try:
        rest = base64.b64decode(body, validate=True)
    except ValueError:
        return False
    fields = []
    while len(rest) >= (size := 4 + int.from_bytes(rest[:4], "big")) > 4:  # noqa: PLR2004 - a length is 4 bytes
        fields.append(rest[4:size])
        rest = rest[size:]
    return not rest and len(fields) > 1 and fields[0] == kind.encode()


PublicKey = Annotated[str, AfterValidator(_public_key)]
