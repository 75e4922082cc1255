"""Options of ``gpufleet size``: validated and parsed into a request."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TypeVar, get_args

from gpufleet import catalog
from gpufleet.catalog import ModelArchitecture
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.memory.quantization import is_gguf_precision, normalize_precision
from gpufleet.sizing.memory.training_recipe import find_training_recipe
from gpufleet.sizing.memory.weights import stored_precision
from gpufleet.sizing.model_engine import find_model_engine
from gpufleet.sizing.parallelism import ParallelSizes
from gpufleet.sizing.plans.request import RANKS, Rank, SizingRequest
from gpufleet.sizing.speed.device import default_kv_precision
from gpufleet.sizing.speed.engine_generation import find_engine_generation
from gpufleet.sizing.workload import (
    DEFAULT_ACCEPTANCE,
    Adapter,
    Experts,
    Offload,
    Optimizer,
    Recompute,
    Sharding,
    Task,
    TrainingSettings,
    Workload,
)

TASKS: tuple[Task, ...] = get_args(Task)
CLOUDS = tuple(catalog.CLOUDS)
READING_TASKS = ("classify", "classification", "embed", "embedding", "rerank")
STATES = ("mixed", "bf16")
PURCHASES = ("on_demand", "spot", "reserved_1y", "reserved_3y", "owned")
SUFFIX_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
HOURS_PER_UNIT = {"h": 1.0, "d": 24.0, "w": 168.0}
MAX_SEQUENCE_TOKENS = 100_000_000  # of one sequence: ten times the longest context of any model
MAX_DEVICES = 1_000_000
MAX_BATCH = 1_000_000
MAX_TOTAL_TOKENS = 1e18
NUMBER = re.compile(r"^(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([kmbgt]?)$", re.IGNORECASE)
DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*([hdw])$", re.IGNORECASE)
DEFAULT_PRECISION = {"qlora": "nf4"}
DEFAULT_OUTPUT = 256
DEFAULT_INPUT = 1024
DEFAULT_TRAINING_LENGTH = 2048
MAX_DRAFT_TOKENS = 64
T = TypeVar("T", bound=str)


@dataclass(frozen=True)
class PlanOptions:
    """The arguments as typed; empty means not given."""

    model: str
    task: str = "inference"
    precision: str = ""
    context: str = ""
    batch: str = ""
    tokens: str = ""
    dataset: int | None = None
    epochs: float | None = None
    requests_per_s: float | None = None
    users: int | None = None
    tokens_per_user: float | None = None
    on: str | tuple[str, ...] = ()
    host: str = ""
    slot: str = ""
    devices: int | None = None
    engine: str = ""
    kv_precision: str = ""
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    latency_s: float | None = None
    deadline: str = ""
    reserve_gib: float | None = None
    budget: float | None = None
    regions: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    purchases: tuple[str, ...] = ()
    owned: bool = False
    rank: str = ""
    top: int = 20
    optimizer: str = ""
    adapter: str = ""
    lora_rank: int | None = None
    recompute: str = ""
    sharding: str = ""
    offload: str = ""
    states: str = ""
    experts: str = ""
    usd_per_kwh: float | None = None
    engine_version: str = ""
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: int | None = None
    draft_tokens: int | None = None
    acceptance: float | None = None
    prefix_hits: float | None = None
    disaggregated: bool = False


def read_clock() -> datetime:
    """Return the time now."""
    return datetime.now(UTC)


def parse_plan_options(
    options: PlanOptions, *, now: datetime | None = None, root: Path | None = None
) -> SizingRequest:
    """Return the request for these options; raise InputError with a remedy for a wrong one."""
    now = now or read_clock()
    workload, is_total, needs_max_streams = _build_workload(options)
    _refuse_conflicting_options(options, workload)
    return SizingRequest(
        workload=workload,
        hardware_names=tuple(dict.fromkeys(_list_hardware_names(options.on))),
        host_name=options.host,
        slot_name=options.slot,
        devices=_require_count(options.devices, "--devices", MAX_DEVICES),
        tokens=_total_tokens(options, workload),
        requests_per_s=_require_positive(options.requests_per_s, "--requests-per-s"),
        users=_require_count(options.users, "--users", MAX_BATCH),
        tokens_per_user=_require_positive(options.tokens_per_user, "--tokens-per-user"),
        ttft_s=_ms_to_seconds(_require_positive(options.ttft_ms, "--ttft-ms")),
        tpot_s=_ms_to_seconds(_require_positive(options.tpot_ms, "--tpot-ms")),
        latency_s=_require_positive(options.latency_s, "--latency"),
        deadline_h=_parse_deadline(options.deadline, now),
        reserve_gib=_require_positive(options.reserve_gib, "--reserve-gib") or 0.0,
        budget_usd=_require_positive(options.budget, "--budget"),
        regions=_parse_regions(options.regions),
        clouds=tuple(_require_choice(name, CLOUDS, "--cloud") for name in options.clouds),
        purchases=tuple(_require_choice(name, PURCHASES, "--purchase") for name in options.purchases),
        owned_only=options.owned,
        rank=_parse_rank(options),
        needs_max_streams=needs_max_streams,
        has_total_context_only=is_total,
        can_choose_batch=workload.is_training and not options.batch,
        max_plans=_parse_limit(options.top),
        project_root=root,
        usd_per_kwh=_require_positive(options.usd_per_kwh, "--usd-per-kwh"),
        day=now.date(),
        sizes=_parse_parallel_sizes(options),
    )


def _parse_parallel_sizes(options: PlanOptions) -> ParallelSizes:
    return ParallelSizes(
        _require_count(options.tensor_parallel, "--tensor-parallel", MAX_DEVICES) or 0,
        _require_count(options.pipeline_parallel, "--pipeline-parallel", MAX_DEVICES) or 0,
        _require_count(options.data_parallel, "--data-parallel", MAX_DEVICES) or 0,
        _require_count(options.expert_parallel, "--expert-parallel", MAX_DEVICES) or 0,
    )


def _parse_share(value: float | None, where: str, default: float) -> float:
    """Return a share between 0 and 1."""
    if value is None:
        return default
    if not 0 <= value <= 1:
        raise InputError(f"{value:g} is not a share", where=where, remedy="give a number from 0 to 1: 0.8")
    return value


def parse_token_count(text: str, where: str) -> float:
    """Parse a token count with a suffix or exponent: 2e9, 15T, 300M."""
    match = NUMBER.match(text.strip().replace("_", ""))
    value = float(match[1]) * SUFFIX_FACTORS[match[2].lower()] if match else 0.0
    if not match or not isfinite(value) or value <= 0:
        raise InputError(
            f"{text!r} is not a number of tokens", where=where, remedy="write it like 2e9, 300M or 15T"
        )
    if value > MAX_TOTAL_TOKENS:
        raise InputError(
            f"{text!r} is too many tokens", where=where, remedy=f"give at most {MAX_TOTAL_TOKENS:g}"
        )
    return value


def parse_context_tokens(text: str, *, trains: bool) -> tuple[int, int, bool]:
    """Return input and output tokens of ``IN/OUT`` or of a total, and whether only a total was given."""
    if not text:
        return (DEFAULT_TRAINING_LENGTH, 0, False) if trains else (DEFAULT_INPUT, DEFAULT_OUTPUT, False)
    lengths = [length.strip() for length in text.split("/")]
    if len(lengths) > 2:  # noqa: PLR2004 - prompt and answer
        raise InputError(
            f"{text!r} has more than two parts", where="--context", remedy="give 8192, or 1000/500"
        )
    counts = [_parse_length(length, text) for length in lengths]
    if len(counts) == 2:  # noqa: PLR2004
        if sum(counts) == 0:
            raise InputError("0/0 has no tokens", where="--context", remedy="give 8192, or 1000/500")
        return counts[0], counts[1], False
    if counts[0] == 0:
        raise InputError("0 is not a length", where="--context", remedy="give 8192, or 1000/500")
    if trains:
        return counts[0], 0, False
    return counts[0] // 2, counts[0] - counts[0] // 2, True


def _parse_length(length: str, text: str) -> int:
    factor = 1024 if length[-1:].lower() == "k" else 1
    digits = length[:-1] if factor > 1 else length
    if not digits.isascii() or not digits.isdigit():
        remedy = "give whole tokens: 8192, 128k, or 1000/500 for prompt and answer"
        raise InputError(f"{text!r} is not a length", where="--context", remedy=remedy)
    count = int(digits) * factor
    if count > MAX_SEQUENCE_TOKENS:
        raise InputError(
            f"{text!r} is longer than any sequence",
            where="--context",
            remedy=f"at most {MAX_SEQUENCE_TOKENS:,}",
        )
    return count


def _document_tokens(options: PlanOptions, model: ModelArchitecture, *, trains: bool) -> tuple[int, int]:
    """Return the tokens of a document, and no answer; raise InputError for an answer of an encoder."""
    prompt, answer, is_total = parse_context_tokens(options.context, trains=trains)
    if trains or is_total:
        return prompt + answer, 0
    if not options.context:
        return min(prompt, model.max_context), 0
    if answer:
        raise InputError(
            f"{model.name} is an encoder: it generates no tokens",
            where="--context",
            remedy=f"give the tokens of a document: {prompt}/0, or {prompt}",
        )
    return prompt, 0


def _build_workload(options: PlanOptions) -> tuple[Workload, bool, bool]:
    if options.task.strip().lower() in READING_TASKS:
        raise InputError(
            f"{options.task!r} is not a task of its own",
            where="--task",
            remedy="leave it out: an encoder reads documents of --context tokens, a language model answers in IN/OUT",
        )
    task = _require_choice(options.task, TASKS, "--task")
    trains = task != "inference"
    prompt, answer, is_total = parse_context_tokens(options.context, trains=trains)
    needs_max_streams = options.batch.strip().lower() == "max"
    if needs_max_streams and trains:
        raise InputError(
            "'max' is only valid for inference", where="--batch", remedy="give the micro-batch of one device"
        )
    try:
        model = catalog.get_model(options.model)
    except InputError as error:
        where = error.where or "--model"
        raise InputError(error.problem, where=where, key=error.key, remedy=error.remedy) from None
    if model.is_encoder:
        prompt, answer = _document_tokens(options, model, trains=trains)
    return (
        Workload(
            model=model,
            task=task,
            precision=_parse_precision(options, task, model),
            input_tokens=prompt,
            output_tokens=answer,
            batch=1 if needs_max_streams else _parse_batch(options.batch),
            kv_precision=_parse_format(
                options.kv_precision or _default_kv_precision(options), "--kv-precision"
            ),
            engine=find_model_engine(options.engine).name if options.engine else None,
            engine_version=_parse_engine_version(options),
            disaggregated=options.disaggregated,
            draft_tokens=_require_count(options.draft_tokens, "--draft-tokens", MAX_DRAFT_TOKENS) or 0,
            acceptance=_parse_share(options.acceptance, "--acceptance", DEFAULT_ACCEPTANCE),
            prefix_hits=_parse_share(options.prefix_hits, "--prefix-hits", 0.0),
            training=_training_options(options, task),
            has_concurrent_streams=needs_max_streams
            or options.requests_per_s is not None
            or (options.users or 1) > 1,
        ),
        is_total,
        needs_max_streams,
    )


def _parse_engine_version(options: PlanOptions) -> str:
    if not options.engine_version:
        return ""
    if not options.engine:
        raise InputError("needs --engine", where="--engine-version", remedy="name the engine: --engine vllm")
    engine = find_model_engine(options.engine).name
    if not find_engine_generation(engine, options.engine_version):
        raise InputError(
            f"{engine} has no versions of different speed here",
            where="--engine-version",
            remedy="leave it out: it distinguishes vllm, sglang, tensorrt-llm and lmdeploy",
        )
    return options.engine_version


def _default_kv_precision(options: PlanOptions) -> str:
    return default_kv_precision(
        find_model_engine(options.engine).name if options.engine else "", options.precision or ""
    )


def _parse_precision(options: PlanOptions, task: Task, model: ModelArchitecture) -> str:
    stored = stored_precision(model) if task == "inference" else ""  # a model file runs in its own precision
    name = _parse_format(options.precision or stored or DEFAULT_PRECISION.get(task, "bf16"), "--precision")
    if task not in ("inference", "qlora", "dpo") and (is_gguf_precision(name) or name in ("int4", "nf4")):
        raise InputError(
            f"full training in {name} is not supported",
            where="--precision",
            remedy="give bf16, or --task qlora",
        )
    return name


def _parse_format(text: str, where: str) -> str:
    try:
        return normalize_precision(text)
    except InputError as error:
        raise InputError(error.problem, where=where, remedy=error.remedy) from None


def _training_options(options: PlanOptions, task: Task) -> TrainingSettings:
    defaults = find_training_recipe(options.engine)
    return replace(
        defaults,
        optimizer=_require_choice(options.optimizer or "adamw", get_args(Optimizer), "--optimizer"),
        adapter=_require_choice(options.adapter or "none", get_args(Adapter), "--adapter"),
        lora_rank=_require_count(options.lora_rank, "--lora-rank", 65_536) or 16,
        recompute=_require_choice(
            options.recompute or (defaults.recompute if task else "none"), get_args(Recompute), "--recompute"
        ),
        sharding=_require_choice(options.sharding or "auto", get_args(Sharding), "--sharding"),
        offload=_require_choice(options.offload or "none", get_args(Offload), "--offload"),
        master_copy=_has_master_copy(options, default=defaults.master_copy),
        experts=_require_choice(options.experts or defaults.experts, get_args(Experts), "--experts"),
    )


def _has_master_copy(options: PlanOptions, *, default: bool) -> bool:
    """Return whether the optimizer keeps a 32-bit copy of the weights; 8-bit AdamW, paged or not, keeps none."""
    states = _require_choice(options.states, STATES, "--states") if options.states else ""
    return states == "mixed" if states else default and not options.optimizer.endswith("_8bit")


def _refuse_conflicting_options(options: PlanOptions, workload: Workload) -> None:
    """Raise InputError for options that cannot be combined; no option is ignored silently."""
    training_only = {
        "--dataset": options.dataset, "--epochs": options.epochs, "--optimizer": options.optimizer,
        "--adapter": options.adapter, "--lora-rank": options.lora_rank, "--recompute": options.recompute,
        "--sharding": options.sharding, "--offload": options.offload, "--states": options.states,
        "--experts": options.experts,
    }  # fmt: skip
    serving_only = {
        "--requests-per-s": options.requests_per_s, "--ttft-ms": options.ttft_ms, "--tpot-ms": options.tpot_ms,
        "--latency": options.latency_s, "--kv-precision": options.kv_precision, "--users": options.users,
        "--tokens-per-user": options.tokens_per_user,
        "--engine-version": options.engine_version, "--draft-tokens": options.draft_tokens,
        "--acceptance": options.acceptance, "--prefix-hits": options.prefix_hits,
        "--disaggregated": options.disaggregated or None,
    }  # fmt: skip
    forbidden, kind = (serving_only, "inference") if workload.is_training else (training_only, "training")
    for name, value in forbidden.items():
        if value not in (None, ""):
            raise InputError(
                f"is for {kind}", where=name, remedy=f"leave it out, or change --task {workload.task}"
            )
    if options.adapter and options.adapter != "none" and workload.task != "dpo":
        raise InputError(
            "can only be combined with --task dpo", where="--adapter", remedy="or give --task lora or qlora"
        )
    if options.devices is not None and not options.on:
        raise InputError("needs --on", where="--devices", remedy="name the hardware: --on p4d.24xlarge")
    for name, text in (("--host", options.host), ("--slot", options.slot)):
        if text and not _list_hardware_names(options.on):
            raise InputError("needs --on", where=name, remedy='name the card: --on "RX 7900 XT"')
    if options.acceptance is not None and not options.draft_tokens:
        raise InputError(
            "needs --draft-tokens", where="--acceptance", remedy="give how many tokens are guessed ahead: 3"
        )
    _refuse_sizes_without_hardware(options)
    if options.deadline and not (options.tokens or options.dataset):
        raise InputError("needs an amount of work", where="--deadline", remedy="give --tokens, or --dataset")
    if options.requests_per_s is not None and options.tokens:
        raise InputError(
            "cannot be combined with --tokens", where="--requests-per-s", remedy="give traffic, or work"
        )
    _refuse_conflicting_users(options, workload)
    if options.requests_per_s is not None and workload.output_tokens == 0 and not workload.model.is_encoder:
        raise InputError(
            "requests must have output tokens", where="--context", remedy="give IN/OUT with OUT above 0"
        )


def _refuse_conflicting_users(options: PlanOptions, workload: Workload) -> None:
    """Raise InputError for options that say in another way what --users and --tokens-per-user say."""
    if options.tokens_per_user is not None and options.users is None:
        raise InputError("needs --users", where="--tokens-per-user", remedy="give --users 1 for one stream")
    if options.users is None:
        return
    if workload.model.is_encoder:
        remedy = "give --requests-per-s: documents a second"
        raise InputError(
            f"{workload.model.name} has no answers for users: it is an encoder",
            where="--users",
            remedy=remedy,
        )
    others = {
        "--batch": options.batch, "--requests-per-s": options.requests_per_s, "--tokens": options.tokens,
    }  # fmt: skip
    for name, value in others.items():
        if value not in (None, ""):
            raise InputError(
                f"cannot be combined with {name}",
                where="--users",
                remedy="give the users at the same time, or the streams, the traffic or the work",
            )
    if options.tokens_per_user is not None and options.tpot_ms is not None:
        raise InputError(
            "cannot be combined with --tpot-ms",
            where="--tokens-per-user",
            remedy="both bound the same speed: give one",
        )


def _list_hardware_names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the hardware; one name alone may be a string."""
    return ((names,) if names else ()) if isinstance(names, str) else names


