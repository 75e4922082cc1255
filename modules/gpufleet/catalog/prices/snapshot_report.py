"""Print docs/price-coverage.md: what is embedded, by cloud and region, and what the checks found.

``python -m gpufleet.catalog.prices.snapshot_report > docs/price-coverage.md``
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpufleet.catalog import data_file, price_query, price_table, regional_price
from gpufleet.catalog.cloud import CLOUDS, get_cloud
from gpufleet.catalog.entry import HOURS_PER_MONTH
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.check import CODES
from gpufleet.catalog.prices.licence_check import LICENCE_INCLUDED, LICENCE_INCLUDED_TEXT

TermTypes = dict[str, set[str]]  # machine types by what has a price: a purchase, or windows
COLUMNS = ("on_demand", "spot", "reserved_1y", "windows")
HEAD = """# Coverage of the embedded prices

`python -m gpufleet.catalog.prices.snapshot_report` prints this page; a test verifies that it is current.
[Prices](prices.md) explains how prices are used and replaced by newer ones.

## Machine types with a price

Shares of the current machine types of a cloud, on demand, on spot, reserved for a year, and with Windows. A type that a
region does not offer counts as missing.
"""
PART_HEAD = """## Parts by region

Each part in each region of its cloud: how many have a recorded price, how many one for all regions (`global`), and how
many are priced as another region, with the spread between regions as their range. No cell is empty. A recorded list
does not say why it lacks a part, so that one which is not sold there is priced as elsewhere too, and the bill says so.
A machine that a source lists as not sold in a region has no price there (`catalog/data/offered.csv`).
"""
EXAMPLE_PARTS = {
    "aws": (
        "ebs:gp3",
        "ebs:io2",
        "nat_gateway",
        "kubernetes_cluster",
        "load_balancer:application",
        "public_ipv4",
    ),
    "azure": (
        "kubernetes_cluster",
        "premium-ssd-p10",
        "nat_gateway",
        "public_ipv4",
        "load_balancer:standard",
    ),
    "gcp": ("pd-balanced", "hyperdisk-balanced", "kubernetes_cluster", "nat_gateway", "public_ipv4"),
}
CURRENT_TYPES = {
    "aws": "the values of `InstanceType` in botocore's EC2 model, which include previous generations",
    "azure": "the sizes with an on-demand price of 2026 in some region",
    "gcp": "the types with an on-demand price of 2026 in some region",
}


def list_current_types(cloud: str) -> set[str]:
    """Return the current machine types: of the vendor's SDK where it lists them, else of the newest price list."""
    if cloud == "aws":
        import botocore.session

        model = botocore.session.get_session().get_service_model("ec2")
        return set(getattr(model.shape_for("InstanceType"), "enum"))  # noqa: B009 - the stubs have no such attribute
    return {item for terms in collect_priced_types(cloud).values() for item in terms["current"]}


def collect_priced_types(cloud: str) -> dict[str, TermTypes]:
    """Return the machine types with a price by region, then by purchase; ``current`` has those dated 2026."""
    regions: dict[str, TermTypes] = defaultdict(lambda: defaultdict(set))
    for region, item, purchase, as_of in _iterate_priced_items(cloud):
        machine, system = snapshot.split_system(item)
        if not system:
            regions[region][purchase].add(machine)
            if purchase == "on_demand" and as_of >= "2026":
                regions[region]["current"].add(machine)
        elif (system, purchase) == ("windows", "on_demand"):
            regions[region]["windows"].add(machine)
    return regions


def _iterate_priced_items(cloud: str) -> Iterator[tuple[str, str, str, str]]:
    for (of, region, item, purchase), price in data_file.load_machine_prices().items():
        if of == cloud:
            yield region, item, purchase, price.as_of or ""
    for of, region, kind in snapshot.list_region_members():
        if (of, kind) == (cloud, "machine"):
            for item, price in snapshot.iterate_snapshot_prices("machine", cloud, region):
                yield region, item, price.purchase, price.as_of or ""


