"""Test the docs' table of priced resource types: it is written from the registry of pricers.

After a new pricer: ``pytest tests/cost/test_type_table.py --regenerate``.
"""

from __future__ import annotations

from collections import Counter

import pytest

from gpufleet.cost.pricing.billing import load_free_resource_types
from gpufleet.cost.pricing.pricers import PRICERS

CLOUDS = {
    "AWS (`aws`)": ("aws:",),
    "AWS (`aws-native`)": ("aws-native:",),
    "Google Cloud (`gcp`)": ("gcp:",),
    "Azure (`azure-native`)": ("azure-native:",),
    "Azure, classic (`azure`)": ("azure:",),
    "Others": ("kubernetes:", "gpufleet:"),
}
HEAD = """# Priced resource types

This page lists the resource types that have a pricer. `tests/cost/test_type_table.py` writes it from the registry.
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


def list_types(prefixes):
    """Return the priced types of a cloud by service."""
    services = {}
    for type_ in sorted(PRICERS):
        if type_.startswith(prefixes):
            package, module, name = type_.split(":")
            services.setdefault(f"{package}:{module.split('/')[0]}", set()).add(name)
    return services


def render_table():
    free = Counter(pattern.split(":")[0] for pattern in load_free_resource_types())
    lines = ["| cloud | types with a pricer | free types |", "|---|---|---|"]
    for cloud, prefixes in CLOUDS.items():
        priced = sum(type_.startswith(prefixes) for type_ in PRICERS)
        packages = {prefix.rstrip(":") for prefix in prefixes}
        lines.append(f"| {cloud} | {priced} | {sum(free[each] for each in packages)} |")
    text = HEAD + "\n".join(lines) + "\n" + OTHERS
    for cloud, prefixes in CLOUDS.items():
        rows = [
            f"| `{service}` | {', '.join(sorted(names))} |" for service, names in list_types(prefixes).items()
        ]
        text += f"\n## {cloud}\n\n| service | types |\n|---|---|\n" + "\n".join(rows) + "\n"
    return text


def test_docs_list_every_priced_type(golden, repo_root):
    golden(repo_root / "docs" / "resource-types.md", render_table())


@pytest.mark.parametrize(("prefix", "least"), [("aws:", 150), ("gcp:", 30), ("azure", 50)])
def test_each_cloud_has_enough_priced_types(prefix, least):
    assert sum(type_.startswith(prefix) for type_ in PRICERS) >= least


def test_every_type_belongs_to_a_listed_cloud():
    known = tuple(prefix for prefixes in CLOUDS.values() for prefix in prefixes)
    assert [type_ for type_ in PRICERS if not type_.startswith(known)] == []
