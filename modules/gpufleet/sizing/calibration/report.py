"""The accuracy of speeds as a table: publications left out, by kind of speed and class of device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.sizing.calibration.cross_validation import ENOUGH, Held, covered, quantile

POOLED = "fewer than 10 each"


def report(held: Sequence[Held]) -> str:
    """Return the table: n, median, 90th percentile, and the share inside intervals that were learned without them."""
    inside = covered(held)
    lines = [f"{'':12}{'devices':22}{'n':>4}{'median':>9}{'p90':>9}{'in 80 %':>9}"]
    for metric in ("decode", "throughput", "prefill", "training"):
        for name, part in _classes([each for each in held if each.row.metric == metric]):
            off = sorted(each.off for each in part)
            share = sum(inside[each.row.id] for each in part) / len(part)
            figures = f"{len(part):4}{quantile(off, 0.5):9.1%}{quantile(off, 0.9):9.1%}{share:9.0%}"
            lines.append(f"{metric:12}{name:22}{figures}")
    return "\n".join(lines) + "\n"


def _classes(held: Sequence[Held]) -> Iterator[tuple[str, list[Held]]]:
    yield "all", list(held)
    kinds = {
        kind: [each for each in held if each.row.kind == kind] for kind in {each.row.kind for each in held}
    }
    yield from sorted((kind, part) for kind, part in kinds.items() if len(part) >= ENOUGH)
    few = [each for part in kinds.values() if len(part) < ENOUGH for each in part]
    if few:
        yield POOLED, few
