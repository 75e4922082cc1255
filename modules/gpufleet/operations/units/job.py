"""One container on one node: what the three kinds of unit files have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpufleet.fleet import Application, Container
from gpufleet.operations.units.engine import ContainerEngine
from gpufleet.operations.units.options import (
    Pair,
    UnitMount,
    common_run_options,
    container_mounts,
    health_check_options,
    list_env_files,
    publish_port_options,
)
from gpufleet.operations.units.quoting import quote_systemd_argument

PREFIX = "gpufleet-"
HEADER = "# Written by gpufleet from the node's template; changes made here are overwritten.\n"
RESTART = {"always": "always", "on-failure": "on-failure", "never": "no"}
PULL_SECONDS = 1800  # an image of a model server is tens of GB, and is fetched within the service's start


@dataclass(frozen=True)
class ContainerDeployment:
    """A container together with its node's engine, its cards (None: none or all) and scratch."""

    container: Container
    application: Application
    engine: ContainerEngine
    cards: tuple[int, ...] | None
    scratch: str

    @property
    def unit_mounts(self) -> list[UnitMount]:
        return container_mounts(self.container, self.application, self.scratch)

    @property
    def gpu_card_options(self) -> list[Pair]:
        """Return the engine's options for the container's cards."""
        return [] if self.container.gpus == "none" else self.engine.gpu_card_options(self.cards)

    def build_run_options(self, secrets: Sequence[str] = ()) -> list[str]:
        """Return the words behind ``run`` that podman and Docker share, image and command included."""
        container = self.container
        options = [f"--name={container.effective_name}"]
        options += [f"--{name}={value}" for name, value in self.gpu_card_options]
        options += [f"--publish={port}" for port in publish_port_options(container)]
        options += [f"--volume={place.volume_option}" for place in self.unit_mounts]
        options += [f"--env={name}={value}" for name, value in container.env.items()]
        options += [f"--env-file={path}" for path in list_env_files(container)]
        options += [f"--secret={secret}" for secret in secrets]
        if container.network != "bridge":
            options.append(f"--network={container.network}")
        options += [f"--{name}={value}" for name, value in health_check_options(container, self.engine)]
        options += [*common_run_options(container), f"--stop-timeout={container.stop_seconds}"]
        return [quote_systemd_argument(option) for option in (*options, container.image, *container.command)]

    def build_unit_section(self, *more: str) -> list[str]:
        """Return the section [Unit]: what comes before, and what must be there."""
        before = [f"{PREFIX}{name}.service" for name in self.container.depends]
        mount_paths = [
            place.source for place in self.unit_mounts if not place.source.startswith("/etc/gpufleet/")
        ]
        required_files = [
            place.source for place in self.unit_mounts if place.source not in mount_paths
        ] + list_env_files(self.container)
        lines = [f"Description=Container {self.container.effective_name}", *more]
        lines += [line for name in before for line in (f"Requires={name}", f"After={name}")]
        lines += [f"RequiresMountsFor={path}" for path in mount_paths]
        lines += [f"AssertPathExists={path}" for path in required_files]
        return ["[Unit]", *lines]

    def build_service_lines(self) -> list[str]:
        """Return the lines of every service: created volumes, restart, time limits.

        Volumes are made at every start: scratch of a cloud machine comes back empty after a stop.
        """
        create_volumes = [
            f"ExecStartPre=/usr/bin/install -d {self._owner(place)}{quote_systemd_argument(place.source)}"
            for place in self.unit_mounts
            if place.is_managed
        ]
        return [
            *create_volumes,
            f"Restart={RESTART[self.container.restart]}",
            "RestartSec=10",
            f"TimeoutStartSec={PULL_SECONDS}",
            f"TimeoutStopSec={self.container.stop_seconds + 30}",
        ]

    def _owner(self, place: UnitMount) -> str:
        """Return install's options for the owner of a writable volume, if the container's user is a number."""
        numbers = re.fullmatch(r"(\d+)(?::(\d+))?", self.container.user or "")
        if numbers is None or place.read_only:
            return ""
        group = f"-g {numbers[2]} " if numbers[2] else ""
        return f"-o {numbers[1]} {group}"


INSTALL = ["[Install]", "WantedBy=multi-user.target"]


def join_unit_sections(*sections: list[str]) -> str:
    """Return a unit file of these sections."""
    return HEADER + "\n".join("\n".join(section) + "\n" for section in sections)
