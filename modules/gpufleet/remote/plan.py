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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpufleet.boundary import LARGE_DOCUMENT, decode_json_object, make_printable
from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.progress import report_step
from gpufleet.remote.host_pattern import HostPattern, parse_host_pattern
from gpufleet.remote.task_selection import ALL_TASKS, TaskSelection, find_unlisted_tags

LIST_TIMEOUT_SECONDS = 120
NO_HOSTS = "no hosts to target"  # Ansible's error for a limit that selects none
REPORT_UNKNOWN_NAMES = MappingProxyType({"ANSIBLE_HOST_PATTERN_MISMATCH": "warning"})
THIS_MACHINE = frozenset(("localhost", "127.0.0.1", "::1"))  # what Ansible adds to an inventory without it
# What ansible-galaxy installs; the one file next to the playbooks that is none.
REQUIREMENTS = "requirements.yml"
PLAYBOOKS = "playbooks"
SHIPPED_PLAYBOOKS = Path(__file__).parents[2] / "ansible_collections/gpufleet/fleet" / PLAYBOOKS


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
    """Return the names that ``--play`` takes: the project's own playbooks and those of the collection."""
    files = [path for folder in (root / PLAYBOOKS, SHIPPED_PLAYBOOKS) for path in folder.glob("*.yml")]
    return sorted({path.stem for path in files if path.name != REQUIREMENTS})


def find_playbook(root: Path, play: str) -> str:
    """Return what ``ansible-playbook`` calls a playbook: the project's own file, else the collection's name."""
    file = f"{play}.yml"
    return file if (root / PLAYBOOKS / file).is_file() else f"gpufleet.fleet.{play}"


def find_ansible_folder(root: Path) -> Path:
    """Return the folder in which Ansible runs: the project's playbooks folder, else the project's."""
    folder = root / PLAYBOOKS
    return folder if folder.is_dir() else root


def find_ansible_config(root: Path) -> Path:
    """Return the project's ansible.cfg, next to its playbooks or at its top; without one, the collection's."""
    files = [folder / "ansible.cfg" for folder in (root / PLAYBOOKS, root, SHIPPED_PLAYBOOKS)]
    return next((file for file in files if file.is_file()), files[-1])


def plan_playbook_run(
    root: Path, play: str = "site", limit: str | None = None, selection: TaskSelection = ALL_TASKS
) -> RunPlan:
    """Check the request against the project and its inventory; raise InputError for what it does not know.

    Raise CheckFailed if the operators of the limit leave no host of those that it names.
    """
    pattern = None if limit is None else parse_host_pattern(limit)
    require_known_play(root, play)
    if pattern and pattern.range_names:
        require_known_names(root, pattern.range_names)
    ansible_limit = pattern.ansible_limit if pattern else None
    command = build_list_command(root, play, ansible_limit)
    report_step("Ansible reads inventory and playbooks")
    status, out, err = run_ansible_command(root, command, REPORT_UNKNOWN_NAMES)
    hosts = parse_listed_hosts(out)
    unknown_names = find_unknown_host_patterns(err, pattern, hosts) if pattern else []
    if unknown_names:
        raise build_unknown_name_error(root, unknown_names[0])
    if status == 0:
        warnings = find_unlisted_tags(selection, parse_listed_tags(out), play)
        if selection.arguments:  # the tasks that Ansible selects
            out = run_ansible_command(root, [*command, *selection.arguments])[1]
        return RunPlan(
            root,
            play,
            ansible_limit,
            tuple(hosts),
            tuple(parse_listed_tasks(out)),
            tuple(parse_listed_plays(out)),
            selection,
            warnings,
        )
    if NO_HOSTS in err:
        if pattern and pattern.has_selection:
            require_empty_union(root, play, pattern)
        return RunPlan(root, play, ansible_limit, (), (), (), selection)
    cause = find_inventory_error(err)
    raise InputError(cause or find_ansible_error(err), where="" if cause else "inventory or playbook")


def build_list_command(root: Path, play: str, limit: str | None) -> list[str]:
    """Return the command that lists the hosts and tasks of a run."""
    command = [
        "ansible-playbook",
        "-i",
        str(root / "inventory"),
        "--list-hosts",
        "--list-tasks",
        find_playbook(root, play),
    ]
    return command if limit is None else [*command, "--limit", limit]


