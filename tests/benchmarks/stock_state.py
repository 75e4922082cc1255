"""What a host looks like from outside, and from two such looks what a stock playbook has to say to get there.

Run on a host (`python3 -` over SSH) it prints the host's state as JSON: /etc and the homes, packages, users, units.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import stat
import subprocess
import sys

# Written by the tools of users, packages and boot; those are compared by their meaning instead.
ELSEWHERE = (
    "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/.pwd.lock",
    "/etc/ld.so.cache", "/etc/machine-id", "/etc/mtab", "/etc/ssh/ssh_host", "/etc/gpufleet-rehearsal",
    "/etc/systemd/system/", "/etc/rc", "/etc/alternatives", "/etc/apt/",
)  # fmt: skip
SERVICES = {
    "/etc/systemd/timesyncd": "systemd-timesyncd", "/etc/chrony": "chrony", "/etc/nftables": "nftables",
    "/etc/systemd/journald": "systemd-journald", "/etc/systemd/resolved": "systemd-resolved",
}  # fmt: skip


def entry(path):
    """Describe one path."""
    import grp
    import pwd

    status = path.lstat()
    names = {"owner": pwd.getpwuid(status.st_uid).pw_name, "group": grp.getgrgid(status.st_gid).gr_name}
    if path.is_symlink():
        return {"kind": "link", "target": os.readlink(path)}  # noqa: PTH115 - the host's Python may be 3.8's age
    names["mode"] = f"{stat.S_IMODE(status.st_mode):04o}"
    if path.is_dir():
        return {"kind": "folder", **names}
    return {"kind": "file", "content": base64.b64encode(path.read_bytes()).decode(), **names}


def lines(*command):
    """Return what a command prints, by line."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def list_state():
    """Return the host's state."""
    roots = [pathlib.Path("/etc"), *pathlib.Path("/home").glob("*/.ssh")]
    paths = [path for root in roots for path in [root, *root.rglob("*")]]
    entries = [
        path for path in paths if not str(path).startswith(ELSEWHERE) and (path.is_file() or path.is_dir())
    ]
    links = [path for path in paths if path.is_symlink() and not str(path).startswith(ELSEWHERE)]
    users = [line.split(":") for line in lines("getent", "passwd")]
    running = lines(
        "systemctl", "list-units", "--all", "--plain", "--no-legend", "--type=service,socket,timer"
    )
    enabled = lines("systemctl", "list-unit-files", "--no-legend", "--type=service,socket,timer")
    return {
        "paths": {str(path): entry(path) for path in [*entries, *links]},
        "packages": dict(
            line.split("\t") for line in lines("dpkg-query", "-W", "-f", "${Package}\t${Version}\n")
        ),
        "manual": sorted(lines("apt-mark", "showmanual")),
        "holds": sorted(lines("apt-mark", "showhold")),
        "users": {row[0]: {"comment": row[4], "home": row[5], "shell": row[6]} for row in users},
        "units": {line.split()[0]: line.split()[1] for line in enabled},
        "active": {
            line.split()[0]: line.split()[2] for line in running if line.split()[0].endswith(".service")
        },
        "hostname": lines("hostname")[0],
        "sysctl": [
            line for line in lines("sysctl", "-a") if line.startswith(("net.ipv4.conf.all", "net.ipv4.tcp_"))
        ],
    }


def is_expected(before, after, name):
    """Return the lists of the stock playbook that turn the first state into the second."""
    old, new = before["paths"], after["paths"]
    changed = {p: e for p, e in new.items() if old.get(p) != e and p not in ("/etc/hostname", "/etc/hosts")}
    by = {
        kind: {p: e for p, e in changed.items() if e["kind"] == kind} for kind in ("file", "folder", "link")
    }
    files = [
        {"path": p, **e, "content": base64.b64decode(e["content"]).decode()} for p, e in by["file"].items()
    ]
    owned = {p for p in changed if package_brings(p, before, after)}
    files = [row for row in files if row["path"] not in owned]
    groups = {"sudo": ("/etc/sudoers.d/",), "sshd": ("/etc/ssh/sshd",), "sysctl": ("/etc/sysctl.d/",)}
    groups["services"] = tuple(SERVICES)
    sorted_in = {
        group: [row for row in files if row["path"].startswith(start)] for group, start in groups.items()
    }
    placed = [row["path"] for rows in sorted_in.values() for row in rows]
    restart = {
        s for start, s in SERVICES.items() for row in sorted_in["services"] if row["path"].startswith(start)
    }
    return {
        **sorted_in,
        "files": [has_name(row, name) for row in files if row["path"] not in placed],
        "folders": [{"path": p, **e} for p, e in by["folder"].items() if p not in owned],
        "links": [{"path": p, **e} for p, e in by["link"].items() if p not in owned],
        "absent": sorted(p for p in old if p not in new and p not in owned),
        "users": [{"name": n, **row} for n, row in after["users"].items() if n not in before["users"]],
        "packages": sorted(set(after["manual"]) - set(before["manual"])),
        "packages_absent": sorted(set(before["packages"]) - set(after["packages"])),
        "packages_are_new": set(before["packages"]) != set(after["packages"]),
        "units": [unit(n, before, after) for n in sorted(after["units"]) if is_changed(n, before, after)],
        "restart": sorted(restart),
    }


def package_brings(path, before, after):
    """Return whether the path belongs to a newly installed package."""
    return path in after.get("owned", ()) and set(before["packages"]) != set(after["packages"])


def has_name(row, name):
    """Let a file that names its host name each host."""
    return {**row, "content": row["content"].replace(name, "{{ inventory_hostname_short }}")}


def is_changed(name, before, after):
    """Return whether a role changed the unit, not a package."""
    now = after["units"][name]
    return now != before["units"].get(name) and now in ("enabled", "masked", "disabled")


def unit(name, before, after):
    """Return a unit's row of the stock playbook."""
    state = after["units"][name]
    active = after["active"].get(name) == "active"
    return {
        "name": name, "enabled": None if state == "masked" else state == "enabled", "masked": state == "masked",
        "state": "started" if active and state != "masked" else None, "new": name not in before["units"],
    }  # fmt: skip


def differences(own_state, stock):
    """Name everything in which two hosts differ."""
    lines = []
    for part in ("paths", "packages", "users", "units", "active", "holds"):
        keys = sorted(
            k
            for k in {*own_state[part], *stock[part]}
            if lookup(own_state[part], k) != lookup(stock[part], k)
        )
        lines += [f"{part}: {key}" for key in keys]
    return lines + [part for part in ("hostname", "sysctl") if own_state[part] != stock[part]]


def lookup(part, key):
    return part.get(key) if isinstance(part, dict) else key in part


if __name__ == "__main__":
    json.dump(list_state(), sys.stdout)
