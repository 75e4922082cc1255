"""Write docs/resource-types.md from the registry of pricers: `python -m tools.type_page` (a test says when)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gpufleet.cost.pricing.billing import load_free_resource_types
from gpufleet.cost.pricing.pricers import PRICERS

PAGE = Path(__file__).parents[1] / "docs/resource-types.md"
CLOUDS = {
    "AWS (`aws`)": ("aws:",),
    "AWS (`aws-native`)": ("aws-native:",),
    "Google Cloud (`gcp`)": ("gcp:",),
    "Azure (`azure-native`)": ("azure-native:",),
    "Azure, classic (`azure`)": ("azure:",),
    "Others": ("kubernetes:", "gpufleet:"),
}
HEAD = """# Priced resource types

This page lists the resource types that have a pricer. `python -m tools.type_page` writes it from the registry.
A type bills by its inputs, or by use: [the usage file](cost-other-programs.md#the-usage-file) has the amounts, and
`modules/gpufleet/cost/data/usage_keys.csv` has their keys. A pricer is not a price: where the catalogue has no price
for a part in a region, the part is listed with its name. `gpufleet prices refresh` or an import can add the price.
Types of `modules/gpufleet/cost/data/free_types.csv` bill nothing. Any other type is listed as unknown.

"""
OTHERS = """
Published lists of others, each counted in its own unit:

| tool | AWS | Google Cloud | Azure | source |
|---|---|---|---|---|
| Infracost | 122 | 56 | 170 | entries of `registry.go` in infracost/infracost@95ba4f49a, Terraform types |
| FinFocus | 3 | - | - | "fully supported" in rshade/finfocus-plugin-aws-public@041c2263: EC2, EBS, Lambda |

Infracost's entries contain some that are always free. Later versions of FinFocus may have more.
"""


def format_page(priced_types: Iterable[str], free_types: Iterable[str]) -> str:
    """Return the page; ``free_types`` are patterns."""
    priced = sorted(priced_types)
    free = Counter(pattern.split(":")[0] for pattern in free_types)
    lines = ["| cloud | types with a pricer | free types |", "|---|---|---|"]
    for cloud, prefixes in CLOUDS.items():
        count = sum(type_.startswith(prefixes) for type_ in priced)
        packages = {prefix.rstrip(":") for prefix in prefixes}
        lines.append(f"| {cloud} | {count} | {sum(free[each] for each in packages)} |")
    text = HEAD + "\n".join(lines) + "\n" + OTHERS
    for cloud, prefixes in CLOUDS.items():
        services = _group_by_service(type_ for type_ in priced if type_.startswith(prefixes))
        rows = [f"| `{service}` | {', '.join(sorted(names))} |" for service, names in services.items()]
        text += f"\n## {cloud}\n\n| service | types |\n|---|---|\n" + "\n".join(rows) + "\n"
    return text


def _group_by_service(types: Iterable[str]) -> dict[str, set[str]]:
    services: dict[str, set[str]] = {}
    for type_ in types:
        package, module, name = type_.split(":")
        services.setdefault(f"{package}:{module.split('/')[0]}", set()).add(name)
    return services


if __name__ == "__main__":
    PAGE.write_text(format_page(PRICERS, load_free_resource_types()), encoding="utf-8")