def _refuse_sizes_without_hardware(options: PlanOptions) -> None:
    sizes = _parse_parallel_sizes(options)
    if not sizes.is_given:
        return
    if not options.on:
        raise InputError(
            "needs --on", where="--tensor-parallel", remedy="name the hardware: --on p5.48xlarge"
        )
    if options.devices is not None and options.devices % sizes.devices:
        raise InputError(
            f"{options.devices} is not a multiple of the layout's {sizes.devices} devices",
            where="--devices",
            remedy=f"give {sizes.devices}, or other sizes",
        )


def _total_tokens(options: PlanOptions, workload: Workload) -> float | None:
    if options.epochs is not None and options.dataset is None:
        raise InputError("needs --dataset", where="--epochs", remedy="give the number of sequences")
    if options.tokens and options.dataset is not None:
        raise InputError("give one of --tokens and --dataset", where="--dataset")
    if options.tokens:
        return parse_token_count(options.tokens, "--tokens")
    if options.dataset is None:
        return None
    sequences = _require_count(options.dataset, "--dataset", 10**15) or 0
    pairs = 2 if workload.task == "dpo" else 1  # each example has a chosen and a rejected sequence
    return (
        float(sequences)
        * (_require_positive(options.epochs, "--epochs") or 1.0)
        * workload.context_tokens
        * pairs
    )


