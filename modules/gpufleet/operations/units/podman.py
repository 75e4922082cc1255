"""A container as a plain service, for podman before quadlet: as ``podman generate systemd --new`` writes one."""

from __future__ import annotations

from gpufleet.operations.units.job import INSTALL, Job, file
from gpufleet.operations.units.options import stored_secrets
from gpufleet.operations.units.words import command

PODMAN = "/usr/bin/podman"
CID = "%t/%n.ctr-id"


def text(job: Job) -> str:
    """Return the ``.service`` file."""
    after = ["Wants=network-online.target", "After=network-online.target", "RequiresMountsFor=%t/containers"]
    stop = [PODMAN, "stop", "--ignore", f"-t {job.container.stop_seconds}", f"--cidfile={CID}"]
    remove = [PODMAN, "rm", "-f", "--ignore", f"--cidfile={CID}"]
    service = [
        "[Service]",
        "Type=notify",
        "NotifyAccess=all",
        "Environment=PODMAN_SYSTEMD_UNIT=%n",
        *job.service_lines(),
        f"ExecStartPre=/bin/rm -f {CID}",
        f"ExecStart={command(run(job))}",
        f"ExecStop={' '.join(stop)}",
        f"ExecStopPost={' '.join(remove)}",
    ]
    return file(job.unit_section(*after), service, INSTALL)


def run(job: Job) -> list[str]:
    """Return the words of ``podman run``; conmon tells systemd that the container has started."""
    words = [
        f"{PODMAN} run",
        f"--cidfile={CID}",
        "--cgroups=no-conmon",
        "--sdnotify=conmon",
        "--rm",
        "--replace",
        "-d",
    ]
    return [*words, *job.run_options(stored_secrets(job.container))]
