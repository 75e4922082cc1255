"""Before a run: which hosts and how many tasks it will have, or what is wrong with the request.

``ansible-playbook --list-hosts --list-tasks`` knows both; its words are read here, so that a misspelt pattern is
told apart from a group that is empty today.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import LARGE_DOCUMENT, decode_json_object, make_printable
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.remote.task_selection import ALL_TASKS, TaskSelection, find_unlisted_tags

LIST_TIMEOUT_SECONDS = 120
REQUIREMENTS = (
    "requirements.yml"  # what ansible-galaxy installs; the one file next to the playbooks that is none
)
MAX_NAMES = 20_000  # that the ranges of a limit mean
MAX_DIGITS = 9  # of a slot's number; a longer range is too long whatever it is
# A name with a range of numbers in it, and the sign that Ansible lets stand before it.
# It begins where a name does and never goes back, or a long text without brackets takes time by its square.
FOLDED = re.compile(r"(!?)(?<![\w.-])([\w.-]++(?:\[\d++(?:-\d++)?(?:,\d++(?:-\d++)?)*+\][\w.-]*+)+)")


@dataclass(frozen=True)
class RunPlan:
    """A request that can be run: a playbook of the project, a pattern and the hosts that it means today."""

    root: Path
    playbook: str
    limit: str | None
    hosts: tuple[str, ...]
    tasks: tuple[str, ...]
    plays: tuple[str, ...] = ()
    selection: TaskSelection = ALL_TASKS
    warnings: tuple[str, ...] = ()


def list_playbook_names(root: Path) -> list[str]:
    """Return the names that ``--play`` takes: the playbooks in the project's playbooks folder."""
    return sorted(path.stem for path in (root / "playbooks").glob("*.yml") if path.name != REQUIREMENTS)


def plan_playbook_run(
    root: Path, play: str = "site", limit: str | None = None, selection: TaskSelection = ALL_TASKS
) -> RunPlan:
    """Check the request against the project and its inventory; raise InputError for what it does not know."""
    limit = expand_limit_ranges(limit) if limit else limit
    known_plays = list_playbook_names(root)
    if play not in known_plays:
        close = difflib.get_close_matches(play, known_plays, n=3)
        remedy = (
            f"did you mean {' or '.join(close)}?"
            if close
            else f"plays: {', '.join(known_plays) or 'none, the playbooks folder is missing'}"
        )
        raise InputError(f"play {play!r} not found", key="--play", remedy=remedy)
    command = [
        "ansible-playbook",
        "-i",
        str(root / "inventory"),
        "--list-hosts",
        "--list-tasks",
        f"{play}.yml",
    ]
    command += ["--limit", limit] if limit else []
    status, out, err = run_ansible_command(root, command)
    unknown_names = find_unknown_host_patterns(err, limit or "")
    if unknown_names:
        raise InputError(
            f"no host or group {unknown_names[0]!r}",
            key="--limit",
            remedy=suggest_host_names(root, unknown_names[0]),
        )
    if status == 0:
        warnings = find_unlisted_tags(selection, parse_listed_tags(out), play)
        if selection.arguments:  # the tasks that Ansible selects
            out = run_ansible_command(root, [*command, *selection.arguments])[1]
        return RunPlan(
            root,
            play,
            limit,
            tuple(parse_listed_hosts(out)),
            tuple(parse_listed_tasks(out)),
            tuple(parse_listed_plays(out)),
            selection,
            warnings,
        )
    if "no hosts to target" in err:
        return RunPlan(root, play, limit, (), (), (), selection)
    cause = find_inventory_error(err)
    raise InputError(cause or find_ansible_error(err), where="" if cause else "inventory or playbook")


def expand_limit_ranges(limit: str) -> str:
    """Write the ranges that we print, such as ``blade[01-03]``, as the names that Ansible knows.

    Ansible's own brackets, ``group[0:2]``, stay as they are: they have a colon.
    """
    if sum(_count_names(match[2]) for match in FOLDED.finditer(limit)) > MAX_NAMES:
        raise InputError(
            f"{make_printable(limit, 60)} expands to more than {MAX_NAMES:,} names", key="--limit"
        )
    return FOLDED.sub(lambda match: ",".join(match[1] + name for name in _expand_range(match[2])), limit)


