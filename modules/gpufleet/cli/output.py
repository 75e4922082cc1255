"""What the command line prints: the one place that writes to standard output and error.

Names, serials, reasons and messages come from nodes, clouds, files and pull requests. Every line is made printable
here, so that none of them moves a cursor, sets a title, hides text or commands a CI system. JSON stays JSON.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from gpufleet.boundary import make_block_printable, make_printable, make_values_printable
from gpufleet.cli import terminal
from gpufleet.errors import InputError

Answer = TypeVar("Answer")
Verb = TypeVar("Verb", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
EXTENSIONS = {
    ".txt": "table", ".md": "markdown", ".json": "json", ".html": "html", ".xml": "junit", ".csv": "focus",
    ".svg": "svg", "": "pages",
}  # fmt: skip
"""The format of a file by the end of its name; pages are a folder."""
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_FORMAT_HELP = ("Default: table.", "Default: table; focus: CSV of FOCUS 1.2.")
WORKFLOW_COMMAND = re.compile(r"^(\s*)::|##(vso)?\[", re.MULTILINE)
"""What GitHub's and Azure's runners obey when a job prints it: `::set-output …`, `##[…]` and `##vso[…]`."""


def print_lines(*lines: object, err: bool = False, is_note: bool = True) -> None:
    """Print each value as one line; --quiet leaves out notes, which go to standard error."""
    if lines and not (err and is_note and terminal.is_quiet()):
        _echo("\n".join(make_printable(line, None) for line in lines), err=err)


def print_text_block(text: object, *, err: bool = False) -> None:
    """Print a text of several lines, whose values are printable already (``boundary.make_values_printable``)."""
    if not (err and terminal.is_quiet()):
        _echo(make_block_printable(text), err=err)


def print_error(message: object, hint: str | None = None) -> None:
    """Print an error, and after a blank line what helps."""
    _echo(f"error: {make_printable(message, None)}", err=True)
    if hint:
        _echo(f"\nhint: {make_printable(hint, None)}", err=True)


def print_json_line(data: Any) -> None:
    """Print data as JSON on one line, for a command that prints one after the other."""
    print_rendered(json.dumps(data), as_json=True)


def print_json(data: Any) -> None:
    """Print data as JSON; its strings are ASCII, with everything else escaped."""
    print_rendered(json.dumps(data, indent=2), as_json=True)


def print_rendered(text: str, *, as_json: bool) -> None:
    """Print what another room wrote: JSON that decodes to the same values, or a text of several lines."""
    if not as_json:
        print_text_block(text)
        return
    ascii_text = text if text.isascii() else "".join(map(_escaped, text))
    terminal.write_text_out(
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


def print_export(text: str, out: Path | None, *, as_json: bool, data: dict[str, Any]) -> None:
    """Print a text for another program, or write it to a file; as JSON it is ``text`` beside ``data``."""
    from gpufleet.boundary import write_text

    if out is not None:
        write_text(out, text)
    if as_json:
        print_json({**data, "text": text})
    elif out is None:
        print_text_block(text.rstrip("\n"))
    else:
        print_lines(f"wrote {out}", err=True)


def print_data(as_json: bool, data: Any, lines: Iterable[object]) -> None:
    """Print a verb's answer as JSON, or as lines."""
    if as_json:
        print_json(data)
    else:
        print_lines(*lines)


def print_change(as_json: bool, data: Any, lines: Iterable[object]) -> None:
    """Print what a verb has done: as JSON on standard output, or as lines on standard error."""
    if as_json:
        print_json(data)
    else:
        print_lines(*lines, err=True)


def neutralize_ci_commands(text: str) -> str:
    """Return text that no CI system takes for a command."""
    return WORKFLOW_COMMAND.sub(
        lambda match: f"{match[1]}: :" if match[1] is not None else f"# #{match[2] or ''}[", text
    )


def prompt_for_text(question: str) -> str:
    """Return what a person types."""
    terminal.progress_line.stop()
    safe_question = neutralize_ci_commands(make_printable(question, None))
    return str(click.prompt(safe_question, prompt_suffix="", default="", show_default=False, err=True))


def ask_for_confirmation(question: str) -> bool:
    """Return whether a person agrees."""
    terminal.progress_line.stop()
    return click.confirm(neutralize_ci_commands(make_printable(question, None)), err=True)


def _echo(text: str, *, err: bool) -> None:
    terminal.write_text_out(neutralize_ci_commands(text), err=err)


def json_option(command: Verb) -> Verb:
    """Add --json and --output to a command that prints text or JSON; it gets ``as_json``."""

    @functools.wraps(command)
    def run(*arguments: Any, as_json: bool, output_file: Path | None, **options: Any) -> Any:
        extension = find_format(output_file, ("table", "json")) if output_file else ""
        with terminal.write_results_to(output_file):
            return command(*arguments, as_json=as_json or extension == "json", **options)

    option = click.option(
        "--output",
        "output_file",
        type=FILE,
        metavar="FILE",
        help="Write the result to a file: .txt or .json.",
    )
    return option(json_flag(run))  # type: ignore[return-value]  # the same command, with other options


