# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""OpenPGP public keys: their fingerprints, and a key file that contains only the expected keys (RFC 9580)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

PUBLIC_KEY, SECRET_KEY = 6, 5  # packet types
MAX_KEY_BYTES = 1 << 20
ARMORED_KEY = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\s*?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL
)
# Length and polynomial of the armour's checksum (RFC 9580, 6.1.1).
CRC24_INIT, CRC24_POLYNOMIAL = 0xB704CE, 0x1864CFB
FINGERPRINT = re.compile(r"(?:[0-9A-F]{40}|[0-9A-F]{64})")


def normalize_fingerprint(text: str) -> str:
    """Return a fingerprint in capitals without spaces; raise HostError if it is not a whole one."""
    fingerprint = re.sub(r"[\s:]|^0[xX]", "", text).upper()
    if not FINGERPRINT.fullmatch(fingerprint):
        raise HostError(
            f"{text!r} is not the fingerprint of a key: expected 40 or 64 hexadecimal digits, not a short id"
        )
    return fingerprint


def select_signing_keys(data: bytes, fingerprints: Sequence[str], origin: str) -> str:
    """Return an ASCII-armoured file with only the expected keys; raise HostError if there is none of them.

    Other keys in the data are left out: whoever trusts the file trusts exactly the keys that were named.
    """
    expected = [normalize_fingerprint(fingerprint) for fingerprint in fingerprints]
    keys = read_public_keys(data, origin)
    selected = [keys[fingerprint] for fingerprint in expected if fingerprint in keys]
    if not selected:
        raise HostError(
            f"{origin}: refused, its key has the fingerprint {', '.join(keys)}, expected {' or '.join(expected)}."
            " If the vendor changed its key, compare the new fingerprint with the vendor's documentation, then change"
            " the expected one"
        )
    return armor_keys(b"".join(selected))


def list_key_fingerprints(data: bytes, origin: str) -> list[str]:
    """Return the fingerprints of the primary keys in a key file."""
    return list(read_public_keys(data, origin))


def read_public_keys(data: bytes, origin: str) -> dict[str, bytes]:
    """Return each public key's packets by its fingerprint, from an armoured or a binary file."""
    if len(data) > MAX_KEY_BYTES:
        raise HostError(f"{origin}: is not a signing key: it is larger than {MAX_KEY_BYTES} bytes")
    keys: dict[str, bytes] = {}
    current = ""
    try:
        for tag, body, packet in _split_packets(_remove_armor(data)):
            if tag == SECRET_KEY:
                raise HostError(f"{origin}: contains a secret key, expected a public key")
            if tag == PUBLIC_KEY:
                current = _fingerprint(body)
                keys[current] = b""
            if current:
                keys[current] += packet
    except (ValueError, IndexError):
        keys = {}
    if not keys:
        raise HostError(f"{origin}: is not an OpenPGP public key")
    return keys


def armor_keys(packets: bytes) -> str:
    """Return packets as ASCII armour, with the checksum that rpm requires."""
    text = base64.b64encode(packets).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    checksum = base64.b64encode(_crc24(packets).to_bytes(3, "big")).decode()
    return "\n".join(
        [
            "-----BEGIN PGP PUBLIC KEY BLOCK-----",
            "",
            *lines,
            f"={checksum}",
            "-----END PGP PUBLIC KEY BLOCK-----",
            "",
        ]
    )


def _remove_armor(data: bytes) -> bytes:
    blocks = ARMORED_KEY.findall(data.replace(b"\r\n", b"\n"))
    if not blocks:
        return data
    return b"".join(map(_decode_armor_block, blocks))


def _decode_armor_block(block: bytes) -> bytes:
    """Return a block's bytes: headers end at the first empty line; the last line can be a checksum."""
    headers, empty, body = block.partition(b"\n\n")
    lines = (body if empty and b":" in headers else block).split()
    encoded = b"".join(line for line in lines if not line.startswith(b"="))
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _split_packets(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, body and whole bytes of each packet; raise ValueError or IndexError if the data is something else."""
    start = 0
    while start < len(data):
        first = data[start]
        if not first & 0x80:
            raise ValueError("not a packet")
        if first & 0x40:
            tag, (header, length) = first & 0x3F, _new_length(data, start + 1)
        else:
            tag, size = (first >> 2) & 0x0F, 1 << (first & 3)
            if size > 4:  # noqa: PLR2004 - length type 3: to the end of the file; no key has it
                raise ValueError("a packet without a length")
            header, length = size, int.from_bytes(data[start + 1 : start + 1 + size], "big")
        body_start = start + 1 + header
        end = body_start + length
        if end > len(data):
            raise ValueError("a packet is cut off")
        yield tag, data[body_start:end], data[start:end]
        start = end


def _new_length(data: bytes, position: int) -> tuple[int, int]:
    """Return the octets that encode a length, and the length (RFC 9580, 4.2.1)."""
    first = data[position]
    if first < 192:  # noqa: PLR2004
        return 1, first
    if first < 224:  # noqa: PLR2004
        return 2, ((first - 192) << 8) + data[position + 1] + 192
    if first == 255:  # noqa: PLR2004
        return 5, int.from_bytes(data[position + 1 : position + 5], "big")
    raise ValueError("a key in parts of unknown length")


def _fingerprint(body: bytes) -> str:
    """Return the fingerprint of a public key packet (RFC 9580, 5.5.4)."""
    version = body[0]
    if version == 4:  # noqa: PLR2004
        return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324 - the format's
    if version == 6:  # noqa: PLR2004
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise ValueError(f"a key of version {version}")


def _crc24(data: Iterable[int]) -> int:
    crc = CRC24_INIT
    for octet in data:
        crc ^= octet << 16
        for __ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= CRC24_POLYNOMIAL
    return crc & 0xFFFFFF
