"""What a container asks of its engine, as options of ``run`` that podman and Docker share."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.fleet import Application, Container
from gpufleet.operations.units.engine import ContainerEngine

SECRETS = "/etc/gpufleet/secrets"
Pair = tuple[str, str]


@dataclass(frozen=True)
class UnitMount:
    """One mount of a container: where it is on the node, and where inside."""

    source: str
    target: str
    read_only: bool
    is_managed: bool = False

    @property
    def volume_option(self) -> str:
        return f"{self.source}:{self.target}{':ro' if self.read_only else ''}"


def container_mounts(container: Container, application: Application, scratch_folder: str) -> list[UnitMount]:
    """Return what a container mounts, secrets in files included."""
    paths = {volume.name: volume.folder(scratch_folder) for volume in application.volumes}
    mounts = [
        UnitMount(
            mount.source or paths[str(mount.volume)], mount.target, mount.read_only, mount.volume is not None
        )
        for mount in container.mounts
    ]
    return mounts + [
        UnitMount(f"{SECRETS}/{secret.name}", secret.target or f"/run/secrets/{secret.name}", read_only=True)
        for secret in container.secrets
        if secret.kind == "file"
    ]


def list_env_files(container: Container) -> list[str]:
    return [f"{SECRETS}/{secret.name}" for secret in container.secrets if secret.kind == "env_file"]


def podman_secret_options(container: Container) -> list[str]:
    """Return podman's secrets as its option --secret takes them."""
    options = []
    for secret in container.secrets:
        if secret.kind == "podman":
            mode = f"type=env,target={secret.env}" if secret.env else "type=mount"
            options.append(f"{secret.name},{mode}" + (f",target={secret.target}" if secret.target else ""))
    return options


def publish_port_options(container: Container) -> list[str]:
    """Return what is led from the node; with the node's own network nothing has to be."""
    if container.network != "bridge":
        return []
    return [
        f"{port.address + ':' if port.address else ''}{port.host}:{port.container}"
        f"{'/udp' if port.protocol == 'udp' else ''}"
        for port in container.ports
    ]


def health_check_options(container: Container, engine: ContainerEngine) -> list[Pair]:
    """Return the options of the health check. Only podman can stop an unhealthy container."""
    check = container.health
    if check is None:
        return []
    options = [
        ("health-cmd", check.command),
        ("health-interval", f"{check.interval_seconds}s"),
        ("health-timeout", f"{check.timeout_seconds}s"),
        ("health-retries", str(check.retries)),
        ("health-start-period", f"{check.start_seconds}s"),
    ]
    return [*options, ("health-on-failure", "kill")] if engine.kind == "podman" else options


def common_run_options(container: Container) -> list[str]:
    """Return the options that are the same words everywhere."""
    options = []
    if container.user:
        options.append(f"--user={container.user}")
    if container.read_only:
        options.append("--read-only")
    if container.shm_gib:
        options.append(f"--shm-size={container.shm_gib}g")
    return options
