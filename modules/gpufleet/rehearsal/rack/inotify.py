"""The kernel's limit of inotify instances per user, which many booted hosts on one machine exceed.

Each host's systemd, logind and D-Bus use some, all as the same root user; Linux allows 128. A systemd without any
stops booting without a message.
"""

from __future__ import annotations

from pathlib import Path

from gpufleet.rehearsal.rack.shell import Reporter

INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
PER_HOST = 8  # 7 were counted on a Debian 12 host, all users together
RESERVED = 128  # for the machine itself


def raise_inotify_limit(host_count: int, report: Reporter) -> None:
    """Raise the limit if it is too low for this many hosts; it stays raised until the machine restarts."""
    allowed, needed = int(INSTANCES.read_text()), RESERVED + PER_HOST * host_count
    if allowed < needed:
        report(
            f"kernel setting fs.inotify.max_user_instances: {allowed} raised to {needed} for {host_count} hosts"
        )
        INSTANCES.write_text(str(needed))
