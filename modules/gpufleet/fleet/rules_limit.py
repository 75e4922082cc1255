"""Rules on how much a cloud takes: sizes and numbers of disks, sizes of groups, keys, networks, names.

The bounds are rows of ``catalog/data/limits.csv``; each rule says what is measured. A bound that no row states refuses
nothing.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator

from gpufleet import catalog
from gpufleet.fleet.application import ApplicationVolume
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.host_name import pool_node_name_prefix
from gpufleet.fleet.image import CustomImage
from gpufleet.fleet.pool_facts import find_pool_facts
from gpufleet.fleet.rule import FLEET_RULES, POOL_RULES, SPEC_RULES
from gpufleet.fleet.rules_placement import find_pool_machine
from gpufleet.fleet.spec import Fleet, FleetSpec, Pool
from gpufleet.fleet.template import STEPS

DISK_KINDS = {"aws": "gp3", "gcp": "pd-balanced", "azure": "Premium_LRS"}  # of a boot disk, and of volumes
AZURE_KEY_TYPES = ("ssh-rsa", "ssh-ed25519")
AZURE_RSA_BITS = 2048
GROUP_SUFFIX = 5  # characters that Google's groups add to the names of their nodes


def _check_limit(cloud: str, name: str, value: float, path: KeyPath, what: str) -> Iterator[SpecProblem]:
    limit = catalog.find_limit(cloud, name)
    if limit is not None and not limit.allows(value):
        text = f"{what} is {value:,}, but {catalog.get_cloud(cloud).title} takes {limit.text}"
        yield SpecProblem(path, text, f"give {limit.text}")


def _list_volumes(spec: FleetSpec, pool: Pool) -> tuple[ApplicationVolume, ...]:
    """Return the volumes that are disks of the cloud; none where the template's steps do not exist."""
    template = spec.templates.get(pool.template or "")
    named = {step: getattr(spec, key) for step, key in STEPS.items()}
    if template is None or any(
        isinstance(name := getattr(template, step), str) and name not in named[step] for step in STEPS
    ):
        return ()  # rules template-exists, profile-exists
    volumes = template.resolve_steps(named).application.volumes
    return tuple(volume for volume in volumes if volume.kind == "ssd")


def _find_disk_kind(pool: Pool) -> str:
    """Return the kind of a pool's disks: the cloud's own, or the first that the machine boots from."""
    facts, usual = find_pool_facts(pool), DISK_KINDS.get(pool.cloud, "")
    kinds = facts.boot_disk_kinds if facts else ()
    return usual if not kinds or usual in kinds else kinds[0]


@POOL_RULES.register_rule(
    "boot-disk-size",
    reason="a boot disk holds at least its image, and at most what the cloud boots from",
    source="catalog/data/limits.csv, vendor_image_gib, boot_disk_gib: InvalidBlockDeviceMapping (NVIDIA/ngc-examples "
    "#3), OperationNotAllowed (skypilot-org/skypilot #2007), 0 - 4095 (terraform-provider-azurerm #20850)",
)
def check_boot_disk_size(pool: Pool) -> Iterator[SpecProblem]:
    path, size, facts = ("disk", "size_gib"), pool.disk.size_gib, find_pool_facts(pool)
    yield from _check_limit(pool.cloud, "boot_disk_gib", size, path, "the boot disk")
    if isinstance(pool.image, CustomImage):
        what = f"the boot disk of an image of {pool.image.owner}"
        yield from _check_limit(pool.cloud, f"{pool.image.owner}_gib", size, path, what)
    machine = find_pool_machine(pool)
    has_vendor_image = pool.image == "vendor" or (
        pool.image == "auto"
        and (pool.cloud == "aws" or bool(facts and facts.image))
        and not (facts and facts.gpu_module == "proprietary")
    )
    if has_vendor_image and machine and machine.accelerators:
        yield from _check_limit(
            pool.cloud, "vendor_image_gib", size, path, "the boot disk of an image with drivers"
        )


@SPEC_RULES.register_rule(
    "volume-size",
    reason="a cloud's disks have a smallest and a largest size",
    source="catalog/data/limits.csv, by kind of disk, and disks_gib: Google, resource.sizeGb; Azure, disks-types.md",
)
def check_volume_sizes(spec: FleetSpec) -> Iterator[SpecProblem]:
    for index, pool in enumerate(spec.pools):
        path, kind, volumes = ("pools", index, "template"), _find_disk_kind(pool), _list_volumes(spec, pool)
        for volume in volumes:
            what = f"volume {volume.name} ({kind}, in GiB)"
            yield from _check_limit(pool.cloud, f"{kind}_gib", volume.size_gib, path, what)
        total = pool.disk.size_gib + sum(volume.size_gib for volume in volumes)
        yield from _check_limit(pool.cloud, "disks_gib", total, path, "the sum of a node's disks in GiB")


@SPEC_RULES.register_rule(
    "volume-count",
    reason="a machine takes a limited number of disks",
    source="catalog/data/machine_facts.csv, field max_data_disks: EC2 MaximumEbsAttachments, Azure maxDataDiskCount; "
    "limits.csv, volume_letters; kubernetes-sigs/aws-ebs-csi-driver #1139",
)
def check_volume_count(spec: FleetSpec) -> Iterator[SpecProblem]:
    for index, pool in enumerate(spec.pools):
        facts, letters = find_pool_facts(pool), catalog.find_limit(pool.cloud, "volume_letters")
        bounds = [facts.max_data_disks if facts else None, letters.high if letters else None]
        limit = min((bound for bound in bounds if bound is not None), default=None)
        count = len(_list_volumes(spec, pool))
        if limit is not None and count > limit:
            text = f"the template has {count} volumes, but {pool.machine} takes {limit} besides its boot disk"
            yield SpecProblem(("pools", index, "template"), text, "use fewer volumes, or a larger machine")


