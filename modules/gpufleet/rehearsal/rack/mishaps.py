"""What the faults that happen inside a host put on its disk; docs/rehearsal-rack.md tells what each does."""

from __future__ import annotations

from collections.abc import Collection

from gpufleet.rehearsal.rack.faults import amount

LOCK_SCRIPT = "usr/local/lib/gpufleet-rehearsal/hold-apt-lock"
LOCK_UNIT = "etc/systemd/system/rehearsal-apt-lock.service"
LOCK_WANTED = "etc/systemd/system/multi-user.target.wants/rehearsal-apt-lock.service"
SSH_RC = "etc/ssh/sshrc"
DIED = "var/lib/gpufleet-rehearsal/died"

HOLD = """\
#!/usr/bin/python3
# STAND-IN for a package manager at work: holds the locks of apt and dpkg for {seconds} seconds, changes nothing.
import fcntl, os, socket, time
held = [open(f"/var/lib/dpkg/{{name}}", "w") for name in ("lock-frontend", "lock")]
for lock in held:
    fcntl.lockf(lock, fcntl.LOCK_EX)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
    systemd.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
time.sleep({seconds})
"""
HOLD_UNIT = f"""\
# Rehearsed fault apt_locked: before anybody can log in, the locks are held.
[Unit]
Before=ssh.service
[Service]
Type=notify
ExecStart=/{LOCK_SCRIPT}
[Install]
WantedBy=multi-user.target
"""
# sshd runs this at the start of each session, those inside a shared connection as well.
DIE = f"""\
# Rehearsed fault dies: root's session number {{sessions}} ends the host as a power cut would. It happens once.
count=/run/rehearsal-sessions
[ "$(id -u)" -eq 0 ] && [ ! -e /{DIED} ] || exit 0
echo >>"$count"
if [ "$(wc -l <"$count")" -ge {{sessions}} ]; then
    mkdir -p /{DIED.rpartition("/")[0]} && touch /{DIED}
    systemctl --force --force poweroff >/dev/null 2>&1
    exec sleep 600 # the kernel ends the others in its own time: what was asked for must not run before
fi
"""


def files(faults: Collection[str]) -> dict[str, tuple[str, int]]:
    """Return path -> text and mode of what the faults lay on a host."""
    found: dict[str, tuple[str, int]] = {}
    if (seconds := amount(faults, "apt_locked")) is not None:
        found[LOCK_SCRIPT] = (HOLD.format(seconds=seconds), 0o755)
        found[LOCK_UNIT] = (HOLD_UNIT, 0o644)
    if (sessions := amount(faults, "dies")) is not None:
        found[SSH_RC] = (DIE.format(sessions=sessions), 0o644)
    return found


def links(faults: Collection[str]) -> dict[str, str]:
    """Return path -> target of the links that go with the files."""
    return {LOCK_WANTED: f"/{LOCK_UNIT}"} if amount(faults, "apt_locked") is not None else {}


ALL = (LOCK_SCRIPT, LOCK_UNIT, LOCK_WANTED, SSH_RC)
