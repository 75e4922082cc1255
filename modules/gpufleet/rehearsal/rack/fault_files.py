"""The files that implement faults inside a host; docs/rehearsal-rack.md describes each fault."""

from __future__ import annotations

from collections.abc import Collection

from gpufleet.rehearsal.rack.faults import find_fault_amount

LOCK_SCRIPT = "usr/local/lib/gpufleet-rehearsal/hold-apt-lock"
LOCK_UNIT = "etc/systemd/system/rehearsal-apt-lock.service"
LOCK_UNIT_LINK = "etc/systemd/system/multi-user.target.wants/rehearsal-apt-lock.service"
SSH_RC = "etc/ssh/sshrc"
DIED_MARKER = "var/lib/gpufleet-rehearsal/died"

LOCK_SCRIPT_TEMPLATE = """\
#!/usr/bin/python3
# FAKE package manager: holds the locks of apt and dpkg for {seconds} seconds, changes nothing.
import fcntl, os, socket, time
held = [open(f"/var/lib/dpkg/{{name}}", "w") for name in ("lock-frontend", "lock")]
for lock in held:
    fcntl.lockf(lock, fcntl.LOCK_EX)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
    systemd.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
time.sleep({seconds})
"""
LOCK_UNIT_TEXT = f"""\
# Rehearsed fault apt_locked: the locks are held before a login is possible.
[Unit]
Before=ssh.service
[Service]
Type=notify
ExecStart=/{LOCK_SCRIPT}
[Install]
WantedBy=multi-user.target
"""
# sshd runs this at the start of each session, also of those in a shared connection.
SSH_RC_TEMPLATE = f"""\
# Rehearsed fault dies: root's session number {{sessions}} powers the host off, once.
count=/run/rehearsal-sessions
[ "$(id -u)" -eq 0 ] && [ ! -e /{DIED_MARKER} ] || exit 0
echo >>"$count"
if [ "$(wc -l <"$count")" -ge {{sessions}} ]; then
    mkdir -p /{DIED_MARKER.rpartition("/")[0]} && touch /{DIED_MARKER}
    systemctl --force --force poweroff >/dev/null 2>&1
    exec sleep 600 # the command of this session must not run before the host is off
fi
"""


def build_fault_files(faults: Collection[str]) -> dict[str, tuple[str, int]]:
    """Return path -> (text, mode) of the files for these faults."""
    files_by_path: dict[str, tuple[str, int]] = {}
    if (seconds := find_fault_amount(faults, "apt_locked")) is not None:
        files_by_path[LOCK_SCRIPT] = (LOCK_SCRIPT_TEMPLATE.format(seconds=seconds), 0o755)
        files_by_path[LOCK_UNIT] = (LOCK_UNIT_TEXT, 0o644)
    if (sessions := find_fault_amount(faults, "dies")) is not None:
        files_by_path[SSH_RC] = (SSH_RC_TEMPLATE.format(sessions=sessions), 0o644)
    return files_by_path


def build_fault_links(faults: Collection[str]) -> dict[str, str]:
    """Return path -> target of the symbolic links for these faults."""
    return {LOCK_UNIT_LINK: f"/{LOCK_UNIT}"} if find_fault_amount(faults, "apt_locked") is not None else {}


ALL_PATHS = (LOCK_SCRIPT, LOCK_UNIT, LOCK_UNIT_LINK, SSH_RC)
