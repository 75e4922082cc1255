"""Training of mixtures of experts: grouped products, dispatch and combine, permutation, and what each layer launches.

Tokens pass a router, are permuted by expert, sent to the devices that hold those experts, multiplied in groups, sent
back and summed. Routing is taken as even, as benchmarks force it. Times are of one micro-batch, forward and backward,
on one device of one pipeline stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from gpufleet.sizing.speed import interconnect
from gpufleet.sizing.speed.replica import Replica

WEIGHT_BYTES = 2.0
EXCHANGES = 4.0  # dispatch and combine, forward and backward
GRADIENT_AND_WEIGHT_BYTES = 6.0  # a 32-bit gradient is reduced, a 16-bit weight is gathered
# Bytes per expert weight of its three products: read forward, read backward, 32-bit gradient read and written.
EXPERT_WEIGHT_TRAFFIC = 12.0
# Bytes per token, chosen expert and unit of its width: gate, up and their product, forward and backward, in 16 bits.
ACTIVATION_TRAFFIC = 20.0
UNKNOWN_BANDWIDTH = 1e12  # bytes per second of a device without a published one
MICRO_BATCHES = 8  # assumption: per pipeline stage and step, which keeps the pipeline bubble small
BACKWARD_SHARE = 2.0 / 3.0  # of a micro-batch's time; gradients are reduced beneath it
# One launch for a whole step: XLA programs, and Megatron's MoE layers since the CUDA graphs of NeMo 26.06
# (Megatron-Bridge performance-summary-archive.md: Qwen3 30B on GB200 from 26,112 to 40,706 tokens/s, same layout).
GRAPHED_SINCE = {"megatron": "2026-06", "maxtext": ""}


@dataclass(frozen=True)
class ExpertTime:
    """Seconds of the routed experts of one micro-batch; ``exchange`` is what work doesn't hide."""

    compute: float
    permutation: float
    exchange: float
    launch: float
    reduction: (
        float  # of gradients between copies of the same experts, of one micro-batch's share of the step
    )


NO_EXPERTS = ExpertTime(0.0, 0.0, 0.0, 0.0, 0.0)


def count_routed_weights(replica: Replica) -> float:
    """Return the number of routed expert weights of the whole model."""
    experts = replica.model.experts
    if experts is None:
        return 0.0
    matrices = 3.0 if replica.model.gated else 2.0
    return (
        matrices * replica.expert_layer_count * experts.count * _expert_input(replica) * experts.intermediate
    )


def count_routed_operations(replica: Replica) -> float:
    """Return forward operations per token of the experts that it passes: two per weight."""
    experts = replica.model.experts
    return 2.0 * count_routed_weights(replica) * experts.per_token / experts.count if experts else 0.0


def choose_expert_parallel(replica: Replica, flops: float) -> int:
    """Return over how many devices the experts of a layer are spread: the layout's, or the fastest divisor of them.

    ``flops``: what dense products of the workload reach on a device.
    """
    experts, ranks = replica.model.experts, replica.layout.data * replica.layout.tensor
    if experts is None:
        return 1
    if replica.layout.expert > 1:
        return replica.layout.expert
    sizes = [size for size in _list_divisors(experts.count) if size <= ranks]
    return min(sizes, key=lambda size: _compare_seconds(replica, size, flops))


@lru_cache(maxsize=64)
def _list_divisors(number: int) -> tuple[int, ...]:
    return tuple(size for size in range(1, number + 1) if number % size == 0)


def estimate_expert_time(
    replica: Replica, parallel: int, flops: float, other_seconds: float
) -> ExpertTime | None:
    """Return the time of the routed experts of a micro-batch, None for a dense model.

    ``parallel`` devices share a layer's experts. ``flops``: what dense products of the workload reach on a device.
    ``other_seconds``: the rest of the micro-batch.
    """
    experts, layout = replica.model.experts, replica.layout
    if experts is None or not replica.expert_layer_count:
        return None
    tokens = _rank_tokens(replica)
    compute = _product_seconds(replica, parallel, flops)
    layers = replica.expert_layer_count / layout.pipeline
    moved = (
        tokens
        * experts.per_token
        * layers
        * (
            replica.efficiency_factor("train_permutation") * _expert_input(replica) * WEIGHT_BYTES
            + ACTIVATION_TRAFFIC * experts.intermediate * _activation_passes(replica)
        )
    )
    launch = layers * replica.efficiency_factor(
        "train_graphed_seconds" if _is_graphed(replica) else "train_expert_seconds"
    )
    exchange, permutation = _exchange_seconds(replica, parallel), moved / _traffic_bytes_per_s(replica)
    micro_batch = max(compute + permutation + exchange + other_seconds, launch)
    return ExpertTime(
        compute, permutation, exchange, launch, _reduction_seconds(replica, parallel, micro_batch)
    )


def _product_seconds(replica: Replica, parallel: int, flops: float) -> float:
    """Return seconds of the experts' grouped products and of their weights' way from memory and back."""
    experts, layout = replica.model.experts, replica.layout
    if experts is None:
        return 0.0
    tokens = _rank_tokens(replica)
    tokens_per_expert = tokens * parallel * experts.per_token / experts.count
    share = tokens_per_expert / (tokens_per_expert + replica.efficiency_factor("train_expert_tokens"))
    operations = _pass_count(replica) * tokens * count_routed_operations(replica) / layout.pipeline
    local_weights = count_routed_weights(replica) / parallel / layout.pipeline
    return operations / (
        flops * replica.efficiency_factor("train_experts") * share
    ) + EXPERT_WEIGHT_TRAFFIC * local_weights / _traffic_bytes_per_s(replica)


