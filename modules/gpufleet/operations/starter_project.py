"""Start a fleet's repository, or add what is missing to one: a file is written whole, and none is overwritten.

The files are templates of ``data/starter_project/``. They are written to a folder next to their places and validated
there, as `gpufleet cost` would, before the first one moves.
"""

from __future__ import annotations

import getpass
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpufleet import __version__, engine, fleet
from gpufleet.boundary import decode_ini, decode_yaml, make_printable, read_text
from gpufleet.boundary.file_writer import convert_write_errors, refuse_symlinks
from gpufleet.errors import InputError
from gpufleet.fleet.public_key import PublicKey
from gpufleet.fleet.used_cloud import has_pool_of_cloud
from gpufleet.remote.plan import SHIPPED_PLAYBOOKS

STACK = "dev"
MAX_NODES = 200  # of a rack: its network has 254 addresses, the first node has .11
PROJECT_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
EXAMPLE_KEY = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn "
    "example-key-private-half-thrown-away"
)
ANSIBLE_FILES = (
    "ansible.cfg", "galaxy.yml", "group_vars", "hosts", "inventories", "inventory", "playbooks", "roles", "site.yml",
)  # fmt: skip

# What a kept file must contain, and what to do otherwise.
NEEDED_TEXTS = {
    ".gitignore": (".gpufleet/", "add the line .gpufleet/"),
    ".pre-commit-config.yaml": ("gpufleet validate", "add a local hook with `entry: gpufleet validate`"),
    ".github/workflows/cost.yml": ("--policy", "add --policy policy.yaml to `gpufleet cost diff`"),
}


@dataclass(frozen=True)
class RackRequest:
    """A rack to declare: its kind is its name."""

    name: str
    count: int


@dataclass(frozen=True)
class StarterFile:
    """A file of the project."""

    path: str
    template: str
    purpose: str


@dataclass(frozen=True)
class FileOutcome:
    """What happened to a file; ``note`` is what is left to do by hand."""

    path: str
    written: bool
    purpose: str
    note: str = ""


def parse_clouds(text: str) -> tuple[str, ...]:
    """Return the clouds of a list such as ``aws,gcp``."""
    known = _read_data("pools.yaml")
    names = tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    for name in names:
        if name not in known:
            raise InputError(f"unknown cloud {name!r}", where="--cloud", remedy=f"give {', '.join(known)}")
    return names


def parse_racks(text: str) -> tuple[RackRequest, ...]:
    """Return the racks of a list such as ``blades:6,servers:2``."""
    racks: dict[str, RackRequest] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, _, number = part.partition(":")
        known = _read_data("racks.yaml")
        if kind not in known:
            meant = part.replace("=", ":")
            remedy = f"write {meant}" if meant.partition(":")[0] in known else f"give {', '.join(known)}"
            raise InputError(f"unknown kind of rack {kind!r}", where="--rack", remedy=remedy)
        if not re.fullmatch("[0-9]{1,4}", number) or not 1 <= int(number) <= MAX_NODES:
            remedy = f"give 1 to {MAX_NODES} nodes, such as {kind}:6"
            raise InputError(f"{number!r} is not a number of nodes", where="--rack", key=part, remedy=remedy)
        if kind in racks:
            remedy = f"add a second file to inventory/ after {kind}.yaml"
            raise InputError(f"{kind} is given twice", where="--rack", remedy=remedy)
        racks[kind] = RackRequest(kind, int(number))
    return tuple(racks.values())


def read_declared_parts(folder: Path) -> tuple[tuple[str, ...], tuple[RackRequest, ...]] | None:
    """Return clouds and racks of the project in a folder; None without its stack and its ``gpu_pools.py``."""
    if (folder / f"stacks/Pulumi.{STACK}.yaml").is_file():
        declared = fleet.load_fleet(STACK, folder)
        racks = [rack.rack for rack in declared.racks]
        clouds = {pool.cloud for pool in declared.pools}
    elif (folder / "Pulumi.yaml").is_file() and (pools := folder / _locate_pools_module(folder)).is_file():
        racks = list(fleet.load_racks(folder / "inventory", folder).values())
        clouds = {cloud for cloud in _read_data("pools.yaml") if has_pool_of_cloud(read_text(pools), cloud)}
    else:
        return None
    requests = (RackRequest(rack.name, len(rack.nodes)) for rack in racks)
    known = _read_data("racks.yaml")
    return (
        tuple(cloud for cloud in _read_data("pools.yaml") if cloud in clouds),
        tuple(request for request in requests if request.name in known),
    )


