"""Engines: supported software stacks, how each splits a model over devices, limits on the device count."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from gpufleet.boundary import build_from_row
from gpufleet.catalog import Accelerator
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.hardware import Hardware, Split
from gpufleet.sizing.host import find_default_host
from gpufleet.sizing.memory.quantization import is_gguf_precision
from gpufleet.sizing.speed.device import find_calibrated_engine
from gpufleet.sizing.workload import Workload

KINDS_RUN_ON_CPU = ("sbc", "npu", "cpu")  # accelerator kinds on which a model may run on the CPU
CARDS = ("gpu_datacenter", "gpu_workstation", "gpu_gaming")
CAPABILITY = re.compile(r"cc(\d+\.\d)")
# docs.vllm.ai/en/v0.14.0/getting_started/installation/gpu: "7.0 or higher"; from v0.21.0 on 7.5, so without V100
MIN_CAPABILITY = 7.0

# Of small computers that are joined by RDMA: engines that split each layer over them, where others split by layers.
CLUSTER_ENGINES = {"Thunderbolt 5": "exo", "ConnectX-7": "vllm"}


@dataclass(frozen=True)
class ModelEngine:
    """One engine. ``rule``: "heads" must divide over tensor-parallel devices; "powers": 2^n nodes, at most KV heads."""

    name: str
    stacks: frozenset[str]
    tasks: frozenset[str]
    split: Split
    rule: str
    source: str


@cache
def load_model_engines() -> dict[str, ModelEngine]:
    """Return every engine by name and alias."""
    engines_by_name: dict[str, ModelEngine] = {}
    for row in load_sizing_rows("engines.csv"):
        engine = build_from_row(ModelEngine, row)
        engines_by_name |= dict.fromkeys((row["name"], *row.get_words("aliases")), engine)
    return engines_by_name


def find_model_engine(name: str) -> ModelEngine:
    """Return the engine of that name or alias; raise InputError with suggestions for an unknown one."""
    normalized = name.strip().lower().replace("_", "-").replace(" ", "-")
    engines = load_model_engines()
    if normalized in engines:
        return engines[normalized]
    from difflib import get_close_matches

    close = get_close_matches(normalized, engines, n=3)
    remedy = f"did you mean {' or '.join(close)}?" if close else f"give one of {', '.join(_engine_names())}"
    raise InputError(f"unknown engine {name!r}", where="--engine", remedy=remedy)


def choose_model_engine(hardware: Hardware, workload: Workload, nodes: int = 1) -> ModelEngine:
    """Return the requested engine, or the default one for the hardware and the precision.

    The table of defaults is in docs/sizing.md, "Which engine".
    """
    return _choose_engine(hardware.accelerator, workload, min(nodes, 2))


@lru_cache(maxsize=1024)
def _choose_engine(accelerator: Accelerator, workload: Workload, nodes: int) -> ModelEngine:
    if workload.engine:
        return find_model_engine(workload.engine)
    if (
        not workload.is_training
        and accelerator.kind == "sbc"
        and "cuda" not in accelerator.stacks
        and nodes > 1
    ):
        return load_model_engines()["distributed-llama"]
    is_gguf = is_gguf_precision(workload.precision) or bool(workload.model.stored)  # also a file in 16 bits
    if nodes > 1 and not workload.is_training and not is_gguf:
        engine = CLUSTER_ENGINES.get(find_default_host(accelerator).network)
        if engine and is_engine_supported_on(load_model_engines()[engine], accelerator):
            return load_model_engines()[engine]
    if not workload.is_training and is_gguf and accelerator.kind != "npu":
        return load_model_engines()["llama.cpp"]
    if not workload.is_training and _is_vllm_card(accelerator):
        served = accelerator.kind == "gpu_datacenter" or workload.has_concurrent_streams or workload.batch > 1
        return load_model_engines()["vllm" if served else "llama.cpp"]
    default = load_model_engines().get(
        find_calibrated_engine(None, accelerator, training=workload.is_training, nodes=nodes)
    )
    return (
        default
        if default and _can_run(default, accelerator, workload)
        else _first_supported_engine(accelerator, workload)
    )


def _is_vllm_card(accelerator: Accelerator) -> bool:
    """Return whether vLLM supports the accelerator; single streams on desktops run on llama.cpp."""
    if accelerator.vendor != "NVIDIA" or accelerator.kind not in CARDS:
        return False
    match = CAPABILITY.search(accelerator.architecture)
    return match is not None and float(match[1]) >= MIN_CAPABILITY


def _first_supported_engine(accelerator: Accelerator, workload: Workload) -> ModelEngine:
    """Return the first engine in engines.csv that runs on the accelerator, else llama.cpp."""
    engines = dict.fromkeys(load_model_engines().values())
    return next(
        (engine for engine in engines if _can_run(engine, accelerator, workload)),
        load_model_engines()["llama.cpp"],
    )


def _can_run(engine: ModelEngine, accelerator: Accelerator, workload: Workload) -> bool:
    kind = "training" if workload.is_training else "inference"
    return kind in engine.tasks and is_engine_supported_on(engine, accelerator)


def is_engine_supported_on(engine: ModelEngine, accelerator: Accelerator) -> bool:
    """Return whether an engine runs on the accelerator itself, not only on its host's CPU."""
    device_stacks = set(accelerator.stacks) - (set() if accelerator.kind in KINDS_RUN_ON_CPU else {"cpu"})
    return not accelerator.stacks or bool(engine.stacks & device_stacks)


def _engine_names() -> list[str]:
    return sorted({engine.name for engine in load_model_engines().values()})
