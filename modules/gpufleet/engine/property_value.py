"""Values as the engine writes them, with its sentinels turned into typed markers.

A preview and a state are JSON, and JSON has no "not known yet" and no "secret": the engine writes a fixed
string for the first (one for each type) and a signed object, or the text ``[secret]``, for the second.
Left as they are, a count that is not known yet reads as a string, and a secret as an object with two odd keys.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from gpufleet.errors import InputError


class UnreadableValue(Enum):
    """Stands where a value cannot be read; neither a number nor a string, so arithmetic on it fails loudly."""

    UNKNOWN = "unknown"
    SECRET = "secret"  # noqa: S105 - a marker's name, no password

    def __repr__(self) -> str:
        return self.name


UNKNOWN = UnreadableValue.UNKNOWN
SECRET = UnreadableValue.SECRET

# The engine's sentinels, one for each type (sdk/go/common/resource/plugin/rpc.go, v3.258.0). A serialised
# state writes the string one even where a number is expected.
UNKNOWN_SENTINELS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)

SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the engine's type tag, public
OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
RESOURCE_SIGNATURE = "5cf8f73096256a8f31e491e813e4eb8e"
REMEDY = "give the engine's own output"
BLINDED_SECRET = "[secret]"  # noqa: S105 - what the engine prints instead of one


def decode_property_value(value: Any) -> Any:
    """Return a JSON value with sentinels as markers; secrets stay hidden even where their text is there."""
    if isinstance(value, str):
        return _decode_text(value)
    if isinstance(value, list):
        return [decode_property_value(item) for item in value]
    if isinstance(value, dict):
        return _decode_object(value)
    return value


def decode_properties(value: Any) -> dict[str, Any]:
    """Return a decoded property bag; an absent one is empty."""
    if value is not None and not isinstance(value, dict):
        raise InputError(
            f"the properties of a resource are not a mapping: {str(value)[:40]!r}", remedy=REMEDY
        )
    return {str(key): decode_property_value(item) for key, item in (value or {}).items()}


def hide_secret_values(value: Any) -> Any:
    """Return undecoded JSON without the text of its secrets; it decodes to the same values."""
    if isinstance(value, list):
        return [hide_secret_values(item) for item in value]
    if not isinstance(value, dict):
        return value
    if (
        value.get(SIGNATURE_KEY) in {SECRET_SIGNATURE, OUTPUT_SIGNATURE}
        and decode_property_value(value) is SECRET
    ):
        return {SIGNATURE_KEY: SECRET_SIGNATURE}
    return {key: hide_secret_values(item) for key, item in value.items()}


def _decode_text(text: str) -> Any:
    if text in UNKNOWN_SENTINELS:
        return UNKNOWN
    return SECRET if text == BLINDED_SECRET else text


def _decode_object(value: dict[str, Any]) -> Any:
    signature = value.get(SIGNATURE_KEY)
    if signature == SECRET_SIGNATURE:
        return SECRET
    if signature == OUTPUT_SIGNATURE:
        return _decode_output(value)
    if signature == RESOURCE_SIGNATURE:
        return value.get("urn", UNKNOWN)
    return decode_properties(value)


def _decode_output(value: dict[str, Any]) -> Any:
    if value.get("secret"):
        return SECRET
    return decode_property_value(value["value"]) if "value" in value else UNKNOWN
