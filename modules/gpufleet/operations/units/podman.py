"""A container as a plain service, for podman before quadlet: as ``podman generate systemd --new`` writes one."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, ContainerDeployment, join_unit_sections
from gpufleet.operations.units.options import podman_secret_options
from gpufleet.operations.units.quoting import join_systemd_arguments

PODMAN = "/usr/bin/podman"
CID = "%t/%n.ctr-id"


def build_podman_service(deployment: ContainerDeployment) -> str:
    """Return the ``.service`` file."""
    after = ["Wants=network-online.target", "After=network-online.target", "RequiresMountsFor=%t/containers"]
    stop = [PODMAN, "stop", "--ignore", f"-t {deployment.container.stop_seconds}", f"--cidfile={CID}"]
    remove = [PODMAN, "rm", "-f", "--ignore", f"--cidfile={CID}"]
    service = [
        "[Service]",
        "Type=notify",
        "NotifyAccess=all",
        "Environment=PODMAN_SYSTEMD_UNIT=%n",
        *deployment.build_service_lines(),
        f"ExecStartPre=/bin/rm -f {CID}",
        f"ExecStart={join_systemd_arguments(build_podman_run_arguments(deployment))}",
        f"ExecStop={' '.join(stop)}",
        f"ExecStopPost={' '.join(remove)}",
    ]
    return join_unit_sections(deployment.build_unit_section(*after), service, INSTALL)


def build_podman_run_arguments(deployment: ContainerDeployment) -> list[str]:
    """Return the arguments of ``podman run``; conmon tells systemd that the container has started."""
    arguments = [
        f"{PODMAN} run",
        f"--cidfile={CID}",
        "--cgroups=no-conmon",
        "--sdnotify=conmon",
        "--rm",
        "--replace",
        "-d",
    ]
    return [*arguments, *deployment.build_run_options(podman_secret_options(deployment.container))]
