"""A container as a service of Docker's: the service is the client, so it lives and ends with its container."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, Job, file
from gpufleet.operations.units.words import command

DOCKER = "/usr/bin/docker"


def text(job: Job) -> str:
    """Return the ``.service`` file."""
    name, after = job.container.called, "docker.service network-online.target"
    more = ["Wants=network-online.target", "Requires=docker.service", f"After={after}"]
    service = [
        "[Service]",
        *job.service_lines(),
        f"ExecStartPre=-{DOCKER} rm --force {name}",
        f"ExecStart={command(run(job))}",
        f"ExecStop={DOCKER} stop --time {job.container.stop_seconds} {name}",
        f"ExecStopPost=-{DOCKER} rm --force {name}",
    ]
    return file(job.unit_section(*more), service, INSTALL)


def run(job: Job) -> list[str]:
    """Return the words of ``docker run``."""
    return [f"{DOCKER} run", "--rm", *job.run_options()]
