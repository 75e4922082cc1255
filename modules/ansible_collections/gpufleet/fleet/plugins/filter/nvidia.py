# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The package sources, units and devices of NVIDIA's roles, from a driver plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import PlannedPackage

CUDA_KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"  # the keyring package brings it
KEY_ENDINGS = (".asc", ".pub", ".key")


class Source(TypedDict):
    """A repository and its key: the address of a file, or a keyring package in the repository's root."""

    name: str
    uri: str
    suite: str
    components: list[str]
    key_url: str
    key_file: str
    sha256: str
    keyring: str


def sources(repositories: Iterable[Mapping[str, Any]], *, keyring_file: str) -> list[Source]:
    """Return the repositories of a plan; ``keyring_file`` is the pattern of a keyring package's file name."""
    return [_source(repository, keyring_file) for repository in repositories]


def _source(repository: Mapping[str, Any], keyring_file: str) -> Source:
    key = repository.get("key_package") or ""
    is_address = key.startswith(("http://", "https://"))
    ending = ".asc" if key.endswith(KEY_ENDINGS) else ".gpg"
    downloaded = f"/usr/share/keyrings/gpufleet-{repository['name']}{ending}"
    packaged = CUDA_KEYRING if key else ""
    return {
        "name": repository["name"],
        "uri": repository["uri"],
        "suite": repository.get("suite") or "/",
        "components": repository.get("components", []),
        "key_url": key if is_address else "",
        "key_file": keyring_file.replace("{}", key) if key and not is_address else "",
        "sha256": repository.get("key_sha256") or "",
        "keyring": downloaded if is_address else packaged,
    }


def fabric_units(
    names: Iterable[str], *, packages: list[PlannedPackage], start: bool
) -> list[dict[str, Any]]:
    """Return the fabric manager's units, which restart when one of its packages changes."""
    restart_on = [package["name"] for package in packages]
    state = {"state": "started"} if start else {}
    return [{"name": name, "enabled": True, "restart_on": restart_on, **state} for name in names]


def devices(cards: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the PCI device id of every GPU, in the order of the plan's cards, which is that of their addresses."""
    return [card["pci"].rpartition(":")[2] for card in cards for _ in range(card["count"])]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nvidia_sources": sources, "nvidia_fabric_units": fabric_units, "nvidia_devices": devices}