def _expand_range(folded: str) -> list[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError

    try:
        return list(NodeSet(folded, resolver=RESOLVER_NOGROUP))
    except (NodeSetParseError, AssertionError, ValueError) as error:
        raise InputError(
            make_printable(error), key="--limit", remedy="write ranges like blade[01-20]"
        ) from None


def _count_names(folded: str) -> int:
    """Return how many names a folded name means, without writing them out."""
    count = 1
    for ranges in re.findall(r"\[([^\]]*)\]", folded):
        pairs = (bounds.partition("-") for bounds in ranges.split(","))
        count *= sum(_range_size(first, last) if dash else 1 for first, dash, last in pairs)
    return count


def _range_size(first: str, last: str) -> int:
    if max(len(first), len(last)) > MAX_DIGITS:
        return MAX_NAMES + 1
    return max(1, int(last) - int(first) + 1)


def run_ansible_command(root: Path, command: list[str]) -> tuple[int, str, str]:
    """Run one of Ansible's programs in the playbooks folder, where its configuration is."""
    try:
        completed = subprocess.run(
            command, cwd=root / "playbooks", env=build_ansible_environment(root), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LIST_TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError as missing:
        raise EnvironmentFault(f"{command[0]} is not installed", hint="pip install ansible-core") from missing
    except subprocess.TimeoutExpired as slow:
        raise EnvironmentFault(
            f"{command[0]} took over {LIST_TIMEOUT_SECONDS} s to read the inventory"
        ) from slow
    return completed.returncode, completed.stdout, completed.stderr


def read_ansible_inventory(root: Path) -> dict[str, Any]:
    """Return the whole inventory as Ansible sees it; a host's own variables are apart from its groups'."""
    command = ["ansible-inventory", "-i", str(root / "inventory"), "--list", "--export"]
    status, out, err = run_ansible_command(root, command)
    if status:
        cause = find_inventory_error(err)
        raise InputError(cause or find_ansible_error(err), where="" if cause else "inventory")
    return decode_json_object(out, "ansible-inventory", LARGE_DOCUMENT)


def build_ansible_environment(root: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for Ansible: our programs first, our configuration, host keys checked."""
    env = dict(os.environ if base is None else base)
    scripts = str(Path(sys.executable).parent)
    return env | {
        "PATH": os.pathsep.join([scripts, env.get("PATH", os.defpath)]),
        "ANSIBLE_CONFIG": str(root / "playbooks" / "ansible.cfg"),
        # ansible-runner switches the check off unless the environment already has an opinion.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_NOCOLOR": "1",
    }


def find_unknown_host_patterns(stderr_text: str, limit: str) -> list[str]:
    """Return the parts of the limit that Ansible could not match; plays may name groups made while they run."""
    text = " ".join(stderr_text.split())
    ignored = re.findall(r"Could not match supplied host pattern, ignoring: (\S+)", text)
    requested = {part.lstrip("!&") for part in re.split(r"[,:]", limit)}
    return [pattern for pattern in dict.fromkeys(ignored) if pattern in requested]


def suggest_host_names(root: Path, pattern: str) -> str:
    """Return the groups and hosts whose names are close to the pattern."""
    status, out, _ = run_ansible_command(root, ["ansible-inventory", "-i", str(root / "inventory"), "--list"])
    names = parse_inventory_names(out) if status == 0 else []
    grouped = re.sub(
        r"[^A-Za-z0-9]", "_", pattern
    )  # as the inventory writes the names of racks, pools, templates
    close = [name for name in names if name.split("_", 1)[1:] == [grouped]]
    close = (
        close or difflib.get_close_matches(pattern, names, n=3) or [name for name in names if "new" in name]
    )
    return (
        f"did you mean {' or '.join(close)}?"
        if close
        else "ansible-inventory -i inventory --graph shows what there is"
    )


def parse_inventory_names(inventory_json: str) -> list[str]:
    """Return every group and host in an inventory as JSON."""
    inventory = decode_json_object(inventory_json, "ansible-inventory", LARGE_DOCUMENT)
    hosts = inventory.get("_meta", {}).get("hostvars", {})
    return sorted({*inventory, *hosts} - {"_meta"})


def parse_listed_hosts(stdout_text: str) -> list[str]:
    """Return the hosts of all plays, in order, each once."""
    blocks = re.findall(r"^ +hosts \(\d+\):\n((?: {6}\S+\n)*)", stdout_text, re.MULTILINE)
    return list(dict.fromkeys(line.strip() for block in blocks for line in block.splitlines()))


def parse_listed_tasks(stdout_text: str) -> list[str]:
    """Return the names of all plays' tasks, in order."""
    return [name.strip() for name in re.findall(r"^ {6}(.*)\tTAGS: ", stdout_text, re.MULTILINE)]


def parse_listed_tags(stdout_text: str) -> frozenset[str]:
    """Return the tags of all tasks."""
    lists = re.findall(r"^ {6}.*\tTAGS: \[(.*)\]$", stdout_text, re.MULTILINE)
    return frozenset(tag for names in lists for tag in names.split(", ") if tag)


def parse_listed_plays(stdout_text: str) -> list[str]:
    """Return the names of all plays, in order."""
    return re.findall(r"^  play #\d+ \(.*\): (.*)\tTAGS: ", stdout_text, re.MULTILINE)


def find_inventory_error(stderr_text: str) -> str:
    """Return the error of our inventory plugins, which Ansible prints as a warning before its own error."""
    match = re.search(
        r"Failed to parse inventory with 'auto' plugin: (.+?)(?:\n\n|\Z)", stderr_text, re.DOTALL
    )
    return " ".join(match[1].split()) if match else ""


def find_ansible_error(stderr_text: str) -> str:
    """Return Ansible's first error in one line."""
    lines = stderr_text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(("[ERROR]:", "ERROR!"))), None)
    if start is None:
        return next((line for line in reversed(lines) if line.strip()), "Ansible stopped without a reason")
    return re.sub(r"^(\[ERROR\]:|ERROR!)\s*", "", lines[start]).strip()
