"""A container as a service of Docker's: the service is the client, so it lives and ends with its container."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, Job, file
from gpufleet.operations.units.options import env_files, further, health, ports
from gpufleet.operations.units.words import command, word

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
    container = job.container
    options = [f"--name={container.called}"]
    options += [f"--{name}={value}" for name, value in job.card_options]
    options += [f"--publish={port}" for port in ports(container)]
    options += [f"--volume={place.option}" for place in job.places]
    options += [f"--env={name}={value}" for name, value in container.env.items()]
    options += [f"--env-file={path}" for path in env_files(container)]
    if container.network != "bridge":
        options.append(f"--network={container.network}")
    options += [f"--{name}={value}" for name, value in health(container, job.engine)]
    options += [
        *further(container),
        f"--stop-timeout={container.stop_seconds}",
        container.image,
        *container.command,
    ]
    return [f"{DOCKER} run", "--rm", *map(word, options)]
