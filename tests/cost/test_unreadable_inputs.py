"""Test that an input that is absent or unreadable takes nothing else along, for every type that has a pricer.

``cases/cost/pricers/examples.json`` has a program for each type. Every input of it, leaf or container, is garbled
and removed in turn; the bill is compared with that of the program as it is:

* **Garbled** (unknown until deployment, secret, of another kind, out of bounds, hostile text): the provider or the
  engine would refuse it, or it is not known yet. A charge that is smaller or gone needs a new line of its resource.
  If another value in the same place leaves the charge as it was, it is a neighbour, which does not depend on the
  input: the line must then be of the charge's own component or named after the input. So a line of a machine of
  unknown type does not excuse its disks.
* **Absent**: the provider has a default or refuses the program, and a bill that follows a default is smaller for a
  reason. What shrinks without a line is in ``absent.txt``, to be read when it changes (``--regenerate``).

Prices are of the items that the example asks for, one dollar each. A name with garbled text has no price, and any other
costs next to nothing, so that a default that is silently assumed for an unreadable value makes the bill smaller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from gpufleet.catalog import Price
from gpufleet.cost import PriceBook, price_resources
from gpufleet.cost.inputs.graph import strip_api_version
from gpufleet.cost.inputs.usage import ResourceUsage, UsageFile
from gpufleet.cost.inputs.usage.file import load_usage_keys
from gpufleet.cost.inputs.usage.model import UsageFileEntry
from gpufleet.cost.inputs.values import read_input
from gpufleet.cost.pricing.pricers import PRICERS
from gpufleet.engine import SECRET, UNKNOWN
from gpufleet.engine.state import parse_state_resource

FOLDER = Path(__file__).parents[1] / "cases" / "cost" / "pricers"
EXAMPLES = json.loads((FOLDER / "examples.json").read_text())
DAY = date(2026, 11, 1)
HOSTILE, ABSURD = "no-such-value\u202e\x1b[31m", 987654321987
GARBLED = {
    "unknown": UNKNOWN,
    "secret": SECRET,
    "hostile text": HOSTILE,
    "a mapping": {HOSTILE: HOSTILE},
    "negative": -ABSURD,
    "huge": Decimal(ABSURD) ** 9,
}
ABSENT = ("missing", "empty")
TRACE = re.compile("nosuchvalue|987654321987|e107")  # of a garbled value in a name of letters and digits
USAGE = ResourceUsage(
    egress_gib=Decimal(1000),
    processed_gib=Decimal(1000),
    load_balancer_units=Decimal(10),
    amounts=dict.fromkeys(load_usage_keys(), Decimal(1000)),
)
ALL_AMOUNTS = UsageFile("usage.yaml", types=(UsageFileEntry("*", USAGE, 1),))
# Words that anybody may choose, and names by which a resource is found: another text means another thing.
FREE_WORDS = {
    "accountName", "amiType", "capacityProvider", "clusterIdentifier", "image", "imageId", "imageType", "kind",
    "loadbalancerId", "name", "namespace", "publisher", "secret", "sourceImage", "target",
}  # fmt: skip
IDENTITIES = {
    "accountName",
    "clusterIdentifier",
    "family",
    "name",
}  # of a resource that another one refers to
# Types that have a line instead of a price, whatever their inputs are.
ALWAYS_LISTED = {
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
    "aws:ec2/dedicatedHost:DedicatedHost",
    "aws:eks/fargateProfile:FargateProfile",
    "gcp:compute/regionResizeRequest:RegionResizeRequest",
    "gcp:compute/resizeRequest:ResizeRequest",
    "kubernetes:core/v1:PersistentVolume",
    "kubernetes:helm.sh/v3:Release",
}


class _Prices:
    """A dollar for what an example asks for; next to nothing for another name, nothing for a garbled one."""

    def __init__(self):
        self.asked, self.is_open = set(), True
        self.book = PriceBook(self.find, self.find)

    def find(self, cloud, region, item, purchase):
        if self.is_open:
            self.asked.add((region, item))
        if (
            not region
            or "" in item.split(":")
            or TRACE.search(re.sub("[^a-z0-9]", "", f"{region} {item}".lower()))
        ):
            return None
        usd = (1.0 if purchase == "on_demand" else 0.6) if (region, item) in self.asked else 1e-6
        return Price(usd, "unit", "2026-07-06", "written by hand", "high", region, purchase)


def read_example(type_):
    return [parse_state_resource(record) for record in EXAMPLES[type_]]


def price(resources, prices):
    return price_resources(resources, prices.book, usage=ALL_AMOUNTS, on_date=DAY)


def list_paths(value, path=()) -> Iterator[tuple]:
    """Yield the path of every container and leaf in inputs."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, each in entries:
        yield (*path, key)
        yield from list_paths(each, (*path, key))


