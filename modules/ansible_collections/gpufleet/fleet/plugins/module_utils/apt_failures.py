# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""What apt and dpkg say when they fail, as one line that names the package and the reason."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.fleet.plugins.module_utils.package_model import PackageChanges

KINDS = [
    ("lock", r"Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock directory"),
    ("space", r"No space left on device|don't have enough free space"),
    ("unknown", r"Unable to locate package (\S+)|Package '?([^' ]+)'? has no installation candidate"),
    ("unknown", r"Version '([^']+)' for '([^']+)' was not found"),
    ("held", r"Held packages were changed"),
    ("downgrade", r"Packages were downgraded"),
    ("gone", r"404 +Not Found"),
    (
        "network",
        r"Temporary failure resolving|Could not resolve|Could not connect|Connection (?:timed out|refused|failed)",
    ),
    ("network", r"Network is unreachable|Unable to connect to|Failed to fetch"),
    ("signature", r"NO_PUBKEY|is not signed|The following signatures"),
    ("dependencies", r"unmet dependencies|held broken packages|Unable to correct problems"),
    ("script", r"dpkg: error processing|Sub-process \S*dpkg returned an error code"),
    ("removal", r"essential packages will be removed"),
]


def classify_apt_failure(out: str, err: str) -> str:
    """Return the kind of failure in apt's output, a name of KINDS or ``other``."""
    text = f"{err}\n{out}"
    return next((name for name, pattern in KINDS if re.search(pattern, text)), "other")


def find_matching_line(text: str, pattern: str) -> str:
    """Return the first line that matches, without apt's leading letter; empty if none does."""
    for line in text.splitlines():
        if re.search(pattern, line):
            return re.sub(r"^[EW]: *", "", line.strip())
    return ""


def parse_unmet_dependencies(apt_output: str) -> str:
    """Return what apt lists under unmet dependencies, on one line."""
    __, __, after = apt_output.partition("unmet dependencies:")
    lines = []
    for line in after.splitlines()[1:]:
        if not line.startswith(" "):
            break
        lines.append(" ".join(line.split()))
    return "; ".join(lines)


def parse_dpkg_failure(dpkg_output: str) -> str:
    """Return which package dpkg failed on, and its message."""
    match = re.search(r"dpkg: error processing (?:package|archive) (\S+) \((--\w+)\):\n *(.*)", dpkg_output)
    if not match:
        return find_matching_line(dpkg_output, r"^E:")
    package, step, message = match.groups()
    hint = re.search(
        r"^(?!dpkg|E:|W:|\s)(.*(?:error|fail|cannot|unable).*)$", dpkg_output, re.IGNORECASE | re.MULTILINE
    )
    more = f" ({hint[1].strip()})" if hint and hint[1].strip() not in message else ""
    return f"{package} ({step[2:]}): {message.strip()}{more}"


def apt_failure_reason(out: str, err: str) -> str:
    """Return apt's own reason on one line."""
    text = f"{err}\n{out}"
    failure = classify_apt_failure(out, err)
    if failure == "dependencies":
        return parse_unmet_dependencies(text) or find_matching_line(text, r"^E:") or "unmet dependencies"
    if failure == "script":
        return parse_dpkg_failure(text)
    pattern = next(
        (pattern for name, pattern in KINDS if name == failure and re.search(pattern, text)), r"^E:"
    )
    line = (
        find_matching_line(text, pattern)
        or find_matching_line(text, r"^E:")
        or find_matching_line(text, r"\S")
    )
    return " ".join(line.split())[:300] or "no reason given"


def explain_apt_failure(changes: PackageChanges, out: str, err: str) -> str:
    """Return the message for a failed install or removal."""
    failure, explanation = classify_apt_failure(out, err), apt_failure_reason(out, err)
    names = ", ".join(
        [f"{n}={v}" if v else n for n, v in changes.install] + [f"{n} (remove)" for n in changes.remove]
    )
    if failure == "unknown":
        version = re.search(r"Version '([^']+)' for '([^']+)'", explanation)
        package = re.search(r"package '?([^' ]+)", explanation, re.IGNORECASE)
        if version:
            return f"{version[2]} has no version {version[1]} in this host's package lists"
        return f"no package {package[1] if package else names} in this host's package lists"
    if failure == "downgrade":
        return f"{names}: the host has a newer version; set allow_downgrade to install the older one"
    titles = {
        "lock": "apt's lock is held", "space": "no space left", "network": "the package source can't be reached",
        "gone": "the package source no longer has it", "dependencies": "unmet dependencies",
        "held": "packages are held",
        "signature": "the package source's signature is not accepted", "script": "dpkg failed on",
        "removal": "apt would remove an essential package",
    }  # fmt: skip
    return f"cannot install {names}: {titles.get(failure, 'apt failed')}: {explanation}"