def write_starter_project(
    folder: Path, clouds: Sequence[str], racks: Sequence[RackRequest], *, into_existing: bool
) -> list[FileOutcome]:
    """Write the files of a project that are missing; raise InputError, with nothing written, for a wrong request."""
    kind = _find_repository_kind(folder)
    if into_existing and kind == "new":
        remedy = f"without --into-existing, gpufleet init {make_printable(folder)} starts one"
        raise InputError(
            "has neither a Pulumi project nor Ansible's files", where=_label(folder), remedy=remedy
        )
    if kind in ("pulumi", "ansible") and not into_existing:
        remedy = "add --into-existing, which keeps every file, or give a new folder"
        raise InputError(f"has a repository for {kind.title()} already", where=_label(folder), remedy=remedy)
    if kind == "pulumi":
        starter_files, values = _list_pulumi_files(folder, clouds, racks)
    else:
        starter_files, values = _list_project_files(folder, clouds, racks)
    return _write_missing_files(folder, starter_files, values, racks)


def _label(folder: Path) -> str:
    return make_printable(folder)


def _read_data(name: str) -> dict[str, Any]:
    return dict(decode_yaml(_read_template(name), name))


def _read_template(name: str) -> str:
    return files("gpufleet.operations").joinpath("data", "starter_project", name).read_text(encoding="utf-8")


def _read_ansible_config() -> str:
    """Return the collection's ansible.cfg, which is in a folder of the project, for the top of the project."""
    return (SHIPPED_PLAYBOOKS / "ansible.cfg").read_text(encoding="utf-8").replace("../", "")


def _find_repository_kind(folder: Path) -> str:
    """Return what a folder holds: ``new`` (nothing of ours or theirs), ``gpufleet``, ``pulumi`` or ``ansible``."""
    if folder.exists() and not folder.is_dir():
        raise InputError("is not a folder", where=_label(folder), remedy="give a folder, new or existing")
    with convert_write_errors(_label(folder)):
        if fleet.is_fleet_project(folder):
            return "gpufleet"
    if (folder / "Pulumi.yaml").exists():
        return "pulumi"
    return "ansible" if any((folder / name).exists() for name in ANSIBLE_FILES) else "new"


def _list_project_files(
    folder: Path, clouds: Sequence[str], racks: Sequence[RackRequest]
) -> tuple[list[StarterFile], dict[str, Any]]:
    """Return the files of a project of ours and their values."""
    name = folder.resolve().name
    if not (folder / "Pulumi.yaml").exists() and not PROJECT_NAME.fullmatch(name):
        remedy = "use lowercase letters, digits, hyphens, underscores and dots"
        raise InputError("cannot be the name of a project", where=make_printable(name) or "/", remedy=remedy)
    values = _build_values(folder, clouds, racks) | {"name": name, "stacks": [STACK]}
    starter_files = [
        StarterFile("stacks/__main__.py", "program.py", "the Pulumi program, the same for every stack"),
        StarterFile(
            f"stacks/Pulumi.{STACK}.yaml", "stack.yaml", "the declared fleet: pools, racks, templates"
        ),
        StarterFile("stacks/fleet.schema.json", "", "lets an editor complete and check the stack's keys"),
        StarterFile("Pulumi.yaml", "Pulumi.yaml", "the name of the project, for Pulumi"),
        *_list_common_files(racks),
        StarterFile("README.md", "README.md", "an overview of the repository"),
    ]
    values["purposes"] = {file.path: file.purpose for file in starter_files}
    return starter_files, values


def _list_pulumi_files(
    folder: Path, clouds: Sequence[str], racks: Sequence[RackRequest]
) -> tuple[list[StarterFile], dict[str, Any]]:
    """Return the files to add to a Pulumi project of someone's own, and their values."""
    runtime = engine.read_project_setting(folder, "runtime", "name") or engine.read_project_setting(
        folder, "runtime"
    )
    if runtime != "python":
        remedy = "give a new folder for the fleet, such as gpufleet init fleet"
        raise InputError(
            f"its program is {make_printable(runtime)}, not Python", where=_label(folder), remedy=remedy
        )
    stack_folder = folder / engine.read_project_setting(folder, "stackConfigDir")
    stacks = sorted(path.name.split(".")[1] for path in stack_folder.glob("Pulumi.*.yaml")) or [STACK]
    values = _build_values(folder, clouds, racks) | {"stacks": stacks}
    purpose = "GPU pools and racks; put `import gpu_pools` into your program"
    pools = StarterFile(_locate_pools_module(folder), "gpu_pools.py", purpose)
    return [*([pools] if clouds or racks else []), *_list_common_files(racks)], values


