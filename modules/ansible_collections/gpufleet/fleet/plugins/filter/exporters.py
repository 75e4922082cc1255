# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which Prometheus exporters a host gets, from where, and their endpoints. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from ansible.errors import AnsibleFilterError
from ansible.plugins.filter.core import to_nice_yaml

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    HEADER,
    managed_file_text,
    read_not_applied_reasons,
    unit_dropin_files,
)

AUTO = "auto"
NAMES = ("node", "smart", "dcgm", "amd", "blade")
# DCGM's metapackage is not needed: the exporter's package depends on DCGM's library (NVIDIA's CUDA repository).
NVIDIA_PACKAGES = ("datacenter-gpu-manager-exporter",)
NVIDIA_REPOSITORY = "nvidia-cuda"
QUADLETS = "/etc/containers/systemd"
AMD_CONFIG = "/etc/metrics/config.json"
WEB_CONFIG = "/etc/gpufleet/exporter-web.yml"
NODE_ENVIRONMENT = "/etc/default/prometheus-node-exporter-gpufleet"

# The exporters' own ports: node_exporter, smartctl_exporter and dcgm-exporter (their READMEs), AMD's
# docs/installation/deb-package.rst, compute-blade-agent's default configuration. Read 2026-11-22.
PORTS = {"node": 9100, "smart": 9633, "dcgm": 9400, "amd": 5000, "blade": 9666}


class ExporterSettings(TypedDict):
    """The role's settings by their names without the prefix."""

    wanted: list[str]
    vendor: str
    engine: str
    has_nvidia_repository: bool
    has_blade_agent: bool
    repositories: list[dict[str, Any]]
    start_containers: bool
    listen_address: str
    ports: dict[str, int]
    images: dict[str, str]
    node_arguments: list[str]
    web_config: dict[str, Any]


class SystemExporters(TypedDict):
    """What an operating system has; see systems.yml."""

    exporters_system_packages: dict[str, list[str]]
    exporters_system_units: dict[str, list[str]]
    exporters_system_group: str


class ExporterEndpoint(TypedDict):
    """Where Prometheus finds an exporter of the host."""

    name: str
    port: int
    scheme: str


class WebConfigFile(TypedDict):
    """The web configuration, which only the exporters' group may read."""

    path: str
    content: str
    group: str


class ExporterPlan(TypedDict):
    """Everything that the role installs, and why something is missing."""

    repositories: list[dict[str, Any]]
    packages: list[str]
    files: list[FileEntry]
    units: list[UnitEntry]
    web_config: list[WebConfigFile]
    endpoints: list[ExporterEndpoint]
    not_applied: dict[str, str]


@dataclass(frozen=True)
class ContainerExporter:
    """An exporter as a container: its pinned image and what it may see of the host."""

    image: str
    arguments: str
    options: tuple[str, ...]


# As the exporters' READMEs run them. smartctl needs the disks themselves, so nothing less than privileged works.
CONTAINERS = {
    "node": ContainerExporter(
        "quay.io/prometheus/node-exporter:v1.11.1",
        "--path.rootfs=/host --web.listen-address={listen}",
        ("Network=host", "PodmanArgs=--pid=host", "Volume=/:/host:ro,rslave"),
    ),
    "smart": ContainerExporter(
        "quay.io/prometheuscommunity/smartctl-exporter:v0.14.0",
        "--web.listen-address={listen}",
        ("Network=host", "User=0", "PodmanArgs=--privileged", "Volume=/dev:/dev:ro"),
    ),
    "dcgm": ContainerExporter(
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.8.3",
        "-a {listen}",
        ("Network=host", "AddDevice=nvidia.com/gpu=all", "AddCapability=SYS_ADMIN"),
    ),
    "amd": ContainerExporter(
        "docker.io/rocm/device-metrics-exporter:v1.4.0",
        "",
        ("PublishPort={listen}:5000", "AddDevice=/dev/dri", "AddDevice=/dev/kfd"),
    ),
}


