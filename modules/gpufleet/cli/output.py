"""What the command line prints: the one place that writes to standard output and error.

Names, serials, reasons and messages come from nodes, clouds, files and pull requests. Every line is made printable
here, so that none of them moves a cursor, sets a title, hides text or commands a CI system. JSON stays JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpufleet.boundary import make_block_printable, make_printable, make_values_printable

Answer = TypeVar("Answer")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""The option of every command that can print JSON."""

WORKFLOW_COMMAND = re.compile(r"^(\s*)::|##(vso)?\[", re.MULTILINE)
"""What GitHub's and Azure's runners obey when a job prints it: `::set-output …`, `##[…]` and `##vso[…]`."""


def print_lines(*lines: object, err: bool = False) -> None:
    """Print each value as one line."""
    for line in lines:
        click.echo(neutralize_ci_commands(make_printable(line, None)), err=err)


def print_text_block(text: object, *, err: bool = False) -> None:
    """Print a text of several lines, whose values are printable already (``boundary.make_values_printable``)."""
    click.echo(neutralize_ci_commands(make_block_printable(text)), err=err)


def print_json(data: Any) -> None:
    """Print data as JSON; its strings are ASCII, with everything else escaped."""
    print_rendered(json.dumps(data, indent=2), as_json=True)


def print_rendered(text: str, *, as_json: bool) -> None:
    """Print what another room wrote: JSON that decodes to the same values, or a text of several lines."""
    if not as_json:
        print_text_block(text)
        return
    ascii_text = text if text.isascii() else "".join(map(_escaped, text))
    click.echo(
        ascii_text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[").replace("##vso[", "#\\u0023vso[")
    )


def _escaped(character: str) -> str:
    return character if character.isascii() else json.dumps(character)[1:-1]


def print_result(
    as_json: bool, value: Answer, to_json_data: Callable[[Answer], Any], format_text: Callable[[Answer], str]
) -> None:
    """Print a verb's answer as JSON, or as text with every string in the answer printable."""
    if as_json:
        print_json(to_json_data(value))
    else:
        print_text_block(format_text(make_values_printable(value)))


def neutralize_ci_commands(text: str) -> str:
    """Return text that no CI system takes for a command."""
    return WORKFLOW_COMMAND.sub(
        lambda match: f"{match[1]}: :" if match[1] is not None else f"# #{match[2] or ''}[", text
    )


def prompt_for_text(question: str) -> str:
    """Return what a person types."""
    safe_question = neutralize_ci_commands(make_printable(question, None))
    return str(click.prompt(safe_question, prompt_suffix="", default="", show_default=False, err=True))


def ask_for_confirmation(question: str) -> bool:
    """Return whether a person agrees."""
    return click.confirm(neutralize_ci_commands(make_printable(question, None)), err=True)
