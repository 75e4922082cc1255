"""Engines: what each runs on, how it splits a model over devices, which rule it puts on their number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from gpufleet.catalog import Accelerator
from gpufleet.errors import InputError
from gpufleet.sizing.data_file import load_rows
from gpufleet.sizing.hardware import Hardware, Split
from gpufleet.sizing.memory.quantization import is_gguf
from gpufleet.sizing.speed.device import find_calibrated_engine
from gpufleet.sizing.workload import Workload

KINDS_RUN_ON_CPU = ("sbc", "npu")  # kinds of part whose processor is what a model runs on, or may
CARDS = ("gpu_datacenter", "gpu_workstation", "gpu_gaming")
CAPABILITY = re.compile(r"cc(\d+\.\d)")
# docs.vllm.ai/en/v0.14.0/getting_started/installation/gpu: "7.0 or higher"; from v0.21.0 on 7.5, so without V100
MIN_CAPABILITY = 7.0


@dataclass(frozen=True)
class Engine:
    """One engine. ``rule``: "heads" must divide over tensor-parallel devices; "powers": 2^n nodes, at most KV heads."""

    name: str
    stacks: frozenset[str]
    tasks: frozenset[str]
    split: Split
    rule: str
    source: str


@cache
def load_engines() -> dict[str, Engine]:
    """Return every engine by each of its names."""
    engines_by_name: dict[str, Engine] = {}
    for row in load_rows("engines.csv"):
        split: Split = "tensor" if row["split"] == "tensor" else "layer"
        stacks_and_tasks = frozenset(row["stacks"].split()), frozenset(row["tasks"].split())
        engine = Engine(row["name"], *stacks_and_tasks, split, row["rule"], row["source"])
        engines_by_name |= dict.fromkeys((row["name"], *row["aliases"].split()), engine)
    return engines_by_name


def find_engine(name: str) -> Engine:
    """Return the engine of that name or alias; an unknown one is an InputError with the nearest."""
    normalized = name.strip().lower().replace("_", "-").replace(" ", "-")
    known = load_engines()
    if normalized in known:
        return known[normalized]
    close = get_close_matches(normalized, known, n=3)
    remedy = f"did you mean {' or '.join(close)}?" if close else f"give one of {', '.join(_engine_names())}"
    raise InputError(f"unknown engine {name!r}", where="--engine", remedy=remedy)


def choose_engine(hardware: Hardware, workload: Workload, nodes: int = 1) -> Engine:
    """Return the engine that runs there: as asked, or the usual one of the hardware and the number format.

    The table of usual ones is in docs/sizing.md, "Which engine".
    """
    if workload.engine:
        return find_engine(workload.engine)
    part = hardware.accelerator
    if not workload.is_training and part.kind == "sbc" and "cuda" not in part.stacks and nodes > 1:
        return load_engines()["distributed-llama"]
    if not workload.is_training and is_gguf(workload.precision) and part.kind != "npu":
        return load_engines()["llama.cpp"]
    if not workload.is_training and _is_vllm_card(part):
        served = part.kind == "gpu_datacenter" or workload.has_concurrent_streams or workload.batch > 1
        return load_engines()["vllm" if served else "llama.cpp"]
    usual = load_engines().get(find_calibrated_engine(None, part, training=workload.is_training, nodes=nodes))
    return usual if usual and _can_run(usual, part, workload) else _first_supported_engine(part, workload)


def _is_vllm_card(part: Accelerator) -> bool:
    """Tell whether the part is an NVIDIA card that vLLM runs on; single streams of desktops are llama.cpp's."""
    if part.vendor != "NVIDIA" or part.kind not in CARDS:
        return False
    match = CAPABILITY.search(part.architecture)
    return match is not None and float(match[1]) >= MIN_CAPABILITY


def _first_supported_engine(part: Accelerator, workload: Workload) -> Engine:
    """Return the first engine of the table that runs on the part, llama.cpp where none does."""
    known = dict.fromkeys(load_engines().values())
    return next((engine for engine in known if _can_run(engine, part, workload)), load_engines()["llama.cpp"])


def _can_run(engine: Engine, part: Accelerator, workload: Workload) -> bool:
    kind = "training" if workload.is_training else "inference"
    return kind in engine.tasks and is_supported_on(engine, part)


def is_supported_on(engine: Engine, part: Accelerator) -> bool:
    """Tell whether an engine runs on the part itself, not merely on the processor beside its graphics cores."""
    device_stacks = set(part.stacks) - (set() if part.kind in KINDS_RUN_ON_CPU else {"cpu"})
    return not part.stacks or bool(engine.stacks & device_stacks)


def _engine_names() -> list[str]:
    return sorted({engine.name for engine in load_engines().values()})
