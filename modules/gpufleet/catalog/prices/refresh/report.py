"""What a refresh brought, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.prices.refresh.run import Move, Outcome
from gpufleet.catalog.prices.report import dump, finding_dict, findings_lines

FEW = 5  # of moves and of what was left out


@dataclass(frozen=True)
class Counts:
    """A source in figures."""

    taken: int
    apart: int
    new: int
    changed: int
    same: int


def counts(outcome: Outcome) -> Counts:
    """Return the figures of a source; zeros where nothing became visible."""
    summary = outcome.summary
    taken, apart = (summary.taken, summary.apart) if summary else (0, 0)
    return Counts(taken, apart, outcome.new, len(outcome.moves), outcome.same)


def text(outcomes: Sequence[Outcome]) -> str:
    """Say for every source what is new, what changed and by how much, and what is not there."""
    return "\n".join(line for outcome in outcomes for line in _lines(outcome))


def _lines(outcome: Outcome) -> list[str]:
    lines = [f"{outcome.source}: {_head(outcome)}"]
    lines += [f"  {_move(move)}" for move in outcome.moves[:FEW]]
    lines += _some([f"left out: {each}" for each in outcome.left_out])
    lines += _some([f"not to be had: {region}: {why}" for region, why in sorted(outcome.refused.items())])
    lines += _some([f"not read: {region}: {why}" for region, why in sorted(outcome.failed.items())])
    return lines + (findings_lines(outcome.summary.findings) if outcome.summary else [])


def _head(outcome: Outcome) -> str:
    if outcome.state == "stored":
        found = counts(outcome)
        return (
            f"{found.taken} prices of {len(outcome.regions)} regions: {found.new} new, {found.changed} changed"
            f"{_by(outcome.moves)}, {found.same} as before, {found.apart} set apart"
        )
    if outcome.state == "known":
        return f"nothing to do, {outcome.reason} (--again reads it once more)"
    if outcome.state == "unfinished":
        return f"unfinished, nothing of it is visible yet: {outcome.reason}"
    return f"skipped: {outcome.reason}" + (f"; {outcome.hint}" if outcome.hint else "")


def _by(moves: Sequence[Move]) -> str:
    if not moves:
        return ""
    shares = sorted(move.share for move in moves)
    return f" ({shares[0]:+.1%} to {shares[-1]:+.1%}, half of them below {shares[len(shares) // 2]:+.1%})"


def _move(move: Move) -> str:
    row = move.row
    return f"{' '.join(row.key)}: {move.before:g} -> {row.usd_per_hour:g} ({move.share:+.1%})"


def _some(lines: list[str]) -> list[str]:
    more = [f"  and {len(lines) - FEW} more such"] if len(lines) > FEW else []
    return [f"  {line}" for line in lines[:FEW]] + more


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return the same, whole, as JSON."""
    return dump({"sources": [_source(outcome) for outcome in outcomes]})


def _source(outcome: Outcome) -> dict[str, Any]:
    found = counts(outcome)
    return {
        "source": outcome.source,
        "cloud": outcome.cloud,
        "state": outcome.state,
        "reason": outcome.reason or None,
        "hint": outcome.hint,
        "regions": list(outcome.regions),
        "taken": found.taken,
        "new": found.new,
        "changed": [_change(move) for move in outcome.moves],
        "same": found.same,
        "set_apart": found.apart,
        "findings": [finding_dict(each) for each in (outcome.summary.findings if outcome.summary else ())],
        "left_out": outcome.left_out,
        "not_offered": outcome.refused,
        "not_read": outcome.failed,
    }


def _change(move: Move) -> dict[str, Any]:
    cloud, region, item, purchase = move.row.key
    return {
        "cloud": cloud, "region": region, "item": item, "purchase": purchase, "before": move.before,
        "after": move.row.usd_per_hour, "change": round(move.share, 6),
    }  # fmt: skip
