"""Cloud TPUs: slices of chips, by the accelerator type or the topology.

Accelerator types of v2, v3, v4 and v5p count cores, two for each chip. Those of v5e and v6e count chips
(cloud.google.com/tpu/docs/v5p and /tpu/docs/v6e, read 2026-11-23).
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import prod

from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.gcp.machine import find_any_flag
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

DEFAULT_TYPE = "v2-8"  # of a TPU without a type
CORES_PER_CHIP = 2
VERSION_NAMES = {"V2": "v2", "V3": "v3", "V4": "v4", "V5LITE_POD": "v5e", "V5P": "v5p", "V6E": "v6e"}
VERSIONS_COUNTED_IN_CHIPS = ("v5e", "v6e")
_TYPE = re.compile(r"(v\d+[a-z]*)-(\d{1,6})\Z")
_TOPOLOGY = re.compile(r"\d{1,4}(?:x\d{1,4}){1,2}\Z")


@pricer("gcp:tpu/v2Vm:V2Vm")
def price_tpu_vm(tpu: Reader) -> Parts:
    """Yield the chips of one slice, and the external addresses of its hosts without a number."""
    with tpu.of("machine") as machine:
        yield _make_slice(machine)
    with tpu.of(ADDRESS) as address:
        if address.flag("networkConfig.enableExternalIps", "whether its hosts have external addresses"):
            raise address.refuse(
                "each of its hosts has an external address, and its type does not tell how many hosts there are"
            )


@pricer("gcp:tpu/v2QueuedResource:V2QueuedResource")
def price_queued_tpu(queued: Reader) -> Parts:
    """Yield the chips of the slices that a queued resource asks for, once it gets them."""
    with queued.of("machine") as machine:
        specs = machine.entries("tpu.nodeSpecs", "its nodes are")
        if not specs:
            raise machine.refuse("its nodes are not known until deployment")
        for index, spec in enumerate(specs):
            with spec.of(f"machine:{index}" if index else "machine") as part:
                yield _make_slice(part.inside("node"))


def _make_slice(tpu: Reader) -> CostComponent | None:
    version, chips = _find_version_and_chips(tpu)
    spot = find_any_flag(tpu, "schedulingConfig.spot", "schedulingConfig.preemptible")
    return tpu.bought(spot=spot).machines(f"tpu:{version}", size=Decimal(chips), is_part=True)


def _find_version_and_chips(tpu: Reader) -> tuple[str, int]:
    """Return the version of a slice and its number of chips."""
    accelerator_type = tpu.text("acceleratorType", "its accelerator type", DEFAULT_TYPE)
    name = tpu.text("acceleratorConfig.type", "its accelerator type", accelerator_type)
    topology = tpu.text("acceleratorConfig.topology", "its topology", "")
    if name in VERSION_NAMES and _TOPOLOGY.match(topology):
        return VERSION_NAMES[name], prod(map(int, topology.split("x")))
    match = _TYPE.match(name)
    if match is None:
        raise tpu.refuse(f"unknown TPU type {name}")
    version, count = match[1].replace("v5litepod", "v5e"), int(match[2])
    return version, count if version in VERSIONS_COUNTED_IN_CHIPS else max(count // CORES_PER_CHIP, 1)
