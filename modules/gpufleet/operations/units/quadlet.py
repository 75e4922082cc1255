"""A container as a quadlet: podman's generator makes the service (podman-systemd.unit(5))."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, ContainerJob, join_unit_sections
from gpufleet.operations.units.options import (
    container_options,
    health_options,
    list_env_files,
    podman_secret_options,
    port_options,
)
from gpufleet.operations.units.quoting import quote_argument


def build_unit_text(job: ContainerJob) -> str:
    """Return the ``.container`` file."""
    return join_unit_sections(
        job.build_unit_section(), _container(job), ["[Service]", *job.build_service_lines()], INSTALL
    )


def _container(job: ContainerJob) -> list[str]:
    container = job.container
    lines = [f"Image={container.image}", f"ContainerName={container.effective_name}"]
    lines += [f"AddDevice={value}" for _, value in job.card_options]
    lines += [f"PublishPort={port}" for port in port_options(container)]
    lines += [f"Volume={place.option_text}" for place in job.mounts]
    lines += [f"Environment={quote_argument(f'{name}={value}')}" for name, value in container.env.items()]
    lines += [f"EnvironmentFile={path}" for path in list_env_files(container)]
    if container.network != "bridge":
        lines.append(f"Network={container.network}")
    options = [f"--{name}={value}" for name, value in health_options(container, job.engine)]
    options += [f"--secret={secret}" for secret in podman_secret_options(container)]
    options += [*container_options(container), f"--stop-timeout={container.stop_seconds}"]
    lines += [f"PodmanArgs={quote_argument(option)}" for option in options]
    if container.command:
        lines.append(f"Exec={' '.join(map(quote_argument, container.command))}")
    return ["[Container]", *lines]
