"""What a command does at the moment: rooms report a step, and the command line shows it if the command takes long."""

from __future__ import annotations

current_step = ""


def report_step(text: str) -> None:
    """Record what is done from now on, such as ``pricing the stack at HEAD``."""
    global current_step  # noqa: PLW0603 - one command per process
    current_step = text
