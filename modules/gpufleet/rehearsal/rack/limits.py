"""A limit of the kernel that many booted systems on one machine meet: watchers of files (inotify) per user.

Each host's systemd, logind and D-Bus take some, all as the same root; Linux allows 128. A systemd that gets none
stops in the middle of booting without a word.
"""

from __future__ import annotations

from pathlib import Path

from gpufleet.rehearsal.rack.shell import Say

INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
PER_HOST = 8  # 7 were counted on a host of Debian 12, users taken together
FOR_THE_REST = 128  # what the machine itself had


def ensure_room(hosts: int, say: Say) -> None:
    """Raise the limit when it is too low for so many hosts; it stays raised until the machine restarts."""
    allowed, needed = int(INSTANCES.read_text()), FOR_THE_REST + PER_HOST * hosts
    if allowed < needed:
        say(f"kernel setting fs.inotify.max_user_instances: {allowed} raised to {needed} for {hosts} hosts")
        INSTANCES.write_text(str(needed))
