"""The rehearsal's Pulumi backend: a folder that has the stack before the first `pulumi up`.

`pulumi stack init` in the project would write into the stack's tracked settings file. Therefore the stack is
created from a temporary project of the same name, and the rehearsal stores the salt that the engine chose.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpufleet import engine
from gpufleet.boundary import ENGINE_DOCUMENT, decode_json_object, read_bytes
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal import launcher, processes
from gpufleet.rehearsal.paths import RehearsalPaths

PASSPHRASE = "gpufleet-rehearsal"  # noqa: S105 - protects nothing: a rehearsal has no secrets


def build_engine_environment(paths: RehearsalPaths) -> dict[str, str]:
    """Return the environment variables that confine the engine to the rehearsal."""
    return {
        # Without metadata files next to the state: the engine writes them in place, so that a kill leaves
        # an empty one, after which it refuses the whole stack ("failed to load checkpoint: EOF").
        "PULUMI_BACKEND_URL": paths.backend.as_uri() + "?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_CONFIG_PASSPHRASE_FILE": "",
        "PULUMI_HOME": str(paths.pulumi_home),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Only the simulated providers on PATH: no installed and no downloaded plugin.
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "false",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # Commands without a settings file find the salt in the state.
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
    }


def ensure_stack(paths: RehearsalPaths, installed_engine: engine.PulumiEngine) -> str:
    """Create the stack in the backend if it does not exist; return its salt."""
    existing_salt = _read_salt(stack_state_file(paths))
    if existing_salt:
        return existing_salt
    processes.stop_rehearsal_processes(
        paths.home
    )  # a killed `up` may have left its `stack init` running: it would come in between
    stack_state_file(paths).unlink(
        missing_ok=True
    )  # a `stack init` that was killed leaves a stack without a salt
    path = os.pathsep.join((str(installed_engine.bin_dir), os.environ.get("PATH", os.defpath)))
    # `down` finds the engine by GPUFLEET_HOME if this process is killed.
    variables = {
        **os.environ,
        **build_engine_environment(paths),
        "PATH": path,
        "GPUFLEET_HOME": str(paths.home),
    }
    with tempfile.TemporaryDirectory(dir=paths.home) as scratch:
        project = Path(scratch)
        (project / "Pulumi.yaml").write_text(f"name: {read_project_name(paths.root)}\nruntime: python\n")
        engine.run_pulumi(["stack", "init", paths.stack, "--no-select"], project, variables)
    salt = _read_salt(stack_state_file(paths))
    if salt is None:
        raise EnvironmentFault(f"`pulumi stack init` left no usable stack in {paths.backend}")
    return salt


def stack_state_file(paths: RehearsalPaths) -> Path:
    """Return the state file of this stack in the engine's file backend."""
    return paths.backend / ".pulumi" / "stacks" / read_project_name(paths.root) / f"{paths.stack}.json"


def read_project_name(root: Path) -> str:
    """Return the project's name from its Pulumi.yaml."""
    name = engine.read_project_setting(root, "name")
    if not re.fullmatch(r"[\w.-]+", name):
        raise InputError(
            "no name", where=str(root / "Pulumi.yaml"), key="name", remedy="add `name: gpufleet`"
        )
    return name


def clear_interrupted_run(
    paths: RehearsalPaths, variables: Mapping[str, str], report: Callable[[str], None]
) -> str:
    """Remove what a killed run left: helper processes, its lock and pending creations. Return the resource count."""
    processes.stop_orphaned_processes(paths.home)
    launcher.remove_stale_pulumi_locks(paths.backend)
    resources, pending = count_resources_and_pending(paths)
    if not pending:
        return f"{resources} resources"
    report(f"a run was interrupted: clearing {pending} pending operations")
    arguments = ["refresh", "-s", paths.stack, "--yes", "--skip-preview", "--clear-pending-creates"]
    engine.run_pulumi(arguments, paths.root, variables)
    return f"{count_resources_and_pending(paths)[0]} resources"


def count_resources_and_pending(paths: RehearsalPaths) -> tuple[int, int]:
    """Return how many resources the stack has and how many operations are pending."""
    latest = _read_latest(stack_state_file(paths))
    resources = [item for item in latest.get("resources") or [] if not _is_engine_resource(item["type"])]
    return len(resources), len(latest.get("pending_operations") or [])


def _is_engine_resource(kind: str) -> bool:
    return kind == "pulumi:pulumi:Stack" or kind.startswith("pulumi:providers:")


def _read_salt(state: Path) -> str | None:
    secrets = _read_latest(state).get("secrets_providers") or {}
    salt = (secrets.get("state") or {}).get("salt")
    return str(salt) if salt else None


def _read_latest(state: Path) -> dict[str, Any]:
    try:
        document = decode_json_object(read_bytes(state, ENGINE_DOCUMENT), str(state), ENGINE_DOCUMENT)
        latest = document["checkpoint"].get("latest")
    except (ValueError, LookupError, TypeError, AttributeError):  # an InputError is a ValueError
        return {}
    return latest if isinstance(latest, dict) else {}
