"""A project with a program of somebody's own: it declares pools with ``GpuPool``, and no stack file has a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpufleet.boundary import read_text
from gpufleet.fleet.document import read_yaml_document
from gpufleet.fleet.fleet_loader import PROVIDER_ACCOUNTS
from gpufleet.fleet.host_name import CONFIG_KEY
from gpufleet.fleet.spec import Fleet, FleetSpec


def is_fleet_project(root: Path) -> bool:
    """Return True if the project's stacks are fleets, False if its program is somebody's own."""
    stacks = root / "stacks"
    if any(CONFIG_KEY in read_text(path) for path in sorted(stacks.glob("Pulumi.*.yaml"))):
        return True
    program = stacks / "__main__.py"
    return program.is_file() and "declare_stack()" in read_text(program)


def build_program_fleet(stack: str, settings_file: Path) -> Fleet:
    """Return what a stack of such a project declares: the accounts of Pulumi's providers, and no pool.

    Raise InputError if its settings are not valid YAML; the file may be missing.
    """
    data = read_yaml_document(settings_file, settings_file.name).plain_data if settings_file.is_file() else {}
    config = data.get("config") if isinstance(data, Mapping) else None
    accounts = {
        field: config.get(key) for field, key in PROVIDER_ACCOUNTS.items() if isinstance(config, Mapping)
    }
    fleet = Fleet.from_spec(FleetSpec(owner="program"), stack, ())
    return fleet.model_copy(
        update={name: value for name, value in accounts.items() if isinstance(value, str)}
    )