def with_value(container, path, how):
    """Return a copy with the value at a path garbled or absent; None where that would be no change of this kind."""
    key, *rest = path
    copy = dict(container) if isinstance(container, dict) else list(container)
    if rest:
        changed = with_value(copy[key], rest, how)
        if changed is None:
            return None
        copy[key] = changed
    elif how in GARBLED:
        if not can_garble(key, copy[key], how):
            return None
        copy[key] = GARBLED[how]
    elif how == "missing":
        del copy[key]
    elif copy[key] and isinstance(copy[key], (dict, list)):
        copy[key] = type(copy[key])()
    else:
        return None
    return copy


def can_garble(name, value, how):
    """Return whether a value is unreadable that way: a mapping in place of containers is only another one."""
    if how == "a mapping":
        return not isinstance(value, (dict, list))
    if how == "hostile text" and name in FREE_WORDS:
        return False
    is_number = not isinstance(value, bool) and re.fullmatch(r"\d+", str(value))
    if how == "secret":  # as unknown as what is unknown: of leaves only, to save time
        return not isinstance(value, (dict, list))
    return how not in {"negative", "huge"} or bool(is_number)


def list_variants(resource, path, kinds):
    """Yield how an input of a resource is changed, and the resource with the change."""
    for how in kinds:
        inputs = with_value(resource.inputs, path, how)
        if inputs is not None:
            yield how, replace(resource, inputs=inputs)


@cache
def charged(bill):
    """Return the charge of each component of each resource."""
    charges = {}
    for charge in bill.charges:
        charges.setdefault(charge.urn, {})[charge.component] = charge
    return charges


def is_part_of(name, other):
    return name == other or name.startswith(f"{other}:") or other.startswith(f"{name}:")


def list_shrunk(before, after):
    """Return the charges that a change makes smaller or takes away, of resources that cost less in all."""
    return {
        (urn, name)
        for urn, old in charged(before).items()
        if total(charged(after).get(urn, {})) < total(old)
        for name, charge in old.items()
        if not (now := charged(after).get(urn, {}).get(name))
        or now.usd_per_month.expected < charge.usd_per_month.expected
    }


def list_unexplained(before, after, resource, path, always_shrunk, *, is_word):
    """Return the charges that are smaller without a new line that says why.

    ``always_shrunk`` are those that every value in place of the input makes smaller. ``is_word``: a text is in place of
    another one, so it is read, as the name of something that is not there.
    """
    old_lines = {(line.urn, line.component, line.reason) for line in before.unpriced_resources}
    lines = [
        line for line in after.unpriced_resources if (line.urn, line.component, line.reason) not in old_lines
    ]
    unexplained = []
    for urn, name in sorted(list_shrunk(before, after)):
        explaining = {line.component for line in lines if line.urn in (urn, resource.urn)}
        now, charge = charged(after).get(urn, {}).get(name), charged(before)[urn][name]
        if now and now.note not in ("", charge.note):
            continue
        if explaining and ((urn, name) in always_shrunk or is_word):
            continue
        if not any(not each or is_part_of(name, each) or each in path for each in explaining):
            unexplained.append(name)
    return unexplained


def total(charges):
    return sum((each.usd_per_month.expected for each in charges.values()), Decimal(0))