def _locate_pools_module(folder: Path) -> str:
    """Return the path of ``gpu_pools.py``, next to the program of a Pulumi project."""
    main = engine.read_project_setting(folder, "main").strip("/")
    main = main if (folder / main).is_dir() else Path(main).parent.as_posix()
    return (Path(main) / "gpu_pools.py").as_posix()


def _list_common_files(racks: Sequence[RackRequest]) -> Iterator[StarterFile]:
    for rack in racks:
        yield StarterFile(f"inventory/{rack.name}.yaml", "rack.yaml", f"a rack: nodes 1 to {rack.count}")
    yield StarterFile("inventory/gpufleet.yaml", "inventory.yaml", "Ansible's list of every node")
    yield StarterFile("inventory/group_vars/gpufleet.yaml", "group_vars.yaml", "Ansible's settings of nodes")
    yield StarterFile(
        "inventory/group_vars/kind_cloud_vm.yaml", "group_vars_cloud.yaml", "the same for nodes of a cloud"
    )
    yield StarterFile("ansible.cfg", "", "Ansible's own settings: `ansible-playbook gpufleet.fleet.site`")
    yield StarterFile("requirements.txt", "requirements.txt", "what `pip install -r` installs")
    yield StarterFile(
        "policy.yaml", "policy.yaml", "limits of the cost: a pull request that breaks one fails"
    )
    yield StarterFile(
        ".github/workflows/cost.yml", "cost.yml", "CI: what a pull request costs, without secrets"
    )
    yield StarterFile(
        ".github/workflows/cost-comment.yml", "cost-comment.yml", "CI: writes that as a comment"
    )
    yield StarterFile(".gitignore", "gitignore", "what git does not track")
    yield StarterFile(
        ".pre-commit-config.yaml",
        "pre-commit-config.yaml",
        "refuses a commit that breaks the fleet (`pre-commit install`)",
    )


def _build_values(folder: Path, clouds: Sequence[str], racks: Sequence[RackRequest]) -> dict[str, Any]:
    key = _read_own_key()
    pools, rack_settings = _read_data("pools.yaml"), _read_data("racks.yaml")
    budget = sum(pools[cloud]["budget_usd_per_month"] for cloud in clouds)
    extras = _list_needed_extras(folder, clouds)
    budget += sum(rack.count * rack_settings[rack.name]["budget_usd_per_month"] for rack in racks)
    return {
        "clouds": clouds,
        "racks": racks,
        "pools": pools,
        "budget": budget or 100,
        "owner": _find_owner(),
        "key": key or EXAMPLE_KEY,
        "is_example_key": not key,
        "extras": extras,
        "requirement": _format_requirement(extras),
        "wheel_requirement": _format_requirement(
            extras, f" @ file:///FOLDER/gpufleet-{__version__}-py3-none-any.whl"
        ),
    }


def _list_needed_extras(folder: Path, clouds: Sequence[str]) -> set[str]:
    """Return the extras that the fleet needs: those of its clouds, the registry, and that of BMCs if a rack has one."""
    racks = fleet.load_racks(folder / "inventory", folder, skip_broken=True).values()
    has_bmc = any(node.bmc for rack in racks for node in rack.nodes)
    return {*clouds, "registry", *(["bmc"] if has_bmc else [])}


def _format_requirement(extras: Collection[str], rest: str = f"=={__version__}") -> str:
    order = [*_read_data("pools.yaml"), "registry", *sorted(extras)]
    return f"gpufleet[{','.join(dict.fromkeys(name for name in order if name in extras))}]{rest}"


def _find_owner() -> str:
    """Return the login name as a cloud's label holds it."""
    try:
        login = getpass.getuser().lower()
    except OSError:  # a container whose user has no name
        login = ""
    return re.sub(r"[^a-z0-9_-]+", "-", login).strip("-_")[:60] or "fleet"


def _read_own_key() -> str:
    """Return the user's public key; empty without one that a stack may hold."""
    try:
        line = (Path.home() / ".ssh" / "id_ed25519.pub").read_text(encoding="utf-8").strip()
        return str(TypeAdapter(PublicKey).validate_python(line)) if line.isprintable() else ""
    except (OSError, RuntimeError, UnicodeDecodeError, ValidationError):
        return ""