def plan_exporters(system_exporters: SystemExporters, *, settings: ExporterSettings) -> ExporterPlan:
    """Return the packages, files and units of the exporters that fit the host, with their endpoints.

    An unknown exporter is an AnsibleFilterError.
    """
    plan: ExporterPlan = {
        "repositories": [],
        "packages": [],
        "files": [],
        "units": [],
        "web_config": [],
        "endpoints": [],
        "not_applied": {},
    }
    for name in select_exporters(settings):
        packages = _find_packages(name, system_exporters, settings)
        if name == "blade":
            _add_blade(plan, settings)
        elif packages:
            _add_packages(plan, name, packages, system_exporters, settings)
        elif settings["engine"] == "podman":
            _add_container(plan, name, settings)
        else:
            plan["not_applied"][name] = _missing_source_reason(name, settings)
    return plan


def select_exporters(settings: ExporterSettings) -> list[str]:
    """Return the exporters of the host, ``auto`` resolved, each once and in the order of NAMES."""
    names = settings["wanted"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise AnsibleFilterError(
            f"exporters_wanted is {names!r:.60}: must be a list, such as [{AUTO}]; known: {', '.join((AUTO, *NAMES))}"
        )
    requested = set(names)
    unknown = sorted(requested - {AUTO, *NAMES})
    if unknown:
        raise AnsibleFilterError(
            f"exporters_wanted has {', '.join(unknown)}; known: {', '.join((AUTO, *NAMES))}"
        )
    if AUTO in requested:
        requested |= {"node", "smart"}
        requested |= {"nvidia": {"dcgm"}, "amd": {"amd"}}.get(settings["vendor"], set())
        requested |= {"blade"} if settings["has_blade_agent"] else set()
    return [name for name in NAMES if name in requested]


def has_nvidia_repository(repository_names: Iterable[str]) -> bool:
    """True if NVIDIA's CUDA repository is among the repositories of the driver plan."""
    return NVIDIA_REPOSITORY in repository_names


def _find_packages(name: str, system_exporters: SystemExporters, settings: ExporterSettings) -> list[str]:
    if name == "dcgm":
        return list(NVIDIA_PACKAGES) if settings["has_nvidia_repository"] else []
    # The package of AMD's exporter has no option for the address to listen on.
    if name == "amd" and (not settings["repositories"] or settings["listen_address"]):
        return []
    return list(system_exporters["exporters_system_packages"].get(name, []))


def _add_blade(plan: ExporterPlan, settings: ExporterSettings) -> None:
    if settings["has_blade_agent"]:
        plan["endpoints"].append(_endpoint("blade", settings, is_secured=False))
    else:
        plan["not_applied"]["blade"] = "the Compute Blade agent is not installed: give blade_agent_package"


def _add_packages(
    plan: ExporterPlan,
    name: str,
    packages: list[str],
    system_exporters: SystemExporters,
    settings: ExporterSettings,
) -> None:
    files = _configuration_files(name, settings)
    restart_on = [file["path"] for file in files if "content" in file] + packages
    plan["repositories"] += settings["repositories"] if name == "amd" else []
    plan["packages"] += packages
    plan["files"] += files
    plan["units"] += [
        {"name": unit, "enabled": True, "state": "started", "restart_on": restart_on}
        for unit in system_exporters["exporters_system_units"][name]
    ]
    has_web_config = bool(settings["web_config"]) and name != "amd"
    if files and has_web_config:
        text = HEADER + to_nice_yaml(settings["web_config"])
        group = system_exporters["exporters_system_group"]
        plan["web_config"] = [{"path": WEB_CONFIG, "content": text, "group": group}]
    if name != "smart":  # the node exporter publishes what its timers write
        plan["endpoints"].append(_endpoint(name, settings, is_secured=has_web_config))


def _configuration_files(name: str, settings: ExporterSettings) -> list[FileEntry]:
    """Return the files that tell a package's exporter where to listen, and which web configuration to read."""
    has_web_config = bool(settings["web_config"])
    if name == "node":
        arguments = [f"--web.listen-address={_listen(name, settings)}", *settings["node_arguments"]]
        arguments += [f"--web.config.file={WEB_CONFIG}"] * has_web_config
        # systemd reads this file after the package's own, which stays as it is.
        return [
            {"path": NODE_ENVIRONMENT, "content": managed_file_text([f'ARGS="{" ".join(arguments)}"'])},
            *unit_dropin_files(
                "prometheus-node-exporter.service", ["[Service]", f"EnvironmentFile={NODE_ENVIRONMENT}"]
            ),
        ]
    if name == "dcgm":
        lines = ["[Service]", f"Environment=DCGM_EXPORTER_LISTEN={_listen(name, settings)}"]
        lines += [f"Environment=DCGM_EXPORTER_WEB_CONFIG_FILE={WEB_CONFIG}"] * has_web_config
        return unit_dropin_files("nvidia-dcgm-exporter.service", lines)
    if name == "amd":
        # Its other keys, which fields to export, stay as the package or the operator wrote them.
        port = json.dumps({"ServerPort": _port(name, settings)})
        folder: FileEntry = {"path": AMD_CONFIG.rpartition("/")[0], "state": "directory"}
        container: FileEntry = {"path": f"{QUADLETS}/amd-exporter.container", "state": "absent"}
        return [folder, {"path": AMD_CONFIG, "state": "json", "content": port}, container]
    return []


def _add_container(plan: ExporterPlan, name: str, settings: ExporterSettings) -> None:
    container = CONTAINERS[name]
    listen = _listen(name, settings)
    arguments = container.arguments.format(listen=listen)
    lines = [
        "[Unit]",
        f"Description=Prometheus exporter {name}",
        "",
        "[Container]",
        f"Image={settings['images'].get(name, container.image)}",
        *(option.format(listen=listen.removeprefix(":")) for option in container.options),
        *([f"Exec={arguments}"] if arguments else []),
        "",
        "[Service]",
        "Restart=on-failure",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    unit = f"{name}-exporter"
    path = f"{QUADLETS}/{unit}.container"
    folder: FileEntry = {"path": QUADLETS, "state": "directory"}
    if folder not in plan["files"]:
        plan["files"].append(folder)
    plan["files"].append({"path": path, "content": managed_file_text(lines)})
    entry: UnitEntry = {"name": f"{unit}.service", "restart_on": [path]}
    if settings["start_containers"]:
        entry["state"] = "started"
    else:
        plan["not_applied"][name] = "installed and not started: a rehearsed host runs no containers"
    plan["units"].append(entry)
    plan["endpoints"].append(_endpoint(name, settings, is_secured=False))


def _missing_source_reason(name: str, settings: ExporterSettings) -> str:
    if name == "dcgm":
        return "no package without NVIDIA's CUDA repository (driver.origin: vendor), and no podman for a container"
    return f"no package of it for this system, and no podman for a container (engine: {settings['engine']})"


def _listen(name: str, settings: ExporterSettings) -> str:
    return f"{settings['listen_address']}:{_port(name, settings)}"


def _port(name: str, settings: ExporterSettings) -> int:
    return int(settings["ports"].get(name, PORTS[name]))


def _endpoint(name: str, settings: ExporterSettings, *, is_secured: bool) -> ExporterEndpoint:
    has_tls = is_secured and "tls_server_config" in settings["web_config"]
    return {"name": name, "port": _port(name, settings), "scheme": "https" if has_tls else "http"}


def list_answering_endpoints(queries: Mapping[str, Any]) -> list[ExporterEndpoint]:
    """Return the endpoints that answered, from the loop that asked them."""
    return [query["item"] for query in queries.get("results") or [] if _has_answered(query)]


def exporter_not_applied_reasons(
    queries: Mapping[str, Any], *, plan: ExporterPlan, applied: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the host does not have of its exporters, each with its reason."""
    silent = {
        query["item"][
            "name"
        ]: f"port {query['item']['port']} does not answer: {query.get('msg', 'no reason given')}"
        for query in queries.get("results") or []
        if query.get("failed") and query["item"]["name"] not in plan["not_applied"]
    }
    return {**read_not_applied_reasons(applied), **silent, **plan["not_applied"]}


def _has_answered(query: Mapping[str, Any]) -> bool:
    return not query.get("failed") and not query.get("skipped")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "exporter_plan": plan_exporters,
            "exporter_endpoints": list_answering_endpoints,
            "exporter_not_applied": exporter_not_applied_reasons,
            "has_nvidia_repository": has_nvidia_repository,
        }