def examine(type_, kinds):
    """Return what each change of a kind makes smaller without a line: type, input, kind and components."""
    resources, prices = read_example(type_), _Prices()
    before = price(resources, prices)
    prices.is_open = False
    found = []
    for index, resource in enumerate(resources):
        for path in list_paths(resource.inputs):
            if path[-1] in IDENTITIES and len(resources) > 1:
                continue
            bills = {
                how: price([*resources[:index], changed, *resources[index + 1 :]], prices)
                for how, changed in list_variants(resource, path, kinds)
            }
            always_shrunk = set.intersection(*(list_shrunk(before, after) for after in bills.values()))
            for how, after in bills.items():
                is_word = how == "hostile text" and isinstance(read_input(resource.inputs, *path), str)
                names = list_unexplained(before, after, resource, path, always_shrunk, is_word=is_word)
                if names:
                    where = ".".join(map(str, path))
                    found.append((strip_api_version(resource.type), where, how, tuple(names)))
    return found


def test_every_type_with_a_pricer_has_an_example():
    assert set(EXAMPLES) == set(PRICERS)
    without = [
        type_
        for type_ in EXAMPLES
        if type_ not in {strip_api_version(resource.type) for resource in read_example(type_)}
    ]
    assert without == []


@pytest.mark.parametrize("type_", EXAMPLES)
def test_every_example_has_a_price(type_):
    bill = price(read_example(type_), _Prices())
    urns = {each.urn for each in read_example(type_) if strip_api_version(each.type) == type_}
    if type_ in ALWAYS_LISTED:
        assert {line.urn for line in bill.unpriced_resources} >= urns
    else:
        assert {charge.urn for charge in bill.charges if charge.usd_per_month.expected > 0} >= urns


@pytest.mark.parametrize("type_", EXAMPLES)
def test_garbled_input_makes_nothing_cheaper_without_a_line(type_):
    assert examine(type_, GARBLED) == []


def test_absent_inputs_that_make_something_cheaper_are_known(golden):
    found = {}
    for type_ in EXAMPLES:
        for own, where, _, names in examine(type_, ABSENT):
            components = {re.sub("(?<=[a-z:])[0-9]+", "", name) for name in names}
            found.setdefault(f"{own} {re.sub('[.][0-9]+', '', where)}", set()).update(components)
    lines = [f"{key}: {', '.join(sorted(names))}" for key, names in sorted(found.items())]
    golden(FOLDER / "absent.txt", "\n".join(lines) + "\n")


MACHINES = {
    "aws:ec2/instance:Instance": ("instanceType",),
    "aws:ec2/spotFleetRequest:SpotFleetRequest": ("launchSpecifications", 0, "instanceType"),
    "azure-native:azurefleet:Fleet": ("vmSizesProfile", 0, "name"),
    "azure-native:compute:VirtualMachine": ("hardwareProfile", "vmSize"),
    "azure-native:compute:VirtualMachineScaleSet": ("sku", "name"),
    "azure-native:containerservice:AgentPool": ("vmSize",),
    "gcp:compute/instance:Instance": ("machineType",),
    "gcp:dataproc/cluster:Cluster": ("clusterConfig", "workerConfig", "machineType"),
    "gcp:vertex/aiDeploymentResourcePool:AiDeploymentResourcePool": (
        "dedicatedResources", "machineSpec", "machineType",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", ["unknown", "secret", "missing"])
@pytest.mark.parametrize("type_", MACHINES)
def test_parts_of_a_machine_of_unknown_type_are_priced_or_listed(type_, how):
    """Test the parts by name: none is lost, and what a part's price does not depend on is priced."""
    resources, prices = read_example(type_), _Prices()
    before = price(resources, prices)
    *others, resource = resources
    (changed,) = (each for _, each in list_variants(resource, MACHINES[type_], [how]))
    after = price([*others, changed], prices)
    names = {line.component for line in after.unpriced_resources if line.urn == resource.urn}
    names |= set(charged(after)[resource.urn])
    lost = {name for name in charged(before)[resource.urn] if name not in names}
    assert {name for name in lost if not any(is_part_of(name, each) for each in names)} == set()
    if how != "missing" or type_ != "gcp:dataproc/cluster:Cluster":  # Dataproc has a default
        assert any("machine" in name for name in names - set(charged(after)[resource.urn]))
    disks = {name for name in charged(before)[resource.urn] if name.partition(":")[0] == "disk"}
    assert disks - {"disk:os", "disk:worker"} <= set(charged(after)[resource.urn])
