"""Where a resource is, in the price list's spelling."""

from __future__ import annotations

import re

_AWS_ZONE = re.compile(r"^([a-z]{2}(?:-[a-z]+)+-\d)[a-z]$")
_GCP_ZONE = re.compile(r"^([a-z]+-[a-z]+\d+)-[a-z]$")


def aws_region_of_zone(zone: str) -> str:
    """Return the region of an AWS zone: us-east-1a is in us-east-1."""
    match = _AWS_ZONE.match(zone)
    return match.group(1) if match else zone


def gcp_region_of_zone(zone: str) -> str:
    """Return the region of a GCP zone, given by name or by URL: us-central1-a is in us-central1."""
    name = zone.rsplit("/", 1)[-1]
    match = _GCP_ZONE.match(name)
    return match.group(1) if match else name


def normalize_azure_location(location: str) -> str:
    """Return Azure's short spelling: "East US 2" is eastus2."""
    return re.sub(r"[^a-z0-9]", "", location.lower())