def _write_missing_files(
    folder: Path, starter_files: Sequence[StarterFile], values: dict[str, Any], racks: Sequence[RackRequest]
) -> list[FileOutcome]:
    """Write the files to a temporary folder, validate them there, then move those that are missing."""
    missing = [file for file in starter_files if not (folder / file.path).is_symlink()]
    missing = [file for file in missing if not (folder / file.path).exists()]
    _refuse_blocked_paths(folder, missing)
    top = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    values = values | {"free_networks": _list_free_networks(folder)}
    with (
        convert_write_errors(_label(folder)),
        tempfile.TemporaryDirectory(prefix=".gpufleet-init-", dir=top) as name,
    ):
        staged = Path(name)
        for file in starter_files:
            path = staged / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_render(file, values, racks), encoding="utf-8")
        _validate_staged_project(staged, folder)
        for file in missing:
            target = folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            (staged / file.path).replace(target)
    return [
        FileOutcome(
            file.path,
            file in missing,
            file.purpose,
            "" if file in missing else _note_rest(folder, file, values),
        )
        for file in starter_files
    ]


def _list_free_networks(folder: Path) -> list[str]:
    """Return the networks for new racks that no rack of the project has."""
    racks = fleet.load_racks(folder / "inventory", folder, skip_broken=True).values()
    taken = [rack.network.cidr for rack in racks if rack.network]
    networks = (IPv4Network(f"10.20.{number}.0/24") for number in range(1, 255))
    return [str(free) for free in networks if not any(map(free.overlaps, taken))]


def _refuse_blocked_paths(folder: Path, missing: Sequence[StarterFile]) -> None:
    """Raise InputError if a file stands where a folder must be, or a symbolic link leads out of the folder."""
    for file in missing:
        for parent in list(Path(file.path).parents)[:-1]:
            place = folder / parent
            refuse_symlinks(place)
            if place.exists() and not place.is_dir():
                raise InputError(
                    "is not a folder", where=make_printable(place), remedy="move it, then run init again"
                )


def _render(file: StarterFile, values: dict[str, Any], racks: Sequence[RackRequest]) -> str:
    from jinja2 import Environment, StrictUndefined

    if file.path.endswith("fleet.schema.json"):
        return fleet.format_stack_json_schema()
    if file.path == "ansible.cfg":
        return _read_ansible_config()
    # Ansible, GitHub and Pulumi use Jinja's usual signs in what is written here.
    environment = Environment(  # noqa: S701 - no HTML
        variable_start_string="<<", variable_end_string=">>",
        block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined,
    )  # fmt: skip
    if file.template == "rack.yaml":
        values = values | _build_rack_values(racks, Path(file.path).stem, values["free_networks"])
    return environment.from_string(_read_template(f"{file.template}.j2")).render(values)


def _build_rack_values(racks: Sequence[RackRequest], name: str, networks: Sequence[str]) -> dict[str, Any]:
    rack = next(rack for rack in racks if rack.name == name)
    known = _read_data("racks.yaml")
    settings, position = known[name], list(known).index(name)
    cidr = f"10.20.{position + 1}.0/24"  # its own, also in a later run
    width = max(2, len(str(rack.count)))
    last = f"{rack.count:0{width}}"
    return {
        "rack": rack,
        "settings": settings,
        "cidr": cidr if cidr in networks else networks[len(known) + position],
        "node_names": settings["node"] + (f"[{1:0{width}}-{last}]" if rack.count > 1 else last),
    }


def _validate_staged_project(staged: Path, folder: Path) -> None:
    """Raise InputError if the project would not be valid, also together with the racks that are there."""
    for path in sorted((folder / "inventory").glob("*.y*ml")):
        target = staged / "inventory" / path.name
        shutil.copyfile(path, target)
    if (staged / f"stacks/Pulumi.{STACK}.yaml").is_file():
        fleet.load_fleet(STACK, staged)
    else:
        racks = fleet.load_racks(staged / "inventory", staged)
        fleet.check_unique_host_names(fleet.list_rack_host_declarations(racks, staged))
        fleet.check_unique_node_addresses(racks, staged)


def _note_rest(folder: Path, file: StarterFile, values: dict[str, Any]) -> str:
    """Return what is left to do by hand for a file that was there."""
    path = folder / file.path
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if file.template == "rack.yaml":
        return _note_rack(path, next(rack.count for rack in values["racks"] if rack.name == path.stem))
    if file.path == "ansible.cfg":
        return _note_ansible_settings(text)
    if file.template == "requirements.txt":
        return _note_requirement(text, values)
    if file.template in ("stack.yaml", "gpu_pools.py"):
        return _note_parts(text, values, is_program=file.template == "gpu_pools.py")
    needed, note = NEEDED_TEXTS.get(file.path, ("", ""))
    return "" if needed in text else note