def require_known_play(root: Path, play: str) -> None:
    """Raise InputError, with the nearest names, for a playbook that the project does not have."""
    known_plays = list_playbook_names(root)
    if play not in known_plays:
        close = difflib.get_close_matches(play, known_plays, n=3)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"plays: {', '.join(known_plays)}"
        raise InputError(f"play {play!r} not found", key="--play", remedy=remedy)


def require_known_names(root: Path, names: frozenset[str]) -> None:
    """Raise InputError unless each name of a range is a host or a group: Ansible would ignore the others."""
    status, out, err = run_ansible_command(root, build_inventory_command(root))
    if status:
        cause = find_inventory_error(err)
        raise InputError(cause or find_ansible_error(err), where="" if cause else "inventory")
    hosts, groups = parse_inventory_names(out)
    if ambiguous_names := names & hosts & groups:
        raise InputError(
            f"{min(ambiguous_names)} is a host and a group", key="--limit", remedy="rename one of them"
        )
    if unknown_names := names - hosts - groups:
        shown = make_printable(fold_names_to_ranges(unknown_names), 120)
        remedy = suggest_names(min(unknown_names), sorted(hosts | groups))
        raise InputError(f"no host or group {shown}", key="--limit", remedy=remedy)


def require_empty_union(root: Path, play: str, pattern: HostPattern) -> None:
    """Raise CheckFailed if a limit that selects no host names groups or hosts that are not empty."""
    listed = run_ansible_command(root, build_list_command(root, play, pattern.union_limit))[2]
    if NO_HOSTS not in listed:
        problem = f"--limit: {make_printable(pattern.text, 60)} leaves no host"
        raise CheckFailed(problem, hint="its operators or subscripts leave out every host that it names")


def run_ansible_command(
    root: Path, command: list[str], settings: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str, str]:
    """Run one of Ansible's programs with the project's configuration."""
    environment = build_ansible_environment(root) | dict(settings)
    try:
        completed = subprocess.run(
            command, cwd=find_ansible_folder(root), env=environment, stdin=subprocess.DEVNULL,
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
        "ANSIBLE_CONFIG": str(find_ansible_config(root)),
        # ansible-runner switches the check off unless the environment already has an opinion.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_NOCOLOR": "1",
    }


def find_unknown_host_patterns(
    stderr_text: str, pattern: HostPattern, listed_hosts: Collection[str] = ()
) -> list[str]:
    """Return the parts of the limit that Ansible could not match; plays may name groups made while they run.

    Ansible reports no unknown name for this machine, which is in the inventory only if somebody wrote it there.
    """
    text = " ".join(stderr_text.split())
    ignored = re.findall(r"Could not match supplied host pattern, ignoring: (\S+)", text)
    included = {term.text for term in pattern.terms if term.operator != "!"}
    ignored += sorted(included & THIS_MACHINE - {*listed_hosts})
    requested = {part for term in pattern.terms for part in (term.text, term.base_text)}
    return [name for name in dict.fromkeys(ignored) if name in requested]


def build_unknown_name_error(root: Path, name: str) -> InputError:
    """Return the error for a part of the limit that is not in the inventory, with the nearest names."""
    status, out, _ = run_ansible_command(root, build_inventory_command(root))
    known_names = sorted(frozenset.union(*parse_inventory_names(out))) if status == 0 else []
    return InputError(f"no host or group {name!r}", key="--limit", remedy=suggest_names(name, known_names))


def build_inventory_command(root: Path) -> list[str]:
    """Return the command that prints every host and group as JSON."""
    return ["ansible-inventory", "-i", str(root / "inventory"), "--list"]


def suggest_names(pattern: str, names: Sequence[str]) -> str:
    """Return the groups and hosts with names close to the pattern."""
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


def parse_inventory_names(inventory_json: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of all hosts and of all groups, also of empty groups, in an inventory as JSON."""
    inventory = decode_json_object(inventory_json, "ansible-inventory", LARGE_DOCUMENT)
    hosts = {*inventory.pop("_meta", {}).get("hostvars", {})}
    groups = {*inventory}
    for group in inventory.values():
        hosts.update(group.get("hosts", ()))
        groups.update(group.get("children", ()))
    return frozenset(hosts), frozenset(groups)


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