def find_format(file: Path, formats: tuple[str, ...]) -> str:
    """Return the format of a file by its name; raise InputError for one that the command does not have."""
    format_name = "pages" if file.is_dir() else EXTENSIONS.get(file.suffix.lower())
    if format_name not in formats:
        remedy = f"use {list_endings(formats)}"
        raise InputError(f"unknown file extension {file.suffix!r}", where=f"--output {file}", remedy=remedy)
    return str(format_name)


def list_endings(formats: tuple[str, ...]) -> str:
    """Return the ends of the file names that a command can write, as text."""
    endings = [ending for ending, name in EXTENSIONS.items() if name in formats and ending]
    text = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
    return f"{text}, or a folder of pages" if "pages" in formats else text


class ReportOutput(NamedTuple):
    """Where a report goes: files with their formats, and standard output without files."""

    files: tuple[tuple[Path, str], ...] = ()
    printed_format: str | None = "table"

    def list_formats(self) -> list[str | None]:
        """Return the formats in which the report is written."""
        return [self.printed_format, *(name for _, name in self.files)]

    def list_folders(self) -> list[Path]:
        """Return the folders for reports of several pages, which ``write`` leaves to the command."""
        return [path for path, name in self.files if name == "pages"]

    def write(self, render: Callable[[str], str]) -> None:
        """Write the report to every file, and print it in its format; nothing if one of them cannot be rendered."""
        from gpufleet.boundary import write_text

        with terminal.keep_lines_whole():
            texts = [(path, render(name)) for path, name in self.files if name != "pages"]
        for path, text in texts:
            write_text(path, text.rstrip("\n") + "\n")
            print_lines(f"wrote {path}", err=True)
        if self.printed_format:
            print_rendered(render(self.printed_format), as_json=self.printed_format == "json")


class OutputOption(click.Option):
    """An option that also has names of earlier releases, which help does not show."""

    def __init__(self, *arguments: Any, former_names: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.former_names = former_names

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        if self.former_names:
            action = "append" if self.multiple else "store"
            parser.add_option(self, self.former_names, self.name, action=action, nargs=1)


def target_option(help_text: str, metavar: str = "FILE", **attributes: Any) -> Callable[[Verb], Verb]:
    """Return --output of a command that writes one thing; it gets ``out``."""
    return click.option(
        "--output",
        "out",
        cls=OutputOption,
        former_names=("--out",),
        metavar=metavar,
        help=help_text,
        **attributes,
    )


def report_options(
    *formats: str, has_format: bool = False, former_names: Sequence[str] = ()
) -> Callable[[Verb], Verb]:
    """Add --output (repeatable) and --json to a command with more formats; it gets ``report``, a ReportOutput.

    With ``has_format`` it also has --format, which counts for the file too. ``former_names`` are of --output.
    """

    def decorate(command: Verb) -> Verb:
        @functools.wraps(command)
        def run(*arguments: Any, outputs: tuple[Path, ...], **options: Any) -> Any:
            requested = options.pop("output_format", None)
            requested = "json" if options.pop("as_json", False) else requested
            if not outputs and "table" not in formats:
                raise InputError(
                    "no file given", where="--output", remedy=f"give --output report.{formats[0]}"
                )
            files = tuple(
                (path, _choose_format(path, formats, requested if has_format else None, len(outputs)))
                for path in outputs
            )
            is_printed = not files or (requested and not has_format)
            report = ReportOutput(files, (requested or "table") if is_printed else None)
            return command(*arguments, report=report, **options)

        more = " or of --format" if has_format else ""
        added = [
            click.option(
                "--output", "outputs", type=FILE, multiple=True, metavar="FILE",
                cls=OutputOption, former_names=former_names,
                help=f"Write a file in the format of its name ({list_endings(formats)}){more}; repeatable.",
            )
        ]  # fmt: skip
        added += [json_flag] if "json" in formats else []
        if has_format:
            kinds = click.Choice(formats)
            added.append(
                click.option("--format", "output_format", type=kinds, help=_FORMAT_HELP["focus" in formats])
            )
        for option in added:
            run = option(run)
        return run  # type: ignore[return-value]  # the same command, with other options

    return decorate


def _choose_format(file: Path, formats: tuple[str, ...], requested: str | None, count: int) -> str:
    """Return the format of a file: the requested one, but that of its name if there are several files."""
    if requested and (count == 1 or EXTENSIONS.get(file.suffix.lower()) not in formats):
        return requested
    return find_format(file, formats)
