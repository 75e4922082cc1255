"""A container as a quadlet: podman's generator makes the service (podman-systemd.unit(5))."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, Job, unit_file
from gpufleet.operations.units.options import (
    common_options,
    env_files,
    health_options,
    podman_secrets,
    published_ports,
)
from gpufleet.operations.units.quoting import quote_argument


def unit_text(job: Job) -> str:
    """Return the ``.container`` file."""
    return unit_file(job.unit_section(), _container(job), ["[Service]", *job.service_lines()], INSTALL)


def _container(job: Job) -> list[str]:
    container = job.container
    lines = [f"Image={container.image}", f"ContainerName={container.effective_name}"]
    lines += [f"AddDevice={value}" for _, value in job.card_options]
    lines += [f"PublishPort={port}" for port in published_ports(container)]
    lines += [f"Volume={place.option}" for place in job.places]
    lines += [f"Environment={quote_argument(f'{name}={value}')}" for name, value in container.env.items()]
    lines += [f"EnvironmentFile={path}" for path in env_files(container)]
    if container.network != "bridge":
        lines.append(f"Network={container.network}")
    options = [f"--{name}={value}" for name, value in health_options(container, job.engine)]
    options += [f"--secret={secret}" for secret in podman_secrets(container)]
    options += [*common_options(container), f"--stop-timeout={container.stop_seconds}"]
    lines += [f"PodmanArgs={quote_argument(option)}" for option in options]
    if container.command:
        lines.append(f"Exec={' '.join(map(quote_argument, container.command))}")
    return ["[Container]", *lines]