def _parse_deadline(text: str, now: datetime) -> float | None:
    if not text:
        return None
    span = DURATION.match(text.strip())
    if span:
        hours = float(span[1]) * HOURS_PER_UNIT[span[2].lower()]
    else:
        try:
            day = datetime.fromisoformat(text.strip())
        except ValueError:
            remedy = "write it like 36h, 7d, 2w or 2027-01-31"
            raise InputError(f"{text!r} is not a deadline", where="--deadline", remedy=remedy) from None
        hours = (day.replace(tzinfo=day.tzinfo or UTC) - now).total_seconds() / 3600
    if hours <= 0:
        raise InputError(f"{text!r} is in the past", where="--deadline", remedy="give a time in the future")
    return hours


def _parse_batch(text: str) -> int:
    if not text:
        return 1
    if not text.strip().isascii() or not text.strip().isdigit():
        raise InputError(
            f"{text!r} is not a batch size", where="--batch", remedy="give a whole number from 1, or max"
        )
    return _require_count(int(text), "--batch", MAX_BATCH) or 1


def _require_count(value: int | None, where: str, maximum: int) -> int | None:
    if value is None:
        return None
    if value < 1:
        raise InputError(f"{value} is too few", where=where, remedy="give 1 or more")
    if value > maximum:
        raise InputError(f"{value} is too many", where=where, remedy=f"give at most {maximum:,}")
    return value


