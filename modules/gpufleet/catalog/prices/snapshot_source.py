"""What the snapshot's builder knows about its sources and about names of machines."""

from __future__ import annotations

import re

from gpufleet.catalog.prices.row import Kind
from gpufleet.errors import InputError

SOURCES = {  # a repository and file of the lists -> the name that the catalogue's rows use
    "aws/karpenter-provider-aws@1d927085d": "karpenter-aws@1d927085d",
    "Azure/karpenter-provider-azure@352646f5": "karpenter-azure@352646f5",
    "Cyclenerd/google-cloud-pricing-cost-calculator@fd66b26": "gcosts-pricing.yml@fd66b26",
    "andy-diericks/azure-pricing-radar@cf741f2": "azure-pricing-radar@cf741f2",
    "lamngockhuong/aws-price@508fb45": "AWS price list ec2;lamngockhuong/aws-price@508fb45",
    "cristim/ec2-instances-info@32acf84f42eb": "ec2instances.info-via-ec2-instances-info@32acf84",
}
PURCHASE_NOTES = {  # the same notes as in prices.csv
    ("instances.json", "spot"): "avg-of-AZ",
    ("instances.json", "reserved_1y"): "RI-standard-noUpfront",
    ("instances.json", "reserved_3y"): "RI-standard-noUpfront",
    ("rds-instances.json", "reserved_1y"): "RI-noUpfront",
    ("azure-instances.json", "reserved_1y"): "RI",
    ("azure-instances.json", "reserved_3y"): "RI",
    ("pricing.yml", "reserved_1y"): "CUD",
    ("pricing.yml", "reserved_3y"): "CUD",
}
# Series with GPUs, TPUs, FPGAs or other accelerators: machines.csv describes those that we have facts of.
ACCELERATED = {
    "aws": re.compile(r"(p\d|g\d|gr\d|trn\d|inf\d|dl\d|vt\d|f\d)[a-z]*(-[a-z0-9]+)?\."),
    "azure": re.compile(r"Standard_N"),
    "gcp": re.compile(r"(a\d|g\d|ct\d|tpu)[a-z]*-"),
}
ARM = {
    "aws": re.compile(r"(a1|[a-z]+\d+g[a-z]*|[a-z]+4gen|x2gd|im4gn|is4gen)(-[a-z0-9]+)?\."),
    "azure": re.compile(r"Standard_[A-Z]+\d+(-\d+)?[a-z]*p[a-z]*_v\d"),
    "gcp": re.compile(r"(t2a|c4a|n4a)-"),
}


_AZURE_PREFIXES = ("Standard_", "Basic_")
_AZURE_OTHER = re.compile(r"S\d+[a-z]*|D\d+s")  # SAP HANA on bare metal; old names that no API accepts


def normalize_machine_name(cloud: str, name: str) -> str | None:
    """Return a machine's name as the cloud's API spells it, None if it is not a machine type."""
    name = name.strip()
    if cloud != "azure" or name.startswith(_AZURE_PREFIXES):
        return name
    return None if _AZURE_OTHER.fullmatch(name) else f"Standard_{name}"


def describe_source(source: str, purchase: str, kind: Kind) -> str:
    """Return the catalogue's name of a source, with the file of parts and a note on the purchase."""
    repository, _, file = source.partition(":")
    if repository not in SOURCES:
        raise InputError(f"unknown source {source!r}", remedy="add it to snapshot_source.SOURCES")
    name = file.rpartition("/")[2]
    notes = [name.removesuffix(".json")] if kind == "part" and name.endswith(".json") else []
    notes += [note] if (note := PURCHASE_NOTES.get((name, purchase))) else []
    return ";".join([SOURCES[repository], *notes])


def has_accelerators(cloud: str, machine: str) -> bool:
    """Return whether a machine's series has accelerators, by the cloud's rule for names."""
    return ACCELERATED[cloud].match(machine) is not None


def find_architecture(cloud: str, machine: str) -> str:
    """Return x86_64 or arm64 by the cloud's rule for names."""
    return "arm64" if ARM[cloud].match(machine) else "x86_64"
