"""A container as a service of Docker's: the service is the client, so it lives and ends with its container."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, ContainerJob, join_unit_sections
from gpufleet.operations.units.quoting import join_arguments

DOCKER = "/usr/bin/docker"


def build_unit_text(job: ContainerJob) -> str:
    """Return the ``.service`` file."""
    name, after = job.container.effective_name, "docker.service network-online.target"
    more = ["Wants=network-online.target", "Requires=docker.service", f"After={after}"]
    service = [
        "[Service]",
        *job.build_service_lines(),
        f"ExecStartPre=-{DOCKER} rm --force {name}",
        f"ExecStart={join_arguments(build_run_arguments(job))}",
        f"ExecStop={DOCKER} stop --time {job.container.stop_seconds} {name}",
        f"ExecStopPost=-{DOCKER} rm --force {name}",
    ]
    return join_unit_sections(job.build_unit_section(*more), service, INSTALL)


def build_run_arguments(job: ContainerJob) -> list[str]:
    """Return the arguments of ``docker run``."""
    return [f"{DOCKER} run", "--rm", *job.build_run_options()]