def _require_positive(value: float | None, where: str) -> float | None:
    if value is not None and not (isfinite(value) and value > 0):
        raise InputError(f"{value:g} is not above 0", where=where, remedy="give a number above 0")
    return value


def _ms_to_seconds(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _parse_limit(top: int) -> int:
    if top < 0:
        raise InputError(f"{top} is negative", where="--top", remedy="give how many plans to show, 0 for all")
    return top


def _parse_rank(options: PlanOptions) -> Rank:
    """Return the ranking; one's own hardware is paid whether it is used or not, so that its speed is what counts."""
    return _require_choice(options.rank or ("speed" if options.owned else "cost"), RANKS, "--rank")


def _parse_regions(names: tuple[str, ...]) -> tuple[str, ...]:
    known_regions = {region for cloud in CLOUDS for region in catalog.list_accelerator_regions(cloud)}
    for name in names:
        if name not in known_regions:
            from difflib import get_close_matches

            close = get_close_matches(name, sorted(known_regions), n=3)
            remedy = (
                f"did you mean {' or '.join(close)}?" if close else "give a region as its cloud spells it"
            )
            raise InputError(f"unknown region {name!r}", where="--region", remedy=remedy)
    return names


def _require_choice(text: str, allowed: tuple[T, ...], where: str) -> T:
    normalized = text.strip().lower().replace("-", "_")
    for name in allowed:
        if name == normalized:
            return name
    from difflib import get_close_matches

    close = get_close_matches(normalized, allowed, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"give one of {', '.join(allowed)}"
    raise InputError(f"{text!r} is not a known value", where=where, remedy=remedy)