def format_coverage(cloud: str) -> str:
    """Return the table of a cloud: a line for each region, and one for all local zones together."""
    current, regions = list_current_types(cloud), collect_priced_types(cloud)
    if cloud == "gcp":
        fees = snapshot.list_licensed_machines("gcp", "windows")
        for terms in regions.values():
            terms["windows"] = terms["on_demand"] & fees
    names = sorted(name for name in regions if get_cloud(cloud).is_region_name(name))
    zones = sorted(set(regions) - set(names))
    lines = [
        f"### {get_cloud(cloud).title}: {len(current)} types",
        "",
        f"Current types: {CURRENT_TYPES[cloud]}.",
        "",
        "| region | types | on demand | spot | reserved | Windows |",
        "|---|---|---|---|---|---|",
    ]
    anywhere = _merge_types(regions[name] for name in names)
    lines.append(_format_line("in some region", anywhere, current))
    lines += [_format_line(name, regions[name], current) for name in names]
    if zones:
        zone_types = _merge_types(regions[name] for name in zones)
        lines.append(_format_line(f"in some of {len(zones)} local zones", zone_types, current))
    return "\n".join(lines)


def _merge_types(regions: Iterable[TermTypes]) -> TermTypes:
    merged: TermTypes = defaultdict(set)
    for terms in regions:
        for term, types in terms.items():
            merged[term] |= types
    return merged


def _format_line(name: str, terms: TermTypes, current: set[str]) -> str:
    shares = [f"{len(terms[column] & current) / len(current):.0%}" for column in COLUMNS]
    return f"| {name} | {len(terms['on_demand'] & current)} | {' | '.join(shares)} |"


def format_part_coverage(cloud: str) -> str:
    """Return the table of a cloud: for each region the parts with a price, and what stands for some that have none."""
    regions = sorted(
        region
        for region in regional_price.list_priced_regions(cloud)
        if get_cloud(cloud).is_region_name(region)
    )
    known: dict[str, set[str]] = defaultdict(set)
    for part, region, purchase, *_ in price_table.iterate_table_rows("part", cloud):
        if purchase == "on_demand":
            known[region].add(part)
    for region in regions:
        known[region] |= {item for item, _ in snapshot.iterate_snapshot_prices("part", cloud, region)}
    parts = set().union(*known.values())
    examples = EXAMPLE_PARTS[cloud]
    lines = [
        f"### {get_cloud(cloud).title}: {len(parts)} parts in {len(regions)} regions",
        "",
        f"| region | recorded | global | priced as another region | {' | '.join(f'`{each}`' for each in examples)} |",
        f"|---|---|---|---|{'---|' * len(examples)}",
    ]
    for region in regions:
        everywhere = (known["global"] & parts) - known[region]
        elsewhere = parts - known[region] - everywhere
        counts = f"{len(known[region])} | {len(everywhere)} | {len(elsewhere)}"
        cells = (_format_part_cell(cloud, region, part, known[region]) for part in examples)
        lines.append(f"| {region} | {counts} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _format_part_cell(cloud: str, region: str, part: str, known: set[str]) -> str:
    """Return the price of a part in a region in USD per hour or month, and the region that stands for it."""
    hours = HOURS_PER_MONTH if data_file.find_part_period(cloud, region, part) == "month" else 1
    if part in known and (price := price_query.find_cloud_part_price(cloud, region, part)):
        return f"{price.usd_per_hour * hours:.4g}"
    estimate = regional_price.estimate_regional_price("part", cloud, region, part)
    if estimate is None:
        raise ValueError(f"{part} has neither a price in {region} of {cloud} nor one that stands for it")
    low, usd, high = (each * hours for each in (estimate.low, estimate.price.usd_per_hour, estimate.high))
    return f"{usd:.4g} as {estimate.price.region} ({low:.4g} to {high:.4g})"


def format_findings() -> str:
    """Return the table of what the checks found in the price lists."""
    lines = [
        "## What the checks found",
        "",
        "The checks of an import ran over the price lists until no finding was left. Prices with a finding are not",
        "embedded. The exception is a price level: more than ten types of a region have the same ratio to the median",
        "of all regions.",
        "",
        "| code | finding | cloud | prices | embedded |",
        "|---|---|---|---|---|",
    ]
    texts = {**CODES, LICENCE_INCLUDED: LICENCE_INCLUDED_TEXT}
    for row in snapshot.load_snapshot_findings():
        finding = f"| `{row['code']}` | {texts[row['code']]} | {row['cloud']}"
        lines.append(f"{finding} | {row['prices']} | {row['kept']} |")
    return "\n".join(lines)


def build_page() -> str:
    """Return the page."""
    sections = [
        HEAD.rstrip(),
        *map(format_coverage, CLOUDS),
        PART_HEAD.rstrip(),
        *map(format_part_coverage, CLOUDS),
        format_findings(),
    ]
    return "\n\n".join(sections) + "\n"


if __name__ == "__main__":
    print(build_page(), end="")
