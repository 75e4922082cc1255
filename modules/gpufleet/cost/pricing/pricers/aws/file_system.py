"""File systems: EFS by what it stores, and FSx of four kinds by what is provisioned."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.formatting import format_number
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import UsageComponent
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UnreadableValue

INCLUDED_IOPS_PER_GIB = Decimal(3)  # of SSDs of OpenZFS, ONTAP and Windows file servers
DEFAULT_STORAGE = "ssd"
# The metadata IOPS that a Lustre file system under so many GiB has, which bill nothing. What bills is a range: pages of
# AWS say "above the default" and "the new metadata performance".
LUSTRE_METADATA_IOPS = {2400: 1500, 4800: 3000, 12000: 6000, 48000: 12000}
LUSTRE_DEFAULT_DEPLOYMENT = "SCRATCH_1"  # the provider's documentation of deploymentType
THROUGHPUT_MODES = ("bursting", "provisioned", "elastic")
SIZE = ("storageCapacity", "storage capacity")


@pricer("aws:efs/fileSystem:FileSystem")
def price_efs_file_system(system: Reader) -> Parts:
    """Yield what an EFS file system stores, and its provisioned throughput."""
    zone = "one_zone" if system.has("availabilityZoneName") else "standard"
    yield system.of("storage").used(f"efs:{zone}", "storage_gb", stored=True)
    moves = system.find_count("lifecyclePolicies")  # what cannot be read may move files
    yield system.of("storage:infrequent_access").used(
        f"efs:{zone}:infrequent_access", "infrequent_access_storage_gb", stored=True, listed=bool(moves)
    )
    for kind in ("read", "write"):
        key = f"monthly_infrequent_access_{kind}_gb"
        yield system.of(f"infrequent_access:{kind}").used(f"efs:infrequent_access:{kind}", key, listed=False)
    with system.of("throughput") as throughput:
        mode = throughput.find_choice("throughputMode", THROUGHPUT_MODES)
        if mode == "provisioned" or isinstance(mode, UnreadableValue):
            rate = throughput.number("provisionedThroughputInMibps", "provisioned throughput")
            yield throughput.part("efs:throughput", rate)


@pricer("aws:fsx/lustreFileSystem:LustreFileSystem")
def price_fsx_lustre(system: Reader) -> Parts:
    """Yield a Lustre file system: its storage at the price of its throughput per TiB."""
    with system.of("storage") as storage:
        deployment = storage.text("deploymentType", "deployment type", LUSTRE_DEFAULT_DEPLOYMENT)
        kind = storage.text("storageType", "storage type", DEFAULT_STORAGE)
        speed = storage.number("perUnitStorageThroughput", "throughput per TiB", 0)
        item = f"fsx_lustre:{deployment}:{kind}".lower()
        yield storage.part(f"{item}:{format_number(speed)}" if speed else item, storage.number(*SIZE))
    with system.of("metadata_iops") as metadata:
        if (
            metadata.text("metadataConfiguration.mode", "its metadata mode", "AUTOMATIC")
            == "USER_PROVISIONED"
        ):
            number = metadata.number("metadataConfiguration.iops", "its metadata IOPS")
            beyond = max(number - _count_default_metadata_iops(metadata.number(*SIZE)), Decimal(0))
            yield metadata.part("fsx_lustre:metadata_iops", Range.spanning(beyond, beyond, number))
    yield _make_backups(system, "fsx_lustre")


def _count_default_metadata_iops(gib: Decimal) -> Decimal:
    """Return the metadata IOPS that come with a size (AWS, LustreGuide, "File system metadata performance")."""
    for least_gib, iops in LUSTRE_METADATA_IOPS.items():
        if gib < least_gib:
            return Decimal(iops)
    return Decimal(12000) * (gib // 24000 + bool(gib % 24000))


@pricer("aws:fsx/windowsFileSystem:WindowsFileSystem")
def price_fsx_windows(system: Reader) -> Parts:
    """Yield a Windows file server."""
    return _list_provisioned(system, "fsx_windows", "SINGLE_AZ_1")


@pricer("aws:fsx/ontapFileSystem:OntapFileSystem")
def price_fsx_ontap(system: Reader) -> Parts:
    """Yield an ONTAP file system."""
    return _list_provisioned(system, "fsx_ontap", None)


@pricer("aws:fsx/openZfsFileSystem:OpenZfsFileSystem")
def price_fsx_openzfs(system: Reader) -> Parts:
    """Yield an OpenZFS file system."""
    return _list_provisioned(system, "fsx_openzfs", None)


def _list_provisioned(system: Reader, service: str, default: str | None) -> Parts:
    with system.of("storage") as storage:
        kind = storage.text("storageType", "storage type", DEFAULT_STORAGE).lower()
        yield storage.part(
            f"{service}:{_find_zones(storage, service, default)}:{kind}", storage.number(*SIZE)
        )
    with system.of("throughput") as throughput:
        item = f"{service}:{_find_zones(throughput, service, default)}:throughput"
        if throughput.has("throughputCapacityPerHaPair"):
            pairs = throughput.number("haPairs", "the number of server pairs", 1)
            rate = throughput.number("throughputCapacityPerHaPair", "throughput capacity")
        else:
            pairs, rate = Decimal(1), throughput.number("throughputCapacity", "throughput capacity")
        yield throughput.part(item, pairs, rate)
    with system.of("iops") as iops:
        if (
            iops.choice("diskIopsConfiguration.mode", ("AUTOMATIC", "USER_PROVISIONED"), "AUTOMATIC")
            != "AUTOMATIC"
        ):
            number = iops.number("diskIopsConfiguration.iops", "provisioned iops", 0)
            beyond = max(number - iops.number(*SIZE) * INCLUDED_IOPS_PER_GIB, Decimal(0))
            yield iops.part(f"{service}:{_find_zones(iops, service, default)}:iops", beyond)
    yield _make_backups(system, service)


def _find_zones(system: Reader, service: str, default: str | None) -> str:
    """Return a deployment type as price lists name it: ONTAP's second generation has prices of its own."""
    deployment = system.text("deploymentType", "deployment type", default)
    if not deployment.startswith(("MULTI_AZ", "SINGLE_AZ")):
        raise system.refuse(f"unknown deployment type {deployment}")
    zones = "multi_az" if deployment.startswith("MULTI_AZ") else "single_az"
    if "_HA_" in deployment:
        zones += "_ha"  # of OpenZFS: a standby in the same zone
    return f"{zones}_2" if service == "fsx_ontap" and deployment.endswith("_2") else zones


def _make_backups(system: Reader, service: str) -> UsageComponent | None:
    return system.of("backups").used(f"{service}:backup", "backup_storage_gb", stored=True, listed=False)
