"""A group of commands: imported when used, with the options that all commands share, suggestions and completion."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from gpufleet.cli import completion, terminal
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBOSE = "gpufleet.verbose"
"""Key of ``Context.meta``: True if errors come with their place in the program."""
LONGEST_SUMMARY = 200
SYNONYMS = MappingProxyType({
    "new": "init", "create": "init", "start": "init", "check": "validate", "lint": "validate", "verify": "validate",
    "plan": "cost diff", "preview": "cost diff", "diff": "cost diff", "estimate": "cost estimate", "price": "prices",
    "ls": "list", "run": "configure", "apply": "configure", "ansible": "configure", "inventory": "nodes",
    "status": "nodes list", "sync": "nodes sync", "simulate": "rehearse", "report": "console", "gpu": "compare",
    "nodes drift": "versions", "nodes diff": "versions",
})  # fmt: skip
"""What people type from other programs, and the command that does it here."""


def _record_flag(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    key = terminal.QUIET if param.name == "quiet" else VERBOSE
    ctx.meta[key] = ctx.meta.get(key, False) or value
    ctx.meta[terminal.COMMAND] = ctx.command_path


def make_common_options(*, hidden: bool) -> list[click.Option]:
    """Return --quiet and --verbose: every command takes them, and the help of gpufleet lists them once."""
    return [
        click.Option(
            ["-q", "--quiet"], is_flag=True, hidden=hidden, expose_value=False, callback=_record_flag,
            help="Print results and errors only; works after a command too.",
        ),
        click.Option(
            ["-v", "--verbose"], is_flag=True, hidden=hidden, expose_value=False, callback=_record_flag,
            help="Also print where in the program an error came from.",
        ),
    ]  # fmt: skip


class LazyGroup(click.Group):
    """A click group that imports a command's file when the command is used.

    ``lazy_commands`` has the module in ``gpufleet.cli`` and the function of each, ``summaries`` a line for help.
    """

    def __init__(
        self,
        *arguments: Any,
        lazy_commands: Mapping[str, tuple[str, str]] = MappingProxyType({}),
        summaries: Mapping[str, str] = MappingProxyType({}),
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.lazy_commands, self.summaries = lazy_commands, summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries) or sorted({*super().list_commands(ctx), *self.lazy_commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if cmd_name in self.lazy_commands:
            module, name = self.lazy_commands[cmd_name]
            gc.disable()  # what is imported stays: searching it for garbage takes a tenth of a short command's time
            command = getattr(import_module(f"gpufleet.cli.{module}"), name)
            gc.freeze()
            gc.enable()
        if command and not any(param.name == "quiet" for param in command.params):
            command.params += make_common_options(hidden=True)
            completion.complete_names(command.params)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        similar = list(self._find_similar_commands(ctx, name))
        paths = " or ".join(f"{ctx.command_path} {each}" for each in similar[:3])
        remedy = f"did you mean {paths}?" if paths else f"{ctx.command_path} --help lists the commands"
        raise InputError(f"no command {name!r}", where=ctx.command_path, remedy=remedy)

    def _find_similar_commands(self, ctx: click.Context, name: str) -> Iterator[str]:
        """Yield the commands that a name may mean: from other programs, misspelt, or one of a group's."""
        names = self.list_commands(ctx)
        synonym = SYNONYMS.get(f"{ctx.info_name} {name.lower()}") or SYNONYMS.get(name.lower(), "")
        if synonym.partition(" ")[0] in names:
            yield synonym
            return
        from difflib import get_close_matches

        yield from get_close_matches(name.lower(), names, n=2)
        for group_name in names:
            group = self.get_command(ctx, group_name)
            if isinstance(group, click.Group) and name in group.list_commands(ctx):
                yield f"{group_name} {name}"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their first sentence, from the table where there is one: help needs no imports."""
        rows = list(self.summaries.items())
        for name in () if rows else self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command and not command.hidden:
                rows.append((name, command.get_short_help_str(LONGEST_SUMMARY)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the commands, likewise without imports, and the options."""
        if not self.summaries:
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        options = click.Command.shell_complete(self, ctx, incomplete)
        names = self.summaries.items()
        return [
            CompletionItem(name, help=text) for name, text in names if name.startswith(incomplete)
        ] + options
