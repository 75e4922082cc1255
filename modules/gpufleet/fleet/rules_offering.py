"""Rules on where a machine is sold, at which price at least, and which image it boots.

An unknown offering refuses nothing; ``planning_note`` says that it was not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet import catalog
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.image import CustomImage
from gpufleet.fleet.pool_facts import find_pool_facts
from gpufleet.fleet.rule import POOL_RULES
from gpufleet.fleet.rules_placement import find_pool_machine
from gpufleet.fleet.rules_purchase import list_rungs_with_paths
from gpufleet.fleet.spec import Pool

AZURE_PRICE_DECIMALS = 5
LARGEST_SPOT_DISCOUNT = 0.9  # AWS, Amazon EC2 Spot Instances; Microsoft, spot-vms.md: up to 90 %
# What an image's name says of itself, as words of it: the architecture, the system, Azure's hypervisor generation.
ARCHITECTURE_WORDS = {
    "arm64": "arm64", "aarch64": "arm64", "arm": "arm64", "graviton": "arm64",
    "amd64": "x86_64", "x86-64": "x86_64", "x64": "x86_64",
}  # fmt: skip
GENERATION_WORDS = {"gen1": "1", "gen2": "2"}
# Microsoft, error-reserved-resource-name.md: nowhere in a name; its other words only as the whole or at the start.
RESERVED_WORDS = ("microsoft", "windows")


@POOL_RULES.register_rule(
    "machine-in-region",
    reason="a machine must be sold in the region of its pool",
    source="catalog/data/offered.csv: AWS DescribeInstanceTypeOfferings, Google's machine types by region, Azure's "
    "Retail Prices API; machine_facts.csv, field zones, for cards that a pool attaches; each with source and date",
)
def check_machine_in_region(pool: Pool) -> Iterator[SpecProblem]:
    if pool.region not in catalog.list_accelerator_regions(pool.cloud):
        return  # rule region-known
    card = pool.accelerators.model if pool.accelerators else None
    places: list[tuple[KeyPath, str]] = [(("region",), pool.machine)]
    for path, rung in list_rungs_with_paths(pool):
        places += [((*path, "machines", index), name) for index, name in enumerate(rung.machines)]
    for path, machine in places:
        if catalog.is_sold_in(pool.cloud, machine, pool.region, card) is not False:
            continue
        if offering := catalog.find_offering(pool.cloud, machine, card):
            what = f"{card} on {machine}" if card else machine
            text = f"{what} is not sold in {pool.region} (as of {offering.as_of})"
            yield SpecProblem(path, text, f"it is sold in {', '.join(sorted(offering.regions))}")


@POOL_RULES.register_rule(
    "spot-cap-known-price",
    reason="a spot price cap below every price that is known of the machine buys nothing",
    source="SpotMaxPriceTooLow: aws/aws-parallelcluster-node #415, hashicorp/packer #7808; Azure, spot-vms.md: the cap "
    "must be over the current price, with at most five decimals; tools/price_lists/prices.csv, purchase spot",
)
def check_spot_cap_above_known_price(pool: Pool) -> Iterator[SpecProblem]:
    for path, rung in list_rungs_with_paths(pool):
        cap = rung.max_usd_per_hour
        if cap is None or not catalog.get_cloud(pool.cloud).has_spot_price_cap:
            continue  # rule spot-price-cap
        where = (*path, "max_usd_per_hour")
        lowest = catalog.find_lowest_price(pool.cloud, pool.machine, "spot")
        on_demand = catalog.find_lowest_price(pool.cloud, pool.machine, "on_demand")
        if pool.cloud == "azure" and round(cap, AZURE_PRICE_DECIMALS) != cap:
            yield SpecProblem(where, f"is {cap}, but Azure takes five decimals", f"give {cap:.5f}")
        elif lowest and cap < lowest.usd_per_hour:
            known = f"{lowest.usd_per_hour:g} in {lowest.region}, {lowest.as_of or 'undated'}"
            text = f"is {cap:g}, below every known spot price of {pool.machine} ({known})"
            yield SpecProblem(where, text, f"give at least {lowest.usd_per_hour:g}, or remove it")
        elif on_demand and cap < (1 - LARGEST_SPOT_DISCOUNT) * on_demand.usd_per_hour:
            text = f"is {cap:g}, but spot is at most {LARGEST_SPOT_DISCOUNT:.0%} cheaper than on demand"
            least = (1 - LARGEST_SPOT_DISCOUNT) * on_demand.usd_per_hour
            yield SpecProblem(where, text, f"give at least {least:.4g}, or remove it")


@POOL_RULES.register_rule(
    "image-fits-machine",
    reason="an image must be of the machine's architecture and hypervisor generation, and of Linux",
    source="AWS, RunInstances InvalidParameterValue: skypilot-org/skypilot #6315; Azure BadRequest, cannot boot "
    "Hypervisor Generation '1': loft-sh/devpod #731; machine_facts.csv, field image_generations",
)
def check_image_fits_machine(pool: Pool) -> Iterator[SpecProblem]:
    machine, facts, image = find_pool_machine(pool), find_pool_facts(pool), pool.image
    if machine is None or not isinstance(image, CustomImage):
        return
    path: KeyPath = ("image", "id" if image.id else "name")
    # Of Azure's ids, what follows the resource group, which may be named after anything.
    name = str(image.id or image.name).lower().rpartition("microsoft.compute/")[2].replace("_", "-")
    for word, arch in ARCHITECTURE_WORDS.items():
        if _has_word(name, word) and arch != machine.arch:
            text = f"the image is for {arch}, but {machine.name} is {machine.arch}"
            yield SpecProblem(path, text, "name another image")
            break
    if re.search(r"(?<![a-z0-9])windows", name):
        yield SpecProblem(path, "the image is Windows, and nodes run Linux", "name another image")
    allowed = facts.image_generations if facts else ()
    for word, generation in GENERATION_WORDS.items():
        if _has_word(name, word) and allowed and generation not in allowed:
            text = f"the image is of generation {generation}, which {machine.name} cannot boot"
            yield SpecProblem(path, text, f"name an image of generation {' or '.join(allowed)}")


def _has_word(name: str, word: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){word}(?![a-z0-9])", name) is not None


@POOL_RULES.register_rule(
    "reserved-word",
    reason="Azure refuses names of resources that contain its own marks",
    source="Microsoft, error-reserved-resource-name.md: ReservedResourceName, of a virtual machine in "
    "Azure/azure-quickstart-templates #2894; Azure/azure-dev #7745",
)
def check_name_has_no_reserved_word(pool: Pool) -> Iterator[SpecProblem]:
    for word in RESERVED_WORDS:
        if pool.cloud == "azure" and word in pool.name:
            text = f"{pool.name!r} contains {word!r}, which Azure reserves"
            yield SpecProblem(("name",), text, "choose another name")
