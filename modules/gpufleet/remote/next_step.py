"""The next step for a person after a failure, by the message of Ansible, ssh, apt or sshd. Pure."""

from __future__ import annotations

import re

RESUME = "gpufleet configure --resume"
AGAIN = "then {again}"
SILENCE = (
    r"ended without a message|[Tt]imed out|Timeout, server|No route to host|Broken pipe|closed by remote"
    r"|Connection (?:refused|reset|closed)"
)
# What was said -> what helps. The first that fits counts; for anything else the reason alone has to do.
STEPS = (
    (r"not done: Ansible ended|not reached: no ", "{again}"),
    (r"Ansible did not read why", f"run ssh to its address, which shows the cause, {AGAIN}"),
    (r"Host key for .* has changed|host key is known for|Host key verification failed",
     f"compare the key with the host's own console; if it is right, ssh-keygen -R its address and accept it, {AGAIN}"),
    (r"Permission denied \(publickey", f"check which login and key the host accepts (ansible_user), {AGAIN}"),
    (r"is still held by .* after \d+ s", f"let that process finish, or stop it, {AGAIN}"),
    (r"[Nn]o space left", f"free space on the host (df -h; du -xhd1 /), {AGAIN}"),
    (r"sshd would |Bad configuration option", f"correct hardening_sshd_settings, {AGAIN}"),
    (r"host's sshd supports none of|not the name of an algorithm|through with sshd's new settings",
     f"correct the hardening_sshd_… lists, {AGAIN}"),
    (r"temporary folder is refused", f"find out who created that folder, remove or correct it on the host, {AGAIN}"),
    (r"could not be repaired", f"check it with dpkg --audit on the host, {AGAIN}"),
    (r"package source can't be reached|could not be fetched", f"check whether the host reaches its mirror, {AGAIN}"),
    (r"UNKNOWN port",
     "check what the connection goes through (ProxyCommand); in a rehearsal, cloud machines are only simulated"),
    (SILENCE, f"check whether it has power and a network cable, {AGAIN}"),
)  # fmt: skip


def suggest_next_step(failure_reason: str, again: str = RESUME) -> str:
    """Return what helps against a failure, or an empty string where nothing is known.

    ``again`` is the command that ends the matter afterwards; empty where no run does.
    """
    step = next((step for pattern, step in STEPS if re.search(pattern, failure_reason)), "")
    return step.format(again=again) if again else step.removesuffix(f", {AGAIN}").replace("{again}", "")


def append_next_step(failure_reason: str, again: str = RESUME) -> str:
    """Return the reason with what helps behind it."""
    step = suggest_next_step(failure_reason, again)
    return f"{failure_reason}; next: {step}" if step else failure_reason
