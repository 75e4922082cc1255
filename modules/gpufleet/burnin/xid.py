"""Read XIDs in the kernel log, by what NVIDIA's catalogue asks for."""

from __future__ import annotations

import re
from functools import cache

from gpufleet.boundary import read_packaged_rows


@cache
def load_xid_classes() -> dict[int, str]:
    """Return what each XID code means for the node: application, fatal or ignore."""
    return {
        row.get_integer("code"): row["class"] for row in read_packaged_rows("gpufleet.burnin", "data/xid.csv")
    }


def parse_xid_codes(log_lines: list[str]) -> list[int]:
    """Return the XID codes in kernel log lines, in order."""
    matches = (re.search(r"NVRM: Xid \([^)]*\): (\d{1,6})\b", line) for line in log_lines)
    return [int(match[1]) for match in matches if match]


def count_xid_classes(codes: list[int]) -> dict[str, int]:
    """Count codes by class; one that the table does not know counts as fatal until someone has looked."""
    classes = [load_xid_classes().get(code, "fatal") for code in codes]
    return {name: classes.count(name) for name in ("fatal", "application", "ignore")}
