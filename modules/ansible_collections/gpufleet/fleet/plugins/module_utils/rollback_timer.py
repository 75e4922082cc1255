# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""A timer of the host that takes a change back, unless it is stopped before."""

from __future__ import annotations

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import first_nonempty_line, run_program


def start_rollback_timer(name: str, seconds: int, script: str) -> str:
    """Run a shell script after so many seconds; return why the timer cannot be started, or an empty string."""
    timer = ["systemd-run", "--quiet", "--collect", f"--unit={name}", f"--on-active={seconds}",
             "--timer-property=AccuracySec=100ms", "sh", "-c", script]  # fmt: skip
    status, __, err = run_program(timer)
    return f"the rollback timer cannot be started: {first_nonempty_line(err)}" if status != 0 else ""


def is_rollback_armed(name: str) -> bool:
    """Return whether the timer runs."""
    return run_program(["systemctl", "is-active", "--quiet", f"{name}.timer"])[0] == 0


def stop_rollback_timer(name: str) -> None:
    """Stop the timer; nothing happens if it does not run."""
    run_program(["systemctl", "stop", f"{name}.timer"])
