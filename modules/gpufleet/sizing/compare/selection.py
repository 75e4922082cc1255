"""The selection of accelerators to compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpufleet import catalog
from gpufleet.catalog import Accelerator, data_file
from gpufleet.errors import InputError
from gpufleet.sizing.node_hardware import build_machine_hardware

# One or two of each class, from boards to current servers.
DEFAULT_ACCELERATORS = (
    "B200",
    "H200 SXM 141GB",
    "H100 SXM5 80GB",
    "Instinct MI300X",
    "A100 SXM4 80GB",
    "L40S",
    "L4",
    "GeForce RTX 5090",
    "GeForce RTX 4090",
    "M3 Ultra (80)",
    "M4 Max (40)",
    "Compute Module 5 / Pi 5",
)


def select_accelerators(names: Iterable[str]) -> list[Accelerator]:
    """Return the accelerators of those names without duplicates; the default ones without names."""
    requested = tuple(names)
    accelerators = [_find_accelerator(name) for name in requested or DEFAULT_ACCELERATORS]
    return list({accelerator.name: accelerator for accelerator in accelerators}.values())


def _find_accelerator(name: str) -> Accelerator:
    if not name.strip():
        raise InputError("is empty", where="ACCELERATOR", remedy="name it: H100 SXM5 80GB")
    try:
        return catalog.get_accelerator(name)
    except InputError as error:
        if board := _find_board(name):
            return board
        raise InputError(error.problem, where="ACCELERATOR", remedy=error.remedy) from None


def _find_board(name: str) -> Accelerator | None:
    """Return a blade or board by its name in rack files (Compute Blade CM4 8GB), with its own memory."""
    boards = (machine for machine in data_file.load_machines().values() if machine.board)
    machine = next((board for board in boards if board.name.lower() == name.lower()), None)
    hardware = build_machine_hardware(machine) if machine else None
    return replace(hardware.accelerator, name=hardware.name) if hardware else None
