"""Rules on templates by themselves: profiles that exist, and applications that can run as written."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from gpufleet.fleet.application import SECRET_NAMES, Application, Container
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.rule import SPEC_RULES
from gpufleet.fleet.spec import FleetSpec
from gpufleet.fleet.template import STEPS, Blueprint, NodeTemplate

SSH_PORT = 22


def list_complete_templates(spec: FleetSpec) -> Iterator[tuple[str, NodeTemplate, Blueprint]]:
    """Yield the templates whose steps all exist; the others are rule ``profile-exists``'s business."""
    for name, template in spec.templates.items():
        step_values = ((getattr(template, step), getattr(spec, key)) for step, key in STEPS.items())
        if all(not isinstance(value, str) or value in known for value, known in step_values):
            yield name, template, spec.resolve_blueprint(name)


def template_step_path(name: str, template: NodeTemplate, step: str) -> KeyPath:
    """Return where the keys of a template's step stand in the file."""
    value = getattr(template, step)
    if isinstance(value, str):
        return (STEPS[step], value)
    return ("templates", name) if value is None else ("templates", name, step)


def list_applications_with_paths(spec: FleetSpec) -> Iterator[tuple[KeyPath, Application]]:
    """Yield every application once, with its place."""
    seen: set[KeyPath] = set()
    for name, application in spec.applications.items():
        yield ("applications", name), application
    for name, template, blueprint in list_complete_templates(spec):
        where = template_step_path(name, template, "application")
        if where[0] == "templates" and where not in seen:
            seen.add(where)
            yield where, blueprint.application


def list_containers_with_paths(spec: FleetSpec) -> Iterator[tuple[KeyPath, Application, Container]]:
    """Yield every container once, with its place and its application."""
    for where, application in list_applications_with_paths(spec):
        for index, container in enumerate(application.containers):
            yield (*where, "containers", index), application, container


@SPEC_RULES.register_rule(
    "profile-exists", reason="a profile that a template names must be declared", source="the spec"
)
def check_profile_exists(spec: FleetSpec) -> Iterator[SpecProblem]:
    for name, template in spec.templates.items():
        for step, key in STEPS.items():
            value, declared = getattr(template, step), getattr(spec, key)
            if isinstance(value, str) and value not in declared:
                known = f"{key}: {', '.join(sorted(declared))}" if declared else f"declare it under {key}"
                yield SpecProblem(("templates", name, step), f"{step} {value!r} is not declared", known)


@SPEC_RULES.register_rule(
    "engine-for-containers",
    reason="containers, and the toolkit that shows them the cards, need an engine",
    source="the container toolkits configure an engine; NVIDIA Container Toolkit guide, Configuration",
)
def check_container_engine_chosen(spec: FleetSpec) -> Iterator[SpecProblem]:
    for name, template, blueprint in list_complete_templates(spec):
        if blueprint.container_engine != "none":
            continue
        where = (*template_step_path(name, template, "software"), "container_engine")
        if blueprint.application.containers:
            text = f"container_engine is none, but template {name} has containers"
            yield SpecProblem(where, text, "set podman or docker")
        elif blueprint.software.container_toolkit:
            yield SpecProblem(
                where, "container_engine is none, but container_toolkit is true", "set podman or docker"
            )


@SPEC_RULES.register_rule(
    "gpus-need-toolkit",
    reason="a container sees cards through CDI, whose specification the container toolkit writes",
    source="NVIDIA Container Toolkit guide, Support for Container Device Interface; AMD Container Toolkit, CDI",
)
def check_toolkit_for_gpu_containers(spec: FleetSpec) -> Iterator[SpecProblem]:
    for name, template, blueprint in list_complete_templates(spec):
        if blueprint.software.container_toolkit:
            continue
        where = template_step_path(name, template, "application")
        for index, container in enumerate(blueprint.application.containers):
            if container.gpus != "none":
                key = (*where, "containers", index, "gpus")
                yield SpecProblem(
                    key,
                    f"the container requests cards, but template {name} has no container toolkit",
                    "set container_toolkit: true",
                )


@SPEC_RULES.register_rule(
    "podman-only",
    reason="quadlets and podman's secrets exist only with podman",
    source="podman-systemd.unit(5), podman-secret(1)",
)
def check_podman_only_features(spec: FleetSpec) -> Iterator[SpecProblem]:
    for name, template, blueprint in list_complete_templates(spec):
        if blueprint.container_engine != "docker":
            continue
        where, application = template_step_path(name, template, "application"), blueprint.application
        if application.units == "quadlet":
            yield SpecProblem(
                (*where, "units"), f"units is quadlet, but template {name} has docker", "set auto or plain"
            )
        for index, container in enumerate(application.containers):
            for number, secret in enumerate(container.secrets):
                if secret.kind == "podman":
                    key = (*where, "containers", index, "secrets", number, "kind")
                    yield SpecProblem(
                        key, f"kind is podman, but template {name} has docker", "set file or env_file"
                    )


