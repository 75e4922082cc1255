"""How long `gpufleet prices` takes over a full catalogue, and what the catalogue covers. Prints, judges nothing.

    python tests/benchmarks/bench_prices.py [RUNS]

Budget: 0.25 s for the whole process. The full catalogue is generated (every embedded price times made-up regions
until there are 60,000 rows of two days). Where GPUFLEET_FULL_PRICES names a price file (columns cloud, region,
instance_type, purchase, usd_per_hour, as_of, source), that is imported and timed as well, and coverage is counted over
its accelerated machine types; without it, over those of the embedded machines.csv.

The embedded snapshot is timed in a process of its own: the first price, a list of the cheapest machines of a size over
every cloud and region, each of 0.25 s at most, and the memory that they take.
"""

from __future__ import annotations

import csv
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 60_000
QUESTIONS = (
    (),
    ("--gpu", "h100"),
    ("--gpu", "a100", "--count", "16", "--purchase", "spot"),
    ("--cloud", "gcp", "--region", "us-central1", "--json"),
    ("status",),
)
WAYS = ("on_demand", "spot", "commitment")


def generate_rows(folder):
    """Write a price file of full size, in our own columns, and return it."""
    from gpufleet.catalog import data_file

    rows, regions = [], 0
    while len(rows) < ROWS:
        regions += 1
        for (cloud, region, machine, purchase), price in data_file.load_machine_prices().items():
            for day, factor in (("2026-10-01", 1.0), ("2026-11-01", 1.01)):
                usd = price.usd_per_hour * factor
                rows.append((cloud, f"{region}-{regions}", machine, purchase, f"{usd:.6f}", day, "generated"))
    file = folder / "generated.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("cloud", "region", "machine", "purchase", "usd_per_hour", "as_of", "source"))
        writer.writerows(rows)
    return file


SNAPSHOT_PROBE = """
import resource, time
from itertools import islice
from gpufleet import catalog
def memory_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, started = memory_mib(), time.perf_counter()
catalog.find_machine_price("aws", "eu-west-1", "m5.large", "on_demand")
first = time.perf_counter() - started
started = time.perf_counter()
for _ in range(1000):
    catalog.find_machine_price("aws", "eu-west-1", "m5.large", "on_demand")
each = (time.perf_counter() - started) / 1000
looked_up = memory_mib()
started = time.perf_counter()
rows = list(catalog.search_offers(min_vcpus=8, min_memory_gib=32, limit=21))
everything = time.perf_counter() - started
started = time.perf_counter()
list(catalog.search_offers(min_vcpus=8, min_memory_gib=32, purchase="on_demand", limit=21))
on_demand = time.perf_counter() - started
print(first, each * 1e6, everything, on_demand, looked_up - before, memory_mib() - before)
"""


def time_snapshot(runs):
    """Print what look-ups and searches of the embedded snapshot take, in new processes."""
    command, environment = (
        [sys.executable, "-c", SNAPSHOT_PROBE],
        os.environ | {"GPUFLEET_PRICES": "embedded"},
    )
    measured = [
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(runs)
    ]
    first, each, everything, on_demand, lookup_mib, search_mib = (
        statistics.median(map(float, column)) for column in zip(*measured, strict=True)
    )
    print(
        f"\nembedded snapshot, medians\n  first price {first:.3f} s, then {each:.0f} µs each, {lookup_mib:.1f} MiB\n"
        f"  cheapest of a size over everything {everything:.3f} s, on demand only {on_demand:.3f} s, "
        f"{search_mib:.1f} MiB"
    )


def run_query(store, *arguments):
    """Run the command as typed and return its wall and CPU seconds."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "gpufleet", "prices", *map(str, arguments)],
        env=os.environ | {"GPUFLEET_PRICES": str(store)}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def import_rows(name, file, store):
    """Import a file by the command, and say how long that took and what came of it."""
    from gpufleet.catalog.prices import PriceReader

    accepted = ("--accept", "not-offered", "--accept", "unknown-region") if name == "generated" else ()
    seconds, _ = run_query(store, "import", file, *accepted)
    rows = next(iter(PriceReader(store).run_query("SELECT count(*) FROM prices")))[0]
    print(f"\n{name}: {rows:,} prices in the store, imported in {seconds:.1f} s")


def time_queries(store, runs):
    """Print the wall seconds of each question; and its CPU seconds, which depend less on the load of the machine."""
    run_query(store)  # the first run may compile bytecode
    for question in QUESTIONS:
        wall, cpu = zip(*(run_query(store, *question) for _ in range(runs)), strict=True)
        print(
            f"  gpufleet prices {' '.join(question):42} median {statistics.median(wall):.3f} s"
            f"   best {min(wall):.3f} s   worst {max(wall):.3f} s   cpu {statistics.median(cpu):.3f} s"
        )


def print_coverage(name, types, known):
    """Print the share of machine types that have a price in some region, by cloud and way to buy."""
    from gpufleet.catalog.prices.status import count_price_coverage as count

    coverages = list(count(types, known))
    total = sum(coverage.types for coverage in coverages)
    shares = [
        f"{purchase_kind} {sum(getattr(coverage, purchase_kind) for coverage in coverages) / total:4.0%}"
        for purchase_kind in WAYS
    ]
    print(f"  {name:34} {total:4} types   {'   '.join(shares)}")
    for coverage in coverages:
        counts = "   ".join(f"{kind} {getattr(coverage, kind)}/{coverage.types}" for kind in WAYS)
        print(f"      {coverage.cloud:6} {counts}")


def count_coverage(full, store):
    """Print what is covered: embedded alone, and with the full file imported."""
    from gpufleet.catalog.prices import PriceReader
    from gpufleet.catalog.prices.status import iterate_newest_price_origins, list_accelerator_machine_types

    types = _accelerated_types(full) if full else list_accelerator_machine_types(None)
    print(f"\ncoverage of the accelerated machine types of {full or 'the embedded machines.csv'}")
    print_coverage("embedded", types, dict(iterate_newest_price_origins(None)))
    if full:
        print_coverage("after import", types, dict(iterate_newest_price_origins(PriceReader(store))))
    else:
        print("  after import: not printed, GPUFLEET_FULL_PRICES names no price file")


def _accelerated_types(file):
    with Path(file).open() as lines:
        rows = list(csv.DictReader(lines))
    bare = {"", "none"}
    return {
        (row["cloud"], row["instance_type"])
        for row in rows
        if row["gpu_model"] not in bare and not row["instance_type"].startswith("accelerator:")
    }


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    full = os.environ.get("GPUFLEET_FULL_PRICES")
    print(f"gpufleet prices, {runs} runs on {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        import_rows("generated", generate_rows(folder), folder / "generated.db")
        time_queries(folder / "generated.db", runs)
        if full:
            import_rows("full catalogue", full, folder / "full.db")
            time_queries(folder / "full.db", runs)
        else:
            print("\nfull catalogue: not timed, GPUFLEET_FULL_PRICES names no price file")
        count_coverage(full, folder / "full.db")
    time_snapshot(runs)


if __name__ == "__main__":
    main()