def _note_parts(text: str, values: dict[str, Any], *, is_program: bool) -> str:
    """Return the pools and racks that a stack's file or a program lacks."""
    clouds = [cloud for cloud in values["clouds"] if not has_pool_of_cloud(text, cloud)]
    racks = [rack.name for rack in values["racks"] if not re.search(rf"\b{rack.name}\b", text)]
    names = ",".join(clouds)
    pools = (
        f"a GpuPool for {names}"
        if is_program
        else f"to pools: {names}, as in a new project of init --cloud {names}"
    )
    entries = ", ".join(f'Rack("{name}")' if is_program else f"{{name: {name}}}" for name in racks)
    notes = [f"add {pools}"] if clouds else []
    notes += (
        [f"add {entries} of gpufleet.cloud" if is_program else f"add to racks: {entries}"] if racks else []
    )
    return "; ".join(notes)


def _note_rack(path: Path, count: int) -> str:
    """Compare the rack that is there with the number of nodes that was asked for."""
    rack = fleet.load_racks(path.parent).get(path)
    if not rack or len(rack.nodes) == count:
        return ""
    return f"has {len(rack.nodes)} nodes, not {count}: change its nodes and capital_usd"


def _note_requirement(text: str, values: dict[str, Any]) -> str:
    """Return the line that installs what the file does, and what is needed."""
    match = re.search(r"^gpufleet *(?:\[([^]\n]*)\])?(?![\w.-])(.*)$", text, re.MULTILINE)
    if not match:
        return f"add the line {values['requirement']}"
    present = {name.strip() for name in (match[1] or "").split(",")} - {""}
    needed = values["extras"]
    if "all" in present or needed <= present:
        return ""
    return f"change the line to {_format_requirement(present | needed, match[2].rstrip())}"


def _note_ansible_settings(text: str) -> str:
    """Return what Ansible's settings lack: a list needs our entries, besides the user's own."""
    ours = decode_ini(_read_ansible_config(), "ansible.cfg")["defaults"]
    try:
        theirs = decode_ini(text, "ansible.cfg").get("defaults", {})
    except InputError:
        return "cannot be read by Ansible"
    notes = []
    for key in ("inject_facts_as_vars", "callbacks_enabled", "inventory"):
        value, needed = theirs.get(key, ""), ours[key]
        present = {part.strip().removeprefix("./").rstrip("/") for part in value.lower().split(",")}
        lacking = [part for part in needed.split(", ") if part.lower() not in present]
        if not value:
            notes.append(f"add the line {key} = {needed}")
        elif key == "inject_facts_as_vars" and lacking:
            notes.append(f"change {key} to {needed}")
        elif key == "inventory" and lacking and (source := "inventory/gpufleet.yaml") not in present:
            notes.append(f"add {source} to {key}")
        elif key == "callbacks_enabled" and lacking:
            notes.append(f"add {', '.join(lacking)} to {key}")
    return "; ".join(notes)


def format_next_step(folder: Path, outcomes: Sequence[FileOutcome]) -> str:
    """Return the command to continue with, empty for a project without pools and racks."""
    paths = [outcome.path for outcome in outcomes]
    start = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    if "stacks/__main__.py" in paths:
        return f"next: {start}gpufleet cost estimate -s {STACK}"
    if module := next((path for path in paths if Path(path).name == "gpu_pools.py"), ""):
        return f"next: {start}git add {module} inventory; put `import gpu_pools` into your program"
    return ""


def format_budget_notice(folder: Path, outcomes: Sequence[FileOutcome]) -> str:
    """Return that `init` chose a budget, and where to change it; empty unless it wrote the stack."""
    path = f"stacks/Pulumi.{STACK}.yaml"
    if not any(outcome.path == path and outcome.written for outcome in outcomes):
        return ""
    budget = fleet.read_budget(read_text(folder / path), path)
    amount = f"{budget.max:g}" if budget else "none"
    return f"budget: {amount} USD a month, chosen by init for these parts: budget_usd_per_month in {path}"


def build_outcome_data(outcomes: Sequence[FileOutcome]) -> list[dict[str, Any]]:
    """Return the stable shape that ``gpufleet init --json`` prints."""
    return [asdict(outcome) for outcome in outcomes]


def format_outcomes(outcomes: Sequence[FileOutcome]) -> str:
    """Return a line for each file."""
    width = max(len(outcome.path) for outcome in outcomes)
    return "\n".join(
        f"{'written' if outcome.written else 'kept   '}  {outcome.path:{width}}  {outcome.note or outcome.purpose}"
        for outcome in outcomes
    )
