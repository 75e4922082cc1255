"""Package repositories of a plan: address, signing key with its fingerprints, priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.drivers.data_file import load_repository_keys
from gpufleet.drivers.driver_plan import PackageRepository, RepositoryKey, RepositoryPin
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.rule import build_refusal_error

REPOSITORY_FOLDERS = {"aarch64": "sbsa"}  # NVIDIA's folder of arm64 servers


def build_package_repository(
    host: HostPlanContext, entry: Mapping[str, Any], **values: str
) -> PackageRepository:
    """Return a repository of ``systems.yaml``; raise PlanRefusedError if its key's fingerprint is not known."""
    uri = str(entry["uri"]).format(arch=REPOSITORY_FOLDERS.get(host.facts.arch, host.facts.arch), **values)
    signing_key = load_repository_keys()[entry["key"]]
    url = signing_key.url.format(uri=uri)
    fingerprints = host.requested.repository_keys.get(entry["name"]) or signing_key.fingerprints
    if not fingerprints:
        raise build_refusal_error("repository.key_unconfirmed", name=entry["name"], url=url)
    pin = entry.get("pin")
    return PackageRepository(
        entry["name"],
        uri,
        entry["suite"],
        tuple(entry["components"]),
        RepositoryKey(url, fingerprints),
        RepositoryPin(pin["packages"], pin["release"], pin["priority"]) if pin else None,
        entry.get("priority"),
    )
