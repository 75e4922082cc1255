"""A container as a service of Docker's: the service is the client, so it lives and ends with its container."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, ContainerDeployment, join_unit_sections
from gpufleet.operations.units.quoting import join_systemd_arguments

DOCKER = "/usr/bin/docker"


def build_docker_service(deployment: ContainerDeployment) -> str:
    """Return the ``.service`` file."""
    name, after = deployment.container.effective_name, "docker.service network-online.target"
    more = ["Wants=network-online.target", "Requires=docker.service", f"After={after}"]
    service = [
        "[Service]",
        *deployment.build_service_lines(),
        f"ExecStartPre=-{DOCKER} rm --force {name}",
        f"ExecStart={join_systemd_arguments(build_docker_run_arguments(deployment))}",
        f"ExecStop={DOCKER} stop --time {deployment.container.stop_seconds} {name}",
        f"ExecStopPost=-{DOCKER} rm --force {name}",
    ]
    return join_unit_sections(deployment.build_unit_section(*more), service, INSTALL)


def build_docker_run_arguments(deployment: ContainerDeployment) -> list[str]:
    """Return the arguments of ``docker run``."""
    return [f"{DOCKER} run", "--rm", *deployment.build_run_options()]
