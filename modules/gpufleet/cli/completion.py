"""Names that a shell completes: stacks, racks, nodes, playbooks. Fast, and without a word if it cannot know.

eval "$(_GPUFLEET_COMPLETE=bash_source gpufleet)"       # or zsh_source; fish: fish_source
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from gpufleet import paths

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def list_stack_names() -> Iterable[str]:
    """Return the stacks that have a file."""
    folder = paths.find_project_root() / "stacks"
    return map(paths.read_stack_name, folder.glob("Pulumi.*.yaml"))


def list_rack_names() -> Iterable[str]:
    """Return the racks of the inventory, by their files."""
    from gpufleet.fleet.rack_file import list_rack_file_names

    return list_rack_file_names(paths.find_project_root())


def list_node_names() -> Iterable[str]:
    """Return the nodes of the registry, if there is one."""
    from gpufleet.nodes import Registry

    url = paths.registry_database_url()
    if not Registry.has_registry(url):
        return []
    with Registry(url) as registry:
        return [node.name for node in registry.list_nodes()]


def list_host_patterns() -> Iterable[str]:
    """Return the nodes and the groups that most patterns begin with."""
    return ["all", "new_nodes", *list_node_names()]


def list_plays() -> Iterable[str]:
    """Return the playbooks of the project and of gpufleet."""
    from gpufleet.remote.plan import list_playbook_names

    return list_playbook_names(paths.find_project_root())


def list_clouds() -> Iterable[str]:
    """Return the clouds that have prices."""
    from gpufleet.catalog.cloud import CLOUDS

    return CLOUDS


SOURCES: dict[str, Callable[[], Iterable[str]]] = {
    "stack": list_stack_names,
    "emit": list_stack_names,
    "rack": list_rack_names,
    "node": list_node_names,
    "nodes": list_node_names,
    "names": list_node_names,
    "part": list_node_names,
    "limit": list_host_patterns,
    "play": list_plays,
    "cloud": list_clouds,
}
"""Where the values of an option or argument come from, by its name in the program."""


class ProjectName(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """A text whose value a shell can complete."""

    name = "text"

    def __init__(self, list_names: Callable[[], Iterable[str]]) -> None:
        self.list_names = list_names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Return the name; the file of a stack is refused with the stack's name."""
        if self.list_names is list_stack_names:
            paths.refuse_stack_file_name(value)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the names that begin so; none if they cannot be read: a shell shows no errors."""
        from click.shell_completion import CompletionItem

        try:
            names = sorted(self.list_names())
        except Exception:  # noqa: BLE001 - whatever is wrong, a person is in the middle of a line
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_names(params: Iterable[click.Parameter]) -> None:
    """Let a shell complete the options and arguments that name a stack, a rack or a node."""
    for param in params:
        if param.type is click.STRING and param.name in SOURCES:
            param.type = ProjectName(SOURCES[param.name])
