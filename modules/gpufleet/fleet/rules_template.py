"""Rules on templates by themselves: profiles that exist, and container files that can run as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.fleet.application import Application
from gpufleet.fleet.container_file import DeclaredContainer, PublishedPort, installed_name, required_engine
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.rule import FLEET_RULES, SPEC_RULES
from gpufleet.fleet.spec import Fleet, FleetSpec
from gpufleet.fleet.template import STEPS, Blueprint, NodeTemplate

SSH_PORT = PublishedPort(22, "tcp", "")
SECRET_NAMES = re.compile(
    r"(TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)$", re.IGNORECASE
)


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


def list_containers_with_paths(
    fleet: Fleet, path: KeyPath, application: Application
) -> Iterator[tuple[KeyPath, str, DeclaredContainer]]:
    """Yield every container of an application with the place and the path of its file."""
    for index, file_path in enumerate(application.container_files):
        for container in fleet.container_files[file_path].containers:
            yield (*path, "container_files", index), file_path, container


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
        if blueprint.application.container_files:
            text = f"container_engine is none, but template {name} has container_files"
            yield SpecProblem(where, text, "set podman or docker")
        elif blueprint.software.container_toolkit:
            yield SpecProblem(
                where, "container_engine is none, but container_toolkit is true", "set podman or docker"
            )


@SPEC_RULES.register_rule(
    "engine-of-files",
    reason="podman makes services of quadlets, docker runs compose files, and a node has one engine",
    source="podman-systemd.unit(5); docs.docker.com/compose, docker compose is a plugin of docker",
)
def check_engine_runs_files(spec: FleetSpec) -> Iterator[SpecProblem]:
    for name, template, blueprint in list_complete_templates(spec):
        where = template_step_path(name, template, "application")
        for index, path in enumerate(blueprint.application.container_files):
            engine = required_engine(path)
            if blueprint.container_engine not in ("none", engine):
                yield SpecProblem(
                    (*where, "container_files", index),
                    f"{path} needs {engine}, but template {name} has {blueprint.container_engine}",
                    "keep compose files, with docker, or quadlets, with podman",
                )


@SPEC_RULES.register_rule(
    "unique-container-files",
    reason="a file's name is its service's on the node; two services can't share one",
    source="systemd.unit(5); docs.docker.com/compose, project name",
)
def check_unique_container_files(spec: FleetSpec) -> Iterator[SpecProblem]:
    for where, application in list_applications_with_paths(spec):
        for kind, names in (
            ("container_files", [installed_name(path) for path in application.container_files]),
            ("volumes", [volume.name for volume in application.volumes]),
        ):
            for index, name in enumerate(names):
                if name in names[:index]:
                    text = f"the name {name!r} is used twice on a node"
                    yield SpecProblem((*where, kind, index), text, "give each its own name")


@FLEET_RULES.register_rule(
    "gpus-need-toolkit",
    reason="containers get GPUs through CDI or the vendor's runtime, and the container toolkit sets up both",
    source="NVIDIA Container Toolkit guide, Support for Container Device Interface; AMD Container Toolkit, CDI",
)
def check_toolkit_for_gpu_containers(fleet: Fleet) -> Iterator[SpecProblem]:
    for name, template, blueprint in list_complete_templates(fleet):
        if blueprint.software.container_toolkit:
            continue
        where = template_step_path(name, template, "application")
        for key, path, container in list_containers_with_paths(fleet, where, blueprint.application):
            if container.gpu_count:
                text = f"{path}: {container.name} requests GPUs, but template {name} has no container toolkit"
                yield SpecProblem(key, text, "set container_toolkit: true")


@FLEET_RULES.register_rule(
    "ports-clash",
    reason="a port of the node leads to one container, and 22 to its SSH service",
    source="bind(2): address already in use",
)
def check_port_conflicts(fleet: Fleet) -> Iterator[SpecProblem]:
    for where, application in list_applications_with_paths(fleet):
        owner_by_port = {SSH_PORT: "SSH"}
        for key, path, container in list_containers_with_paths(fleet, where, application):
            for port in container.ports:
                owner = next((name for used, name in owner_by_port.items() if used.clashes_with(port)), None)
                if owner is not None:
                    text = (
                        f"{path}: port {port.number}/{port.protocol} of the node is already used by {owner}"
                    )
                    yield SpecProblem(key, text, "choose another port of the node")
                owner_by_port.setdefault(port, container.name)


@FLEET_RULES.register_rule(
    "secrets-by-reference",
    reason="container files are in Git, on nodes and in run artifacts, where no secret may be",
    source="our own policy",
)
def check_no_secret_values_in_environment(fleet: Fleet) -> Iterator[SpecProblem]:
    for where, application in list_applications_with_paths(fleet):
        for key, path, container in list_containers_with_paths(fleet, where, application):
            for name, value in container.environment.items():
                if value and "$" not in value and SECRET_NAMES.search(name):
                    text = f"{path}: the value of {name} looks like a secret"
                    remedy = "put it into a file of variables: docs/containers.md, Secrets"
                    yield SpecProblem(key, text, remedy)