@SPEC_RULES.register_rule(
    "unique-containers",
    reason="a container's name is its service's; two services can't share one",
    source="systemd.unit(5); podman-run(1), --name",
)
def check_unique_container_names(spec: FleetSpec) -> Iterator[SpecProblem]:
    for where, application in list_applications_with_paths(spec):
        for kind, names in (
            ("containers", [container.effective_name for container in application.containers]),
            ("volumes", [volume.name for volume in application.volumes]),
        ):
            for index, name in enumerate(names):
                if name in names[:index]:
                    yield SpecProblem(
                        (*where, kind, index),
                        f"the name {name!r} is used twice",
                        "give each container its own name",
                    )


@SPEC_RULES.register_rule(
    "ports-clash",
    reason="a port of the node leads to one container, and 22 to its SSH service",
    source="bind(2): address already in use",
)
def check_port_conflicts(spec: FleetSpec) -> Iterator[SpecProblem]:
    for where, application in list_applications_with_paths(spec):
        owner_by_port: dict[tuple[int, str, str | None], str] = {(SSH_PORT, "tcp", None): "SSH"}
        for index, container in enumerate(application.containers):
            for number, port in enumerate(container.ports):
                key = (*where, "containers", index, "ports", number)
                for (host, protocol, address), owner in owner_by_port.items():
                    shares_address = address is None or port.address is None or address == port.address
                    if (host, protocol) == (port.host, port.protocol) and shares_address:
                        text = f"port {port.host}/{port.protocol} of the node is already used by {owner}"
                        yield SpecProblem(key, text, "choose another port of the node")
                        break
                else:
                    owner_by_port[port.host, port.protocol, port.address] = container.effective_name


@SPEC_RULES.register_rule(
    "ports-by-host-network",
    reason="with the node's own network a container's ports are the node's ports and cannot be mapped",
    source="podman-run(1), --publish: discarded with --network host",
)
def check_ports_match_network(spec: FleetSpec) -> Iterator[SpecProblem]:
    for where, _, container in list_containers_with_paths(spec):
        for number, port in enumerate(container.ports):
            key = (*where, "ports", number)
            if container.network == "none":
                yield SpecProblem(
                    key, "ports cannot be reached: network is none", "remove ports, or set network: bridge"
                )
            elif container.network == "host" and (port.host != port.container or port.address):
                yield SpecProblem(
                    key,
                    "network is host, so a port cannot be mapped to another number",
                    f"say {port.container}",
                )


@SPEC_RULES.register_rule(
    "mounts-exist", reason="a mount names a volume of its application", source="the spec"
)
def check_mounted_volumes_exist(spec: FleetSpec) -> Iterator[SpecProblem]:
    for where, application, container in list_containers_with_paths(spec):
        known = [volume.name for volume in application.volumes]
        targets: list[str] = []
        for number, mount in enumerate(container.mounts):
            key = (*where, "mounts", number)
            if mount.volume is not None and mount.volume not in known:
                listed = f"volumes: {', '.join(known)}" if known else "declare it under volumes"
                yield SpecProblem((*key, "volume"), f"volume {mount.volume!r} is not declared", listed)
            if mount.target in targets:
                yield SpecProblem(
                    (*key, "target"), f"{mount.target} is mounted twice", "choose another target"
                )
            targets.append(mount.target)


@SPEC_RULES.register_rule(
    "depends-in-order",
    reason="containers start one after the other, so dependencies cannot form a cycle",
    source="systemd.unit(5)",
)
def check_dependency_order(spec: FleetSpec) -> Iterator[SpecProblem]:
    for where, application in list_applications_with_paths(spec):
        container_by_name = {container.effective_name: container for container in application.containers}
        for index, container in enumerate(application.containers):
            for number, name in enumerate(container.depends):
                if name not in container_by_name:
                    key = (*where, "containers", index, "depends", number)
                    yield SpecProblem(
                        key,
                        f"container {name!r} is not declared",
                        f"containers: {', '.join(container_by_name)}",
                    )
        try:
            TopologicalSorter(
                {name: set(container.depends) for name, container in container_by_name.items()}
            ).prepare()
        except CycleError as error:
            cycle = " → ".join(error.args[1])
            yield SpecProblem(
                (*where, "containers"),
                f"containers depend on each other: {cycle}",
                "remove one of these dependencies",
            )


@SPEC_RULES.register_rule(
    "secrets-by-reference",
    reason="the text of the spec is in Git, in units and in run artifacts, where no secret may be",
    source="our own policy",
)
def check_no_secret_values_in_env(spec: FleetSpec) -> Iterator[SpecProblem]:
    for where, _, container in list_containers_with_paths(spec):
        for name in _find_secret_names(container):
            remedy = "name it under secrets, with kind env_file or podman"
            yield SpecProblem((*where, "env", name), "the value looks like a secret", remedy)


def _find_secret_names(container: Container) -> Iterator[str]:
    return (name for name, value in container.env.items() if value and SECRET_NAMES.search(name))
