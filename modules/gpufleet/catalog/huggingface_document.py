"""A Hugging Face ``config.json`` as keys with their place for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.errors import InputError

MAX_SHOWN_CHARACTERS = 40  # characters of a wrong value in a message
MAX_SETTING = 10**12  # of any setting: larger values are infinity or typing errors


@dataclass(frozen=True)
class HuggingFaceConfig:
    """The keys of a config.json, with its path for messages."""

    where: str
    keys: dict[str, Any]

    def get_first_value(self, *names: str) -> Any:
        """Return the first of these keys that has a value, else None."""
        return next((self.keys[name] for name in names if self.keys.get(name) is not None), None)

    def get_integer(self, *names: str, default: int | None = None) -> int:
        """Return a non-negative integer; raise InputError if it is missing and has no default."""
        key = next((name for name in names if self.keys.get(name) is not None), names[0])
        value = self.keys.get(key)
        if value is None:
            if default is not None:
                return default
            raise InputError(
                "is missing", where=self.where, key=key, remedy="the model's size is computed from it"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_SETTING:
            raise InputError(f"{shorten_value(value)} is not an integer", where=self.where, key=key)
        if value != int(value):
            raise InputError(f"{value!r} is not an integer", where=self.where, key=key)
        return int(value)

    @property
    def model_type(self) -> str:
        """Return the model type, or an empty text."""
        return str(self.keys.get("model_type") or "")


def shorten_value(value: Any) -> str:
    """Return a value as an error line shows it."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
