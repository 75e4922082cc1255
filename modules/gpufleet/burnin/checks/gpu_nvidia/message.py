"""What nvidia-smi says of a GPU or of the driver in words, next to its report or in place of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from gpufleet.boundary import make_printable, read_table

# 00000000:DB:00.0, 0000:DB:00.0; older drivers print no space before it: GPU0000:07:00.0.
ADDRESS = re.compile(r"((?:[0-9a-fA-F]{4}){1,2}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
MAX_LINES = 64
LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class MessageRule:
    """What a line means: ``metric`` is empty where no GPU is at fault and nothing was measured."""

    pattern: str
    metric: str
    meaning: str
    source: str
    date: date


@dataclass(frozen=True)
class ToolMessage:
    """A line that a rule knows, with the address that it names."""

    rule: MessageRule
    address: str
    text: str


@cache
def load_message_rules() -> tuple[tuple[re.Pattern[str], MessageRule], ...]:
    """Return the rules with their compiled patterns; the first one that fits a line counts."""
    rules = read_table(MessageRule, "gpufleet.burnin", "data/nvidia_smi_messages.csv")
    return tuple((re.compile(rule.pattern, re.IGNORECASE), rule) for rule in rules)


def find_messages(raw: Mapping[str, object]) -> list[ToolMessage]:
    """Return the known lines of what nvidia-smi printed outside its report."""
    text = raw.get("message")
    lines = text.splitlines()[:MAX_LINES] if isinstance(text, str) else []
    return [message for line in lines if (message := classify_message(line)) is not None]


def classify_message(line: str) -> ToolMessage | None:
    """Return what a line means, or None."""
    line = line[:LONGEST_MESSAGE]
    for pattern, rule in load_message_rules():
        if pattern.search(line):
            address = ADDRESS.search(line)
            return ToolMessage(rule, address[1].lower() if address else "", make_printable(line.strip()))
    return None


def explain_failure(raw: Mapping[str, object]) -> str:
    """Return why there is no report, with the step of a rule that knows the message; empty without a message."""
    text = raw.get("message")
    if not isinstance(text, str) or not text.strip():
        return ""
    steps = "; ".join(dict.fromkeys(message.rule.meaning for message in find_messages(raw)))
    said = make_printable(" ".join(text.split()))[:LONGEST_MESSAGE]
    return f"nvidia-smi exited with code {raw.get('code')}: {said}" + (f"; {steps}" if steps else "")
