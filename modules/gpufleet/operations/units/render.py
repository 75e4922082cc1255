"""The unit files of an application."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpufleet.errors import InputError
from gpufleet.fleet import Application, Container
from gpufleet.operations.units import docker, podman, quadlet
from gpufleet.operations.units.cards import assign_gpu_cards
from gpufleet.operations.units.engine import ContainerEngine
from gpufleet.operations.units.job import PREFIX, ContainerDeployment
from gpufleet.operations.units.options import SECRETS

QUADLETS, SERVICES = "/etc/containers/systemd", "/etc/systemd/system"


@dataclass(frozen=True)
class UnitFile:
    """One file, and the service that comes of it. A quadlet's service is enabled by its file alone."""

    path: str
    content: str
    service: str
    quadlet: bool


@dataclass(frozen=True)
class RenderedApplication:
    """What a node needs to run an application, and what its operator should know."""

    units: tuple[UnitFile, ...]
    volumes: tuple[str, ...]
    secret_files: tuple[str, ...]
    secrets_stored: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        plain: dict[str, Any] = {name: list(value) for name, value in asdict(self).items()}
        return plain


def render_application_units(
    application: Application, engine: ContainerEngine, scratch_folder: str = "/scratch"
) -> RenderedApplication:
    """Return the units of an application for an engine; ``scratch`` is where the node's fast storage is mounted."""
    by_quadlet = application.units == "quadlet" or (
        application.units == "auto" and engine.has_quadlet_support
    )
    if by_quadlet and not engine.has_quadlet_support:
        raise InputError(
            f"units is quadlet, but {engine.display_name} does not support quadlets",
            remedy="set units: auto, or install podman 4.4",
        )
    cards = assign_gpu_cards(application.containers)
    jobs = [
        ContainerDeployment(
            container, application, engine, cards.get(container.effective_name), scratch_folder
        )
        for container in application.containers
    ]
    secrets = [secret for container in application.containers for secret in container.secrets]
    files = {f"{SECRETS}/{secret.name}" for secret in secrets if secret.kind != "podman"}
    return RenderedApplication(
        units=tuple(_unit(job, by_quadlet=by_quadlet) for job in jobs),
        volumes=tuple(volume.folder(scratch_folder) for volume in application.volumes),
        secret_files=tuple(sorted(files)),
        secrets_stored=tuple(sorted({secret.name for secret in secrets if secret.kind == "podman"})),
        warnings=tuple(text for container in application.containers for text in _warnings(container, engine)),
    )


def _unit(job: ContainerDeployment, *, by_quadlet: bool) -> UnitFile:
    name = f"{PREFIX}{job.container.effective_name}"
    if by_quadlet:
        return UnitFile(
            f"{QUADLETS}/{name}.container", quadlet.build_quadlet_file(job), f"{name}.service", quadlet=True
        )
    write = podman.build_podman_service if job.engine.kind == "podman" else docker.build_docker_service
    return UnitFile(f"{SERVICES}/{name}.service", write(job), f"{name}.service", quadlet=False)


def _warnings(container: Container, engine: ContainerEngine) -> list[str]:
    warnings = []
    if not container.has_image_digest:
        warnings.append(
            f"{container.effective_name}: {container.image} has no digest, so nodes may run different images"
        )
    if container.health and engine.kind == "docker":
        warnings.append(
            f"{container.effective_name}: Docker records a failed health check, but does not stop the container"
        )
    return warnings
