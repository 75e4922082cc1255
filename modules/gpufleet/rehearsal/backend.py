"""The rehearsal's Pulumi backend: a folder, with the stack in it before anybody types `pulumi up`.

`pulumi stack init` in the project would write into the stack's tracked settings file. So the stack is made
from a scratch project of the same name, and the salt that the engine chose is kept with the rehearsal.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet import engine
from gpufleet.boundary import ENGINE_DOCUMENT, decode_json_object, read_bytes
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal import launcher, processes

if TYPE_CHECKING:
    from gpufleet.rehearsal.world import World

PASSPHRASE = "gpufleet-rehearsal"  # noqa: S105 - guards nothing: a rehearsal holds no secret of anybody's


def environment(world: World) -> dict[str, str]:
    """Return what keeps the engine inside the rehearsal."""
    return {
        "PULUMI_BACKEND_URL": world.backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_CONFIG_PASSPHRASE_FILE": "",
        "PULUMI_HOME": str(world.pulumi_home),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # The simulated providers on PATH, and never a real one: neither one installed nor one downloaded.
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "false",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # Commands that take no settings file of their own find the salt in the state.
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
    }


def ensure_stack(world: World, found: engine.Engine) -> str:
    """Make the stack in the backend unless it is there; return its salt."""
    kept = _salt_of(state_file(world))
    if kept:
        return kept
    processes.end(
        world.home
    )  # a killed `up` may have left its `stack init` running: it would come in between
    state_file(world).unlink(missing_ok=True)  # a `stack init` that was killed leaves a stack without a salt
    path = os.pathsep.join((str(found.bin_dir), os.environ.get("PATH", os.defpath)))
    # GPUFLEET_HOME is the mark by which `down` finds the engine should we be killed meanwhile.
    variables = {**os.environ, **environment(world), "PATH": path, "GPUFLEET_HOME": str(world.home)}
    with tempfile.TemporaryDirectory(dir=world.home) as scratch:
        project = Path(scratch)
        (project / "Pulumi.yaml").write_text(f"name: {project_name(world.root)}\nruntime: python\n")
        engine.run_pulumi(["stack", "init", world.stack, "--no-select"], project, variables)
    salt = _salt_of(state_file(world))
    if salt is None:
        raise EnvironmentFault(f"`pulumi stack init` left no usable stack in {world.backend}")
    return salt


def state_file(world: World) -> Path:
    """Return where the engine's file backend keeps this stack."""
    return world.backend / ".pulumi" / "stacks" / project_name(world.root) / f"{world.stack}.json"


def project_name(root: Path) -> str:
    """Return the project's name from its Pulumi.yaml."""
    match = re.search(
        r"^name:\s*(['\"]?)([\w.-]+)\1\s*(?:#.*)?$", (root / "Pulumi.yaml").read_text(), re.MULTILINE
    )
    if match is None:
        raise InputError(
            "no name", where=str(root / "Pulumi.yaml"), key="name", remedy="add `name: gpufleet`"
        )
    return match[2]


def settle(world: World, say: Callable[[str], None]) -> str:
    """Free the stack from what a killed run left: helpers, its lock, and creations that never ended."""
    processes.end_orphans(world.home)
    launcher.remove_stale_locks(world.backend)
    resources, pending = count(world)
    if not pending:
        return f"{resources} resources"
    say(f"a run was interrupted: clearing {pending} pending operations")
    arguments = ["refresh", "-s", world.stack, "--yes", "--skip-preview", "--clear-pending-creates"]
    engine.run_pulumi(arguments, world.root, world.full_env())
    return f"{count(world)[0]} resources"


def count(world: World) -> tuple[int, int]:
    """Return how many resources the stack has and how many operations an interrupted run left open."""
    latest = _latest(state_file(world))
    resources = [item for item in latest.get("resources") or [] if not _is_engines_own(item["type"])]
    return len(resources), len(latest.get("pending_operations") or [])


def _is_engines_own(kind: str) -> bool:
    return kind == "pulumi:pulumi:Stack" or kind.startswith("pulumi:providers:")


def _salt_of(state: Path) -> str | None:
    secrets = _latest(state).get("secrets_providers") or {}
    salt = (secrets.get("state") or {}).get("salt")
    return str(salt) if salt else None


def _latest(state: Path) -> dict[str, Any]:
    try:
        document = decode_json_object(read_bytes(state, ENGINE_DOCUMENT), str(state), ENGINE_DOCUMENT)
        latest = document["checkpoint"].get("latest")
    except (ValueError, LookupError, TypeError, AttributeError):  # an InputError is a ValueError
        return {}
    return latest if isinstance(latest, dict) else {}
