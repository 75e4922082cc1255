"""The watch's rules as text."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.operations.watch.rule import WatchRule
from gpufleet.text_table import align_columns


def format_rules(rules: Iterable[WatchRule]) -> list[str]:
    """Return a table of rules."""
    rows = [
        (
            rule.rule,
            rule.exporter,
            f"{rule.metric} {rule.condition}",
            f"act: {rule.measure}" if rule.action == "act" else rule.action,
            rule.meaning,
        )
        for rule in rules
    ]
    return align_columns(("RULE", "EXPORTER", "CONDITION", "ACTION", "MEANING"), rows, optional=("MEANING",))
