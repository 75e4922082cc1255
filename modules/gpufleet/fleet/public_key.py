"""A public SSH key in the spec and rack files: complete, and never the private half."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import AfterValidator

from gpufleet.fleet.frozen_model import build_spec_error

KEY_PREFIXES = ("ssh-ed25519 ", "ssh-rsa ", "ecdsa-sha2-", "sk-ssh-ed25519@", "sk-ecdsa-sha2-")


def _check_public_key(value: str) -> str:
    if "PRIVATE KEY" in value:
        raise build_spec_error("this is a private key", "give the public half, the line of the .pub file")
    if not value.startswith(KEY_PREFIXES) or len(value.split()) < 2:  # noqa: PLR2004 - type and key
        raise build_spec_error(
            f"{value[:30]!r} is not an SSH public key", "give a line like 'ssh-ed25519 AAAA… you'"
        )
    if not _is_complete_key(*value.split()[:2]):
        problem = "the key is damaged: its body is not a complete key of its type"
        raise build_spec_error(problem, "copy the .pub file's line")
    return value


def _is_complete_key(key_type: str, body: str) -> bool:
    """Return whether a key's body consists of RFC 4253 strings, of which the first is its type."""
    try:
        remaining_bytes = base64.b64decode(body, validate=True)
    except ValueError:
        return False
    fields = []
    while len(remaining_bytes) >= (size := 4 + int.from_bytes(remaining_bytes[:4], "big")) > 4:  # noqa: PLR2004 - a length is 4 bytes
        fields.append(remaining_bytes[4:size])
        remaining_bytes = remaining_bytes[size:]
    return not remaining_bytes and len(fields) > 1 and fields[0] == key_type.encode()


PublicKey = Annotated[str, AfterValidator(_check_public_key)]
