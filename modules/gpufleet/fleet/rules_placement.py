"""Rules on machine, region, zone, accelerators and fabric."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.document import SpecProblem
from gpufleet.fleet.image import CustomImage
from gpufleet.fleet.pool_request import describe_unattachable, list_machines_with
from gpufleet.fleet.rule import POOL_RULES
from gpufleet.fleet.spec import Pool

MAX_SINGLE_NODES = 64  # of a pool without a group; docs/decisions/0015


def find_pool_machine(pool: Pool) -> catalog.Machine | None:
    """Return the pool's machine; an unknown one is rule ``machine-known``'s business."""
    try:
        return catalog.get_machine(pool.machine, pool.cloud)
    except InputError:
        return None


SMALL_MACHINES = {"aws": "g4dn.xlarge", "gcp": "g2-standard-4", "azure": "Standard_NC4as_T4_v3"}


@POOL_RULES.register_rule(
    "machine-known",
    reason="a machine that is not in the catalogue cannot be priced or checked",
    source="catalog/data/machines.csv, catalog/data/retired.csv",
)
def check_machine_known(pool: Pool) -> Iterator[SpecProblem]:
    try:
        catalog.get_machine(pool.machine, pool.cloud)
    except InputError as error:
        if catalog.find_ordinary_machine(pool.machine, pool.cloud):
            remedy = f"choose a machine with one, such as {SMALL_MACHINES[pool.cloud]}"
            yield SpecProblem(("machine",), f"{pool.machine} has no accelerator", remedy)
        elif names := list_machines_with(pool.machine, pool.cloud):
            text = f"{pool.machine} is an accelerator, not a machine"
            yield SpecProblem(("machine",), text, f"choose a machine with it: {', '.join(names[:3])}")
        else:
            yield SpecProblem(("machine",), error.problem, error.remedy)


@POOL_RULES.register_rule(
    "region-known",
    reason="a region must be written as its cloud writes it",
    source="catalog/data/regions.csv",
)
def check_region_known(pool: Pool) -> Iterator[SpecProblem]:
    regions = catalog.list_accelerator_regions(pool.cloud)
    if pool.region in regions:
        return
    other_clouds = [
        cloud for cloud in catalog.CLOUDS if pool.region in catalog.list_accelerator_regions(cloud)
    ]
    close_names = get_close_matches(pool.region, regions, n=1)
    if other_clouds:
        remedy = f"it is a region of {other_clouds[0]}"
    else:
        remedy = f"did you mean {close_names[0]!r}?" if close_names else f"give a region like {regions[-1]}"
    yield SpecProblem(("region",), f"{pool.region!r} is not a known region of {pool.cloud}", remedy)


@POOL_RULES.register_rule(
    "zone-in-region",
    reason="a zone must belong to its region",
    source="zone names: AWS us-east-1a, GCP us-central1-a, Azure 1, 2, 3; catalog/data/zones.csv: vendors' lists of "
    "zones; ResourceTypeNotSupportAvailabilityZones (cluster-api-provider-azure #294), gcloudrig #75",
)
def check_zone_in_region(pool: Pool) -> Iterator[SpecProblem]:
    cloud, known = catalog.get_cloud(pool.cloud), catalog.list_zones(pool.cloud, pool.region)
    if not cloud.is_region_name(pool.region):
        return  # rule region-known refuses it
    for index, zone in enumerate(pool.zones):
        if known == ():
            text = f"{zone!r} is a zone, but {cloud.name} {pool.region} has none"
            yield SpecProblem(("zones", index), text, "remove zones, or choose a region that has them")
        elif not cloud.is_zone_name(zone, pool.region) or (known is not None and zone not in known):
            text = f"{zone!r} is not a zone of {cloud.name} {pool.region}"
            example = known[0] if known else cloud.example_zone_name(pool.region)
            yield SpecProblem(("zones", index), text, f"give a zone like {example!r}")
        elif zone in pool.zones[:index]:
            yield SpecProblem(("zones", index), f"{zone} is named twice", "remove it")


@POOL_RULES.register_rule(
    "accelerators-attach",
    reason="only GCP's general machines (n1) take accelerators; others bring their own",
    source="machines.csv, column attachable; machine_facts.csv, field accelerator_vcpus: Google, GPU machine types",
)
def check_accelerators_attachable(pool: Pool) -> Iterator[SpecProblem]:
    machine = find_pool_machine(pool)
    if machine is None or pool.accelerators is None:
        return
    request = pool.accelerators
    if not machine.attachable:
        text = f"accelerators cannot be attached to {machine.name}; it has its own ({_format_accelerators(machine)})"
        yield SpecProblem(("accelerators",), text, "remove accelerators")
    elif request.model not in machine.attachable:
        problem, remedy = describe_unattachable(request.model, machine)
        yield SpecProblem(("accelerators", "model"), problem, remedy)
    else:
        facts = catalog.get_machine_facts(machine.name, machine.cloud, request.model)
        counts = [str(count) for count in facts.accelerator_vcpus] if facts else []
        if counts and str(request.count) not in counts:
            text = f"is {request.count}"
            yield SpecProblem(
                ("accelerators", "count"), text, f"give {', '.join(counts[:-1])} or {counts[-1]}"
            )


@POOL_RULES.register_rule(
    "accelerators-missing",
    reason="an n1 machine has no accelerator of its own; a GPU pool without one is a mistake",
    source="catalog/data/machines.csv, column attachable",
)
def check_accelerators_present(pool: Pool) -> Iterator[SpecProblem]:
    machine = find_pool_machine(pool)
    if machine and machine.attachable and not machine.accelerators and pool.accelerators is None:
        text = f"accelerators are missing, and {machine.name} has none of its own"
        yield SpecProblem(("accelerators",), text, f"add {{model: {machine.attachable[0]}, count: 1}}")


@POOL_RULES.register_rule(
    "many-nodes-need-group",
    reason="each node that is a resource of its own makes every preview slower, and many are what groups are for",
    source="tests/benchmarks/bench_nodes.py: 1,000 nodes as single resources and as a group",
)
def check_many_nodes_are_a_group(pool: Pool) -> Iterator[SpecProblem]:
    count = pool.count
    if count.max > MAX_SINGLE_NODES and not (pool.group or count.is_elastic):
        text = f"count is {count.max}, but at most {MAX_SINGLE_NODES} nodes can be single resources"
        # Not by itself past some number: the step across it would replace every running node.
        yield SpecProblem(
            ("count",), text, "set group: true; nodes that run as single resources would be replaced"
        )


@POOL_RULES.register_rule(
    "image-of-cloud",
    reason="a pool boots an image that its cloud has for its machine",
    source="cloud/images.py; Azure, imageReference: no lookup by name",
)
def check_image_available(pool: Pool) -> Iterator[SpecProblem]:
    cloud, machine, image = catalog.get_cloud(pool.cloud), find_pool_machine(pool), pool.image
    if isinstance(image, CustomImage):
        yield from _check_custom_image(image, cloud)
        yield from _check_named_owner(image, cloud)
    elif image == "vendor" and machine is not None:
        has_image = bool(machine.accelerators) and machine.arch in cloud.vendor_image_architectures
        if not has_image:
            text = f"image is vendor, but {cloud.name} has no known image with drivers for {machine.name}"
            yield SpecProblem(("image",), text, "set auto or base")


def _check_custom_image(image: CustomImage, cloud: catalog.Cloud) -> Iterator[SpecProblem]:
    if image.id is not None and not re.fullmatch(cloud.image_id_pattern, image.id):
        text = f"{image.id!r} is not an image of {cloud.name}"
        yield SpecProblem(("image", "id"), text, f"give an image id like {cloud.image_id_example}")
    if image.name is not None and not cloud.has_images_by_name:
        yield SpecProblem(("image", "name"), f"{cloud.title} cannot find images by name", "give its id")
    if image.owner != "self" and (image.id is not None or not cloud.has_images_by_name):
        yield SpecProblem(("image", "owner"), "owner is only for images that are found by name", "remove it")


def _check_named_owner(image: CustomImage, cloud: catalog.Cloud) -> Iterator[SpecProblem]:
    """Yield an owner, or the name of an image family, that the cloud could not have."""
    if cloud.name == "aws" and not re.fullmatch(r"self|\d{12}|amazon|aws-marketplace", image.owner):
        yield SpecProblem(
            ("image", "owner"), f"{image.owner!r} is not an account of AWS", "give its 12 digits"
        )
    if cloud.name == "gcp" and not re.fullmatch(r"self|[a-z][a-z0-9-]{4,28}[a-z0-9]", image.owner):
        yield SpecProblem(("image", "owner"), f"{image.owner!r} is not a project of GCP", "give a project id")
    if cloud.name == "gcp" and image.name and not re.fullmatch(cloud.image_id_pattern, image.name):
        text = f"{image.name!r} is not an image family of GCP"
        yield SpecProblem(("image", "name"), text, "give lowercase letters, digits and hyphens")


def _format_accelerators(machine: catalog.Machine) -> str:
    return ", ".join(f"{item.count}x {item.model}" for item in machine.accelerators) or "none"
