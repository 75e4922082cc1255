"""A container as a quadlet: podman's generator makes the service (podman-systemd.unit(5))."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, ContainerDeployment, join_unit_sections
from gpufleet.operations.units.options import (
    common_run_options,
    health_check_options,
    list_env_files,
    podman_secret_options,
    publish_port_options,
)
from gpufleet.operations.units.quoting import quote_systemd_argument


def build_quadlet_file(deployment: ContainerDeployment) -> str:
    """Return the ``.container`` file."""
    return join_unit_sections(
        deployment.build_unit_section(),
        _container(deployment),
        ["[Service]", *deployment.build_service_lines()],
        INSTALL,
    )


def _container(deployment: ContainerDeployment) -> list[str]:
    container = deployment.container
    lines = [f"Image={container.image}", f"ContainerName={container.effective_name}"]
    lines += [f"AddDevice={value}" for _, value in deployment.gpu_card_options]
    lines += [f"PublishPort={port}" for port in publish_port_options(container)]
    lines += [f"Volume={place.volume_option}" for place in deployment.unit_mounts]
    lines += [
        f"Environment={quote_systemd_argument(f'{name}={value}')}" for name, value in container.env.items()
    ]
    lines += [f"EnvironmentFile={path}" for path in list_env_files(container)]
    if container.network != "bridge":
        lines.append(f"Network={container.network}")
    options = [f"--{name}={value}" for name, value in health_check_options(container, deployment.engine)]
    options += [f"--secret={secret}" for secret in podman_secret_options(container)]
    options += [*common_run_options(container), f"--stop-timeout={container.stop_seconds}"]
    lines += [f"PodmanArgs={quote_systemd_argument(option)}" for option in options]
    if container.command:
        lines.append(f"Exec={' '.join(map(quote_systemd_argument, container.command))}")
    return ["[Container]", *lines]
