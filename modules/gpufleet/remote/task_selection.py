"""Which tasks of a playbook run: Ansible's ``--tags`` and ``--skip-tags``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gpufleet.boundary import make_printable
from gpufleet.errors import InputError

# A name only: the options become part of a command line, also on mesh nodes.
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
SPECIAL_TAGS = frozenset({"all", "always", "never", "tagged", "untagged"})


@dataclass(frozen=True)
class TaskSelection:
    """Tags of the tasks to run and to skip; without any, all tasks run."""

    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Return the options for Ansible's programs."""
        options = (("--tags", self.tags), ("--skip-tags", self.skip_tags))
        return [argument for option, names in options if names for argument in (option, ",".join(names))]


ALL_TASKS = TaskSelection()


def parse_task_selection(tags: Iterable[str], skip_tags: Iterable[str]) -> TaskSelection:
    """Return the selection of values such as ``sshd,audit``; raise InputError for what cannot be a tag."""
    return TaskSelection(_parse_tag_names(tags, "--tags"), _parse_tag_names(skip_tags, "--skip-tags"))


def _parse_tag_names(values: Iterable[str], option: str) -> tuple[str, ...]:
    names = [name.strip() for value in values for name in value.split(",")]
    for name in names:
        if not TAG.fullmatch(name):
            raise InputError(
                f"{make_printable(name, 60)!r} is not a tag", key=option, remedy="write names like sshd,audit"
            )
    return tuple(dict.fromkeys(names))


def find_unlisted_tags(selection: TaskSelection, listed_tags: Collection[str], play: str) -> tuple[str, ...]:
    """Return a warning for each tag that no listed task has; roles included during the run are not listed."""
    requested = dict.fromkeys((*selection.tags, *selection.skip_tags))
    warnings = []
    for tag in requested:
        if tag not in listed_tags and tag not in SPECIAL_TAGS:
            close = difflib.get_close_matches(tag, sorted(listed_tags), n=3)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            scope = "only roles that are included during the run can have it"
            warnings.append(f"warning: {play}.yml lists no task with the tag {tag!r}{hint or f'; {scope}'}")
    return tuple(warnings)