@POOL_RULES.register_rule(
    "group-size",
    reason="a group of the cloud, and a Capacity Block, has a limited number of nodes",
    source="catalog/data/limits.csv: EC2, capacity-blocks.html; MicrosoftDocs, large scale sets: 600 with a custom "
    "image",
)
def check_group_size(pool: Pool) -> Iterator[SpecProblem]:
    if any(rung.kind == "capacity_block" for rung in pool.purchase.rungs):
        yield from _check_limit(
            pool.cloud, "block_nodes", pool.count.max, ("count",), "the count of a Capacity Block"
        )
    if isinstance(pool.image, CustomImage):
        yield from _check_limit(
            pool.cloud,
            "custom_image_group_nodes",
            pool.count.max,
            ("count",),
            "the count with a custom image",
        )


@SPEC_RULES.register_rule(
    "mtu-of-cloud",
    reason="packets larger than the cloud's network takes are dropped",
    source="catalog/data/limits.csv, mtu: Google, networks.mtu 1300 to 8896; EC2, network_mtu.html; Azure, VM MTU",
)
def check_mtu(spec: FleetSpec) -> Iterator[SpecProblem]:
    for index, pool in enumerate(spec.pools):
        template = spec.templates.get(pool.template or "")
        hardware = template.hardware if template else None
        if isinstance(hardware, str):
            hardware = spec.hardware_profiles.get(hardware)
        if hardware is not None and hardware.mtu is not None:
            path = ("pools", index, "template")
            yield from _check_limit(pool.cloud, "mtu", hardware.mtu, path, "the template's hardware.mtu")


@SPEC_RULES.register_rule(
    "user-data-size",
    reason="a node's first boot data, which has every SSH key, has a largest size",
    source="catalog/data/limits.csv, user_data_bytes: InvalidUserData.Malformed, "
    "github-aws-runners/terraform-aws-github-runner #3700; with SSH keys: kubermatic/machine-controller #1055",
)
def check_user_data_size(spec: FleetSpec) -> Iterator[SpecProblem]:
    size = sum(len(key.encode()) + len(', ""') for key in spec.ssh.authorized_keys)
    for cloud in dict.fromkeys(pool.cloud for pool in spec.pools):
        path = ("ssh", "authorized_keys")
        yield from _check_limit(cloud, "user_data_bytes", size, path, "the size of the keys in bytes")


@SPEC_RULES.register_rule(
    "key-type-of-cloud",
    reason="Azure takes RSA keys of at least 2,048 bits, and Ed25519 keys",
    source="MicrosoftDocs, create-ssh-keys-detailed.md; terraform-provider-azurerm #5605, Azure/azure-cli #9780",
)
def check_key_types(spec: FleetSpec) -> Iterator[SpecProblem]:
    if not any(pool.cloud == "azure" for pool in spec.pools):
        return
    for index, key in enumerate(spec.ssh.authorized_keys):
        kind, body = key.split()[:2]
        path = ("ssh", "authorized_keys", index)
        bits = 8 * len(base64.b64decode(body)) if kind == "ssh-rsa" else None
        if bits is not None and bits < AZURE_RSA_BITS:
            yield SpecProblem(path, f"the RSA key has less than {AZURE_RSA_BITS} bits", "make a longer key")
        elif kind not in AZURE_KEY_TYPES:
            text = f"{kind} keys do not work on Azure"
            yield SpecProblem(path, text, f"give {' or '.join(AZURE_KEY_TYPES)} keys")


@SPEC_RULES.register_rule(
    "networks-count",
    reason="each network is a rule of the nodes' security group, which has each once and a limited number",
    source="catalog/data/limits.csv, ssh_networks: RulesPerSecurityGroupLimitExceeded, aws-cloudfront-samples "
    "#53; InvalidPermission.Duplicate: EC2 API error codes",
)
def check_networks(spec: FleetSpec) -> Iterator[SpecProblem]:
    if not spec.pools:
        return
    networks = spec.ssh.allowed_cidrs
    for index, network in enumerate(networks):
        if network in networks[:index]:
            yield SpecProblem(("ssh", "allowed_cidrs", index), f"{network} is listed twice", "remove it")
    for cloud in dict.fromkeys(pool.cloud for pool in spec.pools):
        most = max(Counter(network.version for network in networks).values(), default=0)
        path = ("ssh", "allowed_cidrs")
        yield from _check_limit(cloud, "ssh_networks", most, path, "the number of networks")


@FLEET_RULES.register_rule(
    "name-length",
    reason="the names of nodes and of their disks have a largest length",
    source="catalog/data/limits.csv, node_name_characters: Google, RFC 1035 names; Azure, resource-name-rules.md",
)
def check_name_lengths(fleet: Fleet) -> Iterator[SpecProblem]:
    for index, pool in enumerate(fleet.pools):
        is_group = pool.group or pool.count.is_elastic or len(pool.purchase.rungs) > 1
        number = "-" + "x" * GROUP_SUFFIX if is_group else f"-{pool.count.max}"
        names = [pool_node_name_prefix(fleet.stack, pool.name) + number]
        if pool.cloud == "gcp" and not is_group:
            names += [f"{names[0]}-{volume.name}" for volume in _list_volumes(fleet, pool)]
        longest = max(names, key=len)
        what = f"the length of the name {longest}"
        path = ("pools", index, "name")
        yield from _check_limit(pool.cloud, "node_name_characters", len(longest), path, what)