def _traffic_bytes_per_s(replica: Replica) -> float:
    nominal = replica.peak_bandwidth_bytes_per_s or UNKNOWN_BANDWIDTH
    return nominal * replica.capped_efficiency_factor("train_traffic")


def _activation_passes(replica: Replica) -> float:
    """Return how often the experts' activation moves its tensors: once if its operations are one kernel.

    Megatron ran the biases and the clamped activation of gpt-oss as separate operations before NeMo 26.06.
    """
    unfused = (
        replica.model.family == "gpt_oss"
        and replica.calibrated_engine == "megatron"
        and not _is_graphed(replica)
    )
    return replica.efficiency_factor("train_unfused") if unfused else 1.0


def _rank_tokens(replica: Replica) -> float:
    """Return the tokens of a micro-batch on one device: tensor parallelism splits them for the experts."""
    return replica.workload.batch * replica.workload.context_tokens / replica.layout.tensor


def _pass_count(replica: Replica) -> float:
    """Return forward passes that cost as much: one forward, one or two backward, and the recomputed one."""
    backward = 1.0 if replica.workload.adapter_kind != "none" else 2.0
    is_recomputed = replica.workload.training.recompute == "full"
    recomputed = replica.efficiency_factor("train_recompute") if is_recomputed else 0.0
    return 1.0 + backward + recomputed


def _moe_layer_count(replica: Replica) -> int:
    return replica.expert_layer_count


def _expert_input(replica: Replica) -> float:
    """Return the width of what an expert reads: the model's, or the latent one that tokens are projected to."""
    experts = replica.model.experts
    return float((experts.latent if experts else 0) or replica.model.hidden)


def _is_graphed(replica: Replica) -> bool:
    """Return whether the engine replays a mixture's layers; an engine without a version is the newest."""
    since = GRAPHED_SINCE.get(replica.calibrated_engine)
    return since is not None and (version_month(replica.workload.engine_version) or "9999") >= since


def version_month(version: str) -> str:
    """Return YYYY-MM of a date or of a version named after one (NeMo's 26.04.01); empty for others."""
    parts = version.replace(".", "-").split("-")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):  # noqa: PLR2004 - year and month
        return ""
    return f"{parts[0] if len(parts[0]) == 4 else '20' + parts[0]}-{parts[1]:0>2}"  # noqa: PLR2004 - a year


def _compare_seconds(replica: Replica, parallel: int, flops: float) -> float:
    """Return the seconds of a micro-batch that depend on how many devices share the experts."""
    layout = replica.layout
    seconds = _product_seconds(replica, parallel, flops)
    seconds += _exchange_seconds(replica, parallel) + _reduction_seconds(replica, parallel, 0.0)
    if (
        parallel == 1 and layout.pipeline == 1 and layout.data > 1
    ):  # weights are gathered instead, for each pass
        moved = 3.0 * WEIGHT_BYTES * count_routed_weights(replica) / layout.tensor
        seconds += moved / (_copy_gb_s(replica, parallel) * 1e9)
    return seconds


def _exchange_seconds(replica: Replica, parallel: int) -> float:
    """Return seconds of dispatch and combine: a token goes once to each node, and there to each device, that it needs.

    Source: DeepEP's dispatch (DeepSeek-V3, arXiv 2412.19437, section 3.2.2). The expected number of places that ``k``
    of even choices reach is ``n (1 - (1 - 1 / n)^k)``.
    """
    experts = replica.model.experts
    if experts is None or parallel <= 1:
        return 0.0
    per_node = max(1, replica.hardware.devices_per_node)
    nodes = max(1, parallel // per_node)
    local = min(parallel, per_node)
    token_bytes = (
        EXCHANGES
        * _rank_tokens(replica)
        * _expert_input(replica)
        * WEIGHT_BYTES
        * replica.expert_layer_count
        / replica.layout.pipeline
    )
    in_node = _expected_places(parallel, experts.per_token) * (local - 1) / local
    seconds = token_bytes * in_node / (interconnect.intra_node_link(replica.hardware).gb_s * 1e9)
    if nodes > 1:
        between = _expected_places(nodes, experts.per_token) * (nodes - 1) / nodes
        seconds += token_bytes * between / (interconnect.inter_node_link(replica.hardware).gb_s * 1e9)
    return seconds / replica.efficiency_factor("train_exchange")


def _expected_places(places: int, choices: int) -> float:
    return float(places * (1.0 - (1.0 - 1.0 / places) ** choices))


def _copy_gb_s(replica: Replica, parallel: int) -> float:
    """Return GB/s of one device towards other copies of its experts: each node's copies share its adapters."""
    hardware = replica.hardware
    if replica.layout.data * replica.layout.tensor * replica.layout.pipeline <= hardware.devices_per_node:
        return interconnect.intra_node_link(hardware).gb_s
    copies_in_node = max(1, hardware.devices_per_node // parallel)
    return min(
        interconnect.intra_node_link(hardware).gb_s,
        interconnect.inter_node_link(hardware).gb_s * copies_in_node,
    )


def _reduction_seconds(replica: Replica, parallel: int, micro_batch_seconds: float) -> float:
    """Return exposed seconds of the experts' gradients, per micro-batch: the last backward pass hides some of them."""
    layout, training = replica.layout, replica.workload.training
    copies = layout.data * layout.tensor // parallel
    if copies <= 1 or replica.workload.adapter_kind != "none":
        return 0.0
    weights = count_routed_weights(replica) / parallel / layout.pipeline
    seconds = (
        GRADIENT_AND_WEIGHT_BYTES * weights * (copies - 1) / copies / (_copy_gb_s(replica, parallel) * 1e9)
    )
    micro_batches = training.accumulation if training.accumulation > 1 else MICRO_BATCHES * layout.pipeline
    return max(0.0, seconds - BACKWARD_SHARE * micro_batch_seconds) / micro_batches
