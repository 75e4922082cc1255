"""The agent's parameters: their types and ranges. What is not listed here is refused before anything runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from .check_table import CHECK_TABLE

DAY_SECONDS = 86_400
TEXT_CHARACTERS = 4096
BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class SettingError(ValueError):
    """A parameter that does not exist, or a value that it cannot have."""


class Setting(NamedTuple):
    """A parameter's type and, for numbers, its range; for texts the words that a comma-separated list may have."""

    kind: type
    low: float = 0
    high: float = 0
    words: tuple[str, ...] = ()


SECONDS = Setting(float, 0, DAY_SECONDS)
MIB = Setting(int, 0, 1 << 24)
COUNT = Setting(int, 0, 100_000)
PORT = Setting(int, 0, 65_535)
TEXT = Setting(str)
FLAG = Setting(bool)

# The types that check.yaml names.
TYPES = {
    "seconds": SECONDS,
    "mib": MIB,
    "count": COUNT,
    "port": PORT,
    "integer": Setting(int),
    "number": Setting(float),
    "text": TEXT,
    "flag": FLAG,
}

# Parameters of the agent itself, and of several checks.
SHARED: dict[str, Setting] = {
    "rehearsal": FLAG,
    "ignore_busy": FLAG,
    "rounds": Setting(int, 1, 10_000),
    "budget_seconds": Setting(float, 0, 30 * DAY_SECONDS),
    "expect_gpus": COUNT,
    "expect_amd_gpus": COUNT,
    "stress_ng_seconds": SECONDS,
    "gpu_flip_bit": FLAG,
    "gpu_library": TEXT,
    "card_seconds": SECONDS,
    "card_size": Setting(int, 16, 65_536),
    "card_memory_share": Setting(float, 0.01, 0.99),
    "card_chunk_mib": Setting(int, 1, 1 << 20),
    "card_copy_mib": Setting(int, 1, 65_536),
    "controller_time": Setting(float, 0, 1e11),
    "sysfs": TEXT,
    "serial_file": TEXT,
}


def build_setting(entry: dict[str, Any]) -> Setting:
    """Return the type and range that a check's own parameter has."""
    return TYPES[entry["type"]]._replace(
        **{key: entry[key] for key in ("low", "high", "words") if key in entry}
    )


PARAMETERS = {
    **SHARED,
    **{
        name: build_setting(entry)
        for check in CHECK_TABLE.values()
        for name, entry in check["parameters"].items()
    },
}


def parse_setting(name: str, text: str) -> Any:
    """Return a parameter's value; raise SettingError, in one line, for one that it cannot have."""
    setting = PARAMETERS.get(name)
    if setting is None:
        import difflib  # here: the agent's start is measured

        close = difflib.get_close_matches(name, PARAMETERS, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"see {', '.join(sorted(PARAMETERS))}"
        raise SettingError(f"{name!r} is not a parameter; {remedy}")
    if setting.kind is str:
        if len(text) > TEXT_CHARACTERS or not text.isprintable():
            raise SettingError(
                f"{name} must be printable text of at most {TEXT_CHARACTERS} characters, got {text[:60]!r}"
            )
        unknown = [
            word for word in text.split(",") if setting.words and word.strip() not in ("", *setting.words)
        ]
        if unknown:
            raise SettingError(f"{name} must be of {', '.join(setting.words)}, got {text[:60]!r}")
        return text
    if setting.kind is bool:
        if text.strip().lower() not in BOOLEANS:
            raise SettingError(f"{name} must be true or false, got {text[:60]!r}")
        return BOOLEANS[text.strip().lower()]
    try:
        number = setting.kind(text)
    except (ValueError, OverflowError):
        # Ansible passes 4.0 where a template computed a whole number.
        number = parse_whole_number(text) if setting.kind is int else None
    if number is None or not setting.low <= number <= setting.high:
        noun = "a whole number" if setting.kind is int else "a number"
        raise SettingError(
            f"{name} must be {noun} from {setting.low:g} to {setting.high:g}, got {text[:60]!r}"
        )
    return number


def parse_whole_number(text: str) -> int | None:
    """Return the integer that a text like 4.0 stands for, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def parse_settings(pairs: dict[str, str]) -> dict[str, Any]:
    """Return all parameters as values of their types."""
    return {name: parse_setting(name, text) for name, text in pairs.items()}
