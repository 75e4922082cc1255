"""Rules on machine, region, zone, accelerators and fabric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.document import Problem
from gpufleet.fleet.image import OwnImage
from gpufleet.fleet.rule import pool_rule
from gpufleet.fleet.spec import Pool

ZONES = {
    "aws": (r"{region}[a-f]", "{region}a"),
    "gcp": (r"{region}-[a-f]", "{region}-a"),
    "azure": (r"[123]", "1"),
}
ATTACHABLE_COUNTS = (1, 2, 4)
OWN_IDS = {
    "aws": (r"ami-[0-9a-f]{8,17}", "ami-0123456789abcdef0"),
    "gcp": (r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "gpufleet-node-20261121-090000"),
    "azure": (
        r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/(images|galleries)/.+",
        "/subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/images/…",
    ),
}


def known_machine(pool: Pool) -> catalog.Machine | None:
    """Return the pool's machine; an unknown one is rule ``machine-known``'s business."""
    try:
        return catalog.machine(pool.machine, pool.cloud)
    except InputError:
        return None


@pool_rule(
    "machine-known",
    reason="what the catalogue does not know can be neither priced nor checked",
    source="catalog/data/machines.csv, catalog/data/retired.csv",
)
def machine_known(pool: Pool) -> Iterator[Problem]:
    try:
        catalog.machine(pool.machine, pool.cloud)
    except InputError as error:
        yield Problem(("machine",), error.problem, error.remedy)


@pool_rule(
    "region-known",
    reason="a region is spelt as its cloud spells it",
    source="catalog/data/regions.csv",
)
def region_known(pool: Pool) -> Iterator[Problem]:
    regions = catalog.regions(pool.cloud)
    if pool.region in regions:
        return
    others = [cloud for cloud in ZONES if pool.region in catalog.regions(cloud)]
    close = get_close_matches(pool.region, regions, n=1)
    if others:
        remedy = f"it is a region of {others[0]}"
    else:
        remedy = f"did you mean {close[0]!r}?" if close else f"give a region like {regions[-1]}"
    yield Problem(("region",), f"{pool.region!r} is no region of {pool.cloud} that we know", remedy)


@pool_rule(
    "zone-in-region",
    reason="a zone lies in its region",
    source="zone names: AWS us-east-1a, GCP us-central1-a, Azure 1, 2, 3",
)
def zone_in_region(pool: Pool) -> Iterator[Problem]:
    pattern, example = ZONES[pool.cloud]
    for index, zone in enumerate(pool.zones):
        if not re.fullmatch(pattern.format(region=re.escape(pool.region)), zone):
            text = f"{zone!r} is no zone of {pool.cloud} {pool.region}"
            yield Problem(("zones", index), text, f"give one like {example.format(region=pool.region)!r}")


@pool_rule(
    "accelerators-attach",
    reason="only GCP's general machines (n1) take accelerators; others bring their own",
    source="catalog/data/machines.csv, column attachable; counts: SkyPilot, its catalogue of GCP (T4: 1, 2, 4)",
)
def accelerators_attach(pool: Pool) -> Iterator[Problem]:
    machine = known_machine(pool)
    if machine is None or pool.accelerators is None:
        return
    wanted = pool.accelerators
    if not machine.attachable:
        text = f"{machine.name} takes no accelerators; it brings its own ({_carried(machine)})"
        yield Problem(("accelerators",), text, "remove accelerators")
    elif wanted.model not in machine.attachable:
        text = f"{machine.name} takes no {wanted.model}"
        yield Problem(("accelerators", "model"), text, f"give {' or '.join(machine.attachable)}")
    elif wanted.count not in ATTACHABLE_COUNTS:
        yield Problem(("accelerators", "count"), f"is {wanted.count}", "give 1, 2 or 4")


@pool_rule(
    "accelerators-missing",
    reason="an n1 machine has no accelerator of its own; a GPU pool without one is a mistake",
    source="catalog/data/machines.csv, column attachable",
)
def accelerators_missing(pool: Pool) -> Iterator[Problem]:
    machine = known_machine(pool)
    if machine and machine.attachable and not machine.accelerators and pool.accelerators is None:
        text = f"is missing, and {machine.name} has none of its own"
        yield Problem(("accelerators",), text, f"add {{model: {machine.attachable[0]}, count: 1}}")


@pool_rule(
    "fabric-of-machine",
    reason="EFA and InfiniBand exist only on the machines built with them",
    source="AWS DescribeInstanceTypes (EfaSupported) as moto 5.2.5 carries it; MicrosoftDocs nda100-v4-series.md",
)
def fabric_of_machine(pool: Pool) -> Iterator[Problem]:
    machine = known_machine(pool)
    if machine is None or pool.fabric in ("none", "auto") or pool.fabric == machine.fabric:
        return
    has = f"only {machine.fabric}" if machine.fabric else "no such fabric"
    remedy = (
        f"say {machine.fabric}, auto or none" if machine.fabric else "say none, or choose another machine"
    )
    yield Problem(("fabric",), f"is {pool.fabric!r}, but {machine.name} has {has}", remedy)


@pool_rule(
    "efa-one-zone",
    reason="EFA traffic does not leave its zone",
    source="AWS ParallelCluster guide, Elastic Fabric Adapter: not supported over different availability zones",
)
def efa_one_zone(pool: Pool) -> Iterator[Problem]:
    machine = known_machine(pool)
    uses = pool.fabric == "efa" or (pool.fabric == "auto" and machine and machine.fabric == "efa")
    if uses and len(pool.zones) > 1:
        yield Problem(("zones",), f"is {list(pool.zones)}, but EFA does not leave its zone", "name one zone")


@pool_rule(
    "image-of-cloud",
    reason="a pool boots an image that its cloud has for its machine",
    source="cloud/images.py; Azure, imageReference: no lookup by name",
)
def image_of_cloud(pool: Pool) -> Iterator[Problem]:
    machine, image = known_machine(pool), pool.image
    if isinstance(image, OwnImage):
        shape, example = OWN_IDS[pool.cloud]
        if image.id is not None and not re.fullmatch(shape, image.id):
            yield Problem(
                ("image", "id"), f"{image.id!r} is no image of {pool.cloud}", f"give one like {example}"
            )
        if image.name is not None and pool.cloud == "azure":
            yield Problem(("image", "name"), "Azure finds no image by name", "give its id")
        if image.owner != "self" and (pool.cloud == "azure" or image.id is not None):
            yield Problem(("image", "owner"), "is for images found by name", "remove it")
    elif image == "vendor" and machine is not None and not _has_vendor_image(pool, machine):
        text = f"is vendor, but {pool.cloud} has no image with drivers for {machine.name} that we know"
        yield Problem(("image",), text, "say auto or base")


def _has_vendor_image(pool: Pool, machine: catalog.Machine) -> bool:
    if pool.cloud == "aws":
        return bool(machine.accelerators) and machine.arch == "x86_64"
    return pool.cloud == "azure" and bool(machine.accelerators)


def _carried(machine: catalog.Machine) -> str:
    return ", ".join(f"{item.count}x {item.model}" for item in machine.accelerators) or "none"
