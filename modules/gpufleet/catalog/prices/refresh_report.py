"""Print docs/price-refresh.md: which parts of the embedded tables a refresh reads, and why not the others.

``python -m gpufleet.catalog.prices.refresh_report > docs/price-refresh.md``
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from gpufleet.catalog import data_file
from gpufleet.catalog.attachable_card import get_card_part
from gpufleet.catalog.cloud import CLOUDS, get_cloud
from gpufleet.catalog.prices import part_rule, snapshot

# What the sources' own code reads, besides the rules of data/refresh_<cloud>.csv; a test reads each from a case.
CODED_PARTS = {
    "aws": (
        "ebs:gp3:throughput", r"rds:[a-z0-9-]+:db\..+", r"rds:storage:(?:gp2|gp3|io1|io2|standard)",
        r"elasticache:(?:redis|valkey|memcached):cache\..+", r"opensearch:.+\.search", "lambda:request",
        r"lambda:(?:x86|arm):gib_second", "lambda:disk_gib_second", "s3:standard:storage",
    ),
    "gcp": (
        r"(?:regional-)?pd-(?:standard|ssd)", "pd-balanced", "pd-extreme", "snapshot", "public_ipv4", "local-ssd",
        get_card_part("T4"), get_card_part("V100"),
    ),
    "azure": (),
}  # fmt: skip
HEAD = """# Which parts a refresh reads

`python -m gpufleet.catalog.prices.refresh_report` prints this page; a test verifies that it is current, and that
every part of the embedded tables is read or has a reason. [Prices](prices.md#refresh-from-the-clouds) explains the
sources.
"""
MAX_SHOWN_NAMES = 4


def list_embedded_parts(cloud: str) -> list[str]:
    """Return the names of all parts of the embedded tables and of the snapshot."""
    names = {key[2] for key in data_file.load_cloud_part_prices() if key[0] == cloud}
    for of, region, kind in snapshot.list_region_members():
        if (of, kind) == (cloud, "part"):
            names |= {item for item, _ in snapshot.iterate_snapshot_prices("part", cloud, region)}
    return sorted(names)


def list_refreshed_parts(cloud: str) -> list[str]:
    """Return the embedded parts that a source of the cloud can read."""
    patterns = [re.compile(pattern) for pattern in CODED_PARTS[cloud]]
    patterns += [name.pattern for name in part_rule.list_part_names(cloud)]
    return [part for part in list_embedded_parts(cloud) if any(each.fullmatch(part) for each in patterns)]


def find_gap_reasons(cloud: str) -> dict[str, str | None]:
    """Return the embedded parts that no source reads, with the reason; None if none is given."""
    gaps = [
        (re.compile(row["part"]), row["reason"])
        for row in data_file.load_catalog_rows("refresh_gaps.csv")
        if row["cloud"] == cloud
    ]
    refreshed = set(list_refreshed_parts(cloud))
    return {
        part: next((reason for pattern, reason in gaps if pattern.fullmatch(part)), None)
        for part in list_embedded_parts(cloud)
        if part not in refreshed
    }


def build_page() -> str:
    """Return the page."""
    return "\n\n".join([HEAD.rstrip(), _format_counts(), *map(_format_cloud, CLOUDS)]) + "\n"


def _format_counts() -> str:
    lines = ["| cloud | embedded parts | read by a refresh | not read |", "|---|---|---|---|"]
    for cloud in CLOUDS:
        embedded, refreshed = list_embedded_parts(cloud), list_refreshed_parts(cloud)
        share = f"{len(refreshed)} ({len(refreshed) / len(embedded):.0%})"
        lines.append(
            f"| {get_cloud(cloud).title} | {len(embedded)} | {share} | {len(embedded) - len(refreshed)} |"
        )
    return "\n".join(lines)


def _format_cloud(cloud: str) -> str:
    lines = [f"## {get_cloud(cloud).title}", "", "| service | read | parts |", "|---|---|---|"]
    refreshed = set(list_refreshed_parts(cloud))
    for service, parts in sorted(_group_by_service(list_embedded_parts(cloud)).items()):
        count = len(refreshed & set(parts))
        if count:
            lines.append(
                f"| `{service}` | {count} of {len(parts)} | {_format_names(refreshed & set(parts))} |"
            )
    lines += ["", "Not read:", "", "| parts | reason |", "|---|---|"]
    parts_by_reason: dict[str, list[str]] = defaultdict(list)
    for part, reason in find_gap_reasons(cloud).items():
        parts_by_reason[reason or "?"].append(part)
    for reason, parts in sorted(parts_by_reason.items()):
        services = _group_by_service(parts)
        names = ", ".join(
            f"`{names[0]}`" if len(names) == 1 else f"`{service}` ({len(names)})"
            for service, names in sorted(services.items())
        )
        lines.append(f"| {names} | {reason} |")
    return "\n".join(lines)


def _group_by_service(parts: Iterable[str]) -> dict[str, list[str]]:
    services: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        services[part.partition(":")[0]].append(part)
    return services


def _format_names(parts: Iterable[str]) -> str:
    names = sorted(parts)
    shown = ", ".join(f"`{name}`" for name in names[:MAX_SHOWN_NAMES])
    return shown if len(names) <= MAX_SHOWN_NAMES else f"{shown} and {len(names) - MAX_SHOWN_NAMES} more"


if __name__ == "__main__":
    print(build_page(), end="")
