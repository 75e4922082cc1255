"""Where the accelerator catalogue's figures come from, what is empty, and how long it takes to read.

    python tests/benchmarks/bench_catalog.py

Prints, judges nothing (tests/catalog/test_sources.py does). Budget: the accelerators within 15 ms.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from gpufleet import catalog
from gpufleet.catalog.data_file import load_catalog_rows
from tools import catalog_lint as lint
from tools.catalog_sources import KINDS, build_field_source_report

READ = """
import time
from gpufleet import catalog
started = time.perf_counter()
catalog.load_accelerators()
print(time.perf_counter() - started)
"""
RUNS = 7


def milliseconds():
    """Read the accelerators in fresh processes, and return how long each took."""
    outputs = [
        subprocess.run([sys.executable, "-c", READ], check=True, capture_output=True, text=True).stdout
        for _ in range(RUNS)
    ]
    return [float(output) * 1000 for output in outputs]


def print_kinds(report):
    """Print fields by kind of source."""
    filled = sum(report.by_kind.values())
    print(
        f"\n{filled} filled fields by kind of source ({report.computed} of them computed, with their formula)"
    )
    for kind, count in sorted(report.by_kind.items(), key=lambda item: -item[1]):
        print(f"  {count:5}  {count / filled:4.0%}  {kind:15} {KINDS[kind]}")
    print(f"  {0:5}    0%  {'recalled':15} no such kind: a test refuses it")
    print(f"  {len(report.unsourced):5}        without a source")


def print_sources(report):
    """Print fields by source, with where it is to be found."""
    print("\nby source")
    for name, count in sorted(report.by_source.items(), key=lambda item: -item[1]):
        source = catalog.load_catalog_sources()[name]
        print(f"  {count:5}  {name:22} {source.as_of:10}  {source.address}")


def print_empty(report):
    """Print what is empty for want of a source by accelerator; then, in numbers, what is empty by nature."""
    print(f"\n{sum(map(len, report.empty.values()))} fields empty for want of a source (or sources disagree)")
    for name, fields in report.empty.items():
        if fields:
            print(f"  {name:32} {' '.join(fields)}")
    print(f"{sum(map(len, report.absent.values()))} more are empty because the part has no such thing")
    print(
        f"{len(report.shared)} parts: usable memory is a documented share (usable_shares.csv), not a reading"
    )


def main():
    took = milliseconds()
    print(f"{len(catalog.load_accelerators())} accelerators read in {statistics.median(took):.1f} ms", end="")
    print(f" (best {min(took):.1f}, worst {max(took):.1f}, {RUNS} fresh processes)")
    report = build_field_source_report()
    print_kinds(report)
    print_sources(report)
    print_empty(report)
    findings = lint.lint_accelerators(
        load_catalog_rows("accelerators.csv"),
        load_catalog_rows("architectures.csv"),
        load_catalog_rows("mistakes.csv"),
    )
    print(f"\n{len(findings)} findings of the linter", *findings, sep="\n  ")


if __name__ == "__main__":
    main()
