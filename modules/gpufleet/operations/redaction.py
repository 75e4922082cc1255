"""Redact texts for somebody outside: addresses, host names, keys, tokens and logins. Rules are data. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_yaml
from gpufleet.burnin.checks.gpu_nvidia.read import decompress_text

SHORTEST_WORD = 3
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{200,}={0,2}")  # nothing that a person reads is a word of this length
REMOVED, ENCODED = "<removed>", "<removed: encoded>"


@dataclass(frozen=True)
class RedactionRule:
    """One pattern; ``example`` has ``secret``, which must not survive."""

    name: str
    pattern: re.Pattern[str]
    example: str
    secret: str


@dataclass(frozen=True)
class RedactionRules:
    """The data file."""

    patterns: tuple[RedactionRule, ...]
    learn: tuple[RedactionRule, ...]
    stop_words: frozenset[str]
    keys: frozenset[str]


@cache
def load_redaction_rules() -> RedactionRules:
    """Return the rules of data/redaction.yaml."""
    table = read_packaged_yaml("gpufleet.operations", "data/redaction.yaml")
    rules = {
        group: tuple(
            RedactionRule(row["name"], re.compile(row["pattern"], re.DOTALL), row["example"], row["secret"])
            for row in table[group]
        )
        for group in ("patterns", "learn")
    }
    return RedactionRules(
        rules["patterns"], rules["learn"], frozenset(table["stop_words"]), frozenset(table["keys"])
    )


class Redactor:
    """Replaces what must not leave; the same value gets the same mark in every text."""

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self.rules = load_redaction_rules()
        self.counts: Counter[str] = Counter()
        self._marks: dict[tuple[str, str], str] = {}
        self._numbers: Counter[str] = Counter()
        self._words: dict[str, str] = {}
        for host in filter(None, hosts):  # known for certain, however short or common
            self._words[host.lower()] = "host"
        for user in users:
            self._learn_word("user", user)

    def learn(self, text: str) -> None:
        """Remember the hosts and logins that a text names, before any text is redacted."""
        for rule in self.rules.learn:
            for match in rule.pattern.finditer(text):
                self._learn_word(rule.name, match["value"])

    def _learn_word(self, name: str, word: str) -> None:
        plain = word.strip(".").lower()
        if len(plain) >= SHORTEST_WORD and plain not in self.rules.stop_words and not plain.isdecimal():
            self._words.setdefault(plain, name)

    def redact_text(self, text: str) -> str:
        """Return a text without what the rules and the learned words match."""
        for rule in self.rules.patterns:
            text = rule.pattern.sub(self._replace(rule.name), text)
        if self._words:
            words = sorted(self._words, key=lambda word: (-len(word), word))
            pattern = re.compile(
                rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z0-9])", re.IGNORECASE
            )
            text = pattern.sub(
                lambda match: self._mark(self._words[match[0].lower()], match[0].lower()), text
            )
        return text

    def redact_value(self, value: Any) -> Any:
        """Return a value of JSON with every text redacted, packed texts unpacked first, and removed keys."""
        unpacked = self._unpack(value)
        if isinstance(unpacked, dict):
            return {
                self.redact_text(key): self._remove(item)
                if key in self.rules.keys
                else self.redact_value(item)
                for key, item in unpacked.items()
            }
        if isinstance(unpacked, list):
            return [self.redact_value(item) for item in unpacked]
        return self.redact_text(self._drop_encoded(unpacked)) if isinstance(unpacked, str) else unpacked

    def learn_value(self, value: Any) -> None:
        """Remember the hosts and logins in a value of JSON, those under removed keys included."""
        unpacked = self._unpack(value)
        if isinstance(unpacked, dict):
            for key, item in unpacked.items():
                if key == "hostname" and isinstance(item, str):
                    self._learn_word("host", item)
                self.learn_value(item)
        elif isinstance(unpacked, list):
            for item in unpacked:
                self.learn_value(item)
        elif isinstance(unpacked, str):
            self.learn(unpacked)

    def _unpack(self, value: Any) -> Any:
        if isinstance(value, dict) and "zlib_base64" in value:
            text = decompress_text(value)
            return {"text": ENCODED if text is None else text}
        return value

    def _remove(self, value: Any) -> Any:
        if value in (None, "", 0, False):
            return value
        self.counts["removed"] += 1
        return REMOVED

    def _drop_encoded(self, text: str) -> str:
        """Return a text without long words in base64: what is inside cannot be redacted."""

        def drop(match: re.Match[str]) -> str:
            try:
                base64.b64decode(match[0].replace("-", "+").replace("_", "/") + "===")
            except (binascii.Error, ValueError):
                return match[0]
            self.counts["removed"] += 1
            return ENCODED

        return _ENCODED.sub(drop, text)

    def _replace(self, name: str) -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            has_value = "value" in match.re.groupindex and match["value"] is not None
            value = match["value"] if has_value else match[0]
            if value.startswith("<") and value.endswith(">"):
                return match[0]  # redacted by a rule before
            mark = self._mark(name, value.strip("\"'"))
            return match[0].replace(value, mark) if has_value else mark

        return replace

    def _mark(self, name: str, value: str) -> str:
        self.counts[name] += 1
        if (name, value) not in self._marks:
            self._numbers[name] += 1
            self._marks[name, value] = f"<{name}-{self._numbers[name]}>"
        return self._marks[name, value]
