"""Training speed: forward, backward and recomputed passes, and communication of shards."""

from __future__ import annotations

from math import log2

from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.speed import interconnect, operation_count, training_experts
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica, combine_overlapping_seconds
from gpufleet.sizing.speed.result import Limit

WEIGHT_BYTES = 2.0
DEQUANTIZE_BYTES = 2.5  # per 4-bit weight: half a byte read, two bytes written
OPTIMIZER_UPDATE_BYTES = (
    28.0  # bytes per weight of Adam on the host: 32-bit weight, gradient and two moments, read and written
)
HOST_GB_S = 200.0  # assumption: effective memory bandwidth of a two-socket host
# A ring over 53 nodes of eight reached 187 GB/s (github.com/llm-jp/scripts cluster/gpu/all_reduce_bench/README.md), far
# more than one adapter; with overlapping compute, multi-node runs in measured.csv fit best with a fifth to a half.
RING_SHARE = 0.5
PIPELINE_GRADIENT_BYTES = 4.0  # gradients of a pipeline are accumulated in 32 bits
EXTRA_FORWARD_PASSES = {
    "none": 0.0,
    "selective": 0.0,
    "full": 1.0,
}  # extra forward passes


@dataclass(frozen=True)
class TrainingStepTime:
    """Seconds of one optimizer step by component."""

    compute: float
    sharding: float
    tensor: float
    launch: float
    offload: float
    experts: training_experts.ExpertTime | None = None

    @property
    def total_seconds(self) -> float:
        """Return the seconds of the step.

        Sharding overlaps with compute, tensor-parallel all-reduces do not. What a mixture's layers launch is hidden
        while the device is busy with earlier layers.
        """
        experts = self.experts or training_experts.NO_EXPERTS
        busy = combine_overlapping_seconds(
            self.compute + experts.compute + experts.permutation, self.sharding
        )
        busy += self.tensor + experts.exchange
        return (
            combine_overlapping_seconds(busy, experts.launch) + experts.reduction + self.launch + self.offload
        )

    def find_bottleneck(self, replica: Replica) -> Limit:
        """Return the component that takes most of the step."""
        is_one_node = count_replica_devices(replica) <= replica.hardware.devices_per_node
        link: Limit = "interconnect" if is_one_node else "network"
        shares: list[tuple[float, Limit]] = [
            (self.compute, "compute"),
            (self.sharding, link),
            (self.tensor, replica.link_limit_name),
            (self.offload, "host link"),
        ]
        if self.experts:
            shares[0] = (self.compute + self.experts.compute, "compute")
            shares += [
                (self.experts.permutation, "memory bandwidth"),
                (self.experts.launch, "launch overhead"),
                (self.experts.exchange + self.experts.reduction, link),
            ]
        return max(shares)[1]


def estimate_training_step_time(replica: Replica) -> TrainingStepTime | None:
    """Return the time of one step over every device's micro-batch, None without a known rate."""
    rate = _effective_flops(replica)
    if rate is None:
        return None
    compute = training_tokens_per_step(replica) / replica.layout.data * _operations_per_token(replica) / rate
    compute /= replica.layout.tensor * replica.layout.pipeline
    parallel = training_experts.choose_expert_parallel(replica, rate)
    return TrainingStepTime(
        compute=compute,
        sharding=_sharding_seconds(replica, parallel),
        tensor=_tensor_parallel_seconds(replica),
        launch=_launch_seconds(replica) + _dequantize_seconds(replica),
        offload=_offload_seconds(replica),
        experts=training_experts.estimate_expert_time(replica, parallel, rate, compute),
    )


def _launch_seconds(replica: Replica) -> float:
    """Return seconds of the stage's layers that do not depend on tokens; a recurrence launches more than attention."""
    model = replica.model
    recurrent = model.linear.layers if model.linear else 0
    ordinary = max(0, model.layers - replica.expert_layer_count - recurrent)
    return (
        ordinary * replica.efficiency_factor("train_layer_seconds")
        + recurrent * replica.efficiency_factor("train_linear_seconds")
    ) / replica.layout.pipeline


def _dequantize_seconds(replica: Replica) -> float:
    """Return seconds of dequantizing 4-bit weights to 16 bits, once per pass."""
    if replica.workload.adapter_kind != "qlora" or not replica.peak_bandwidth_bytes_per_s:
        return 0.0
    passes = 2.0 + EXTRA_FORWARD_PASSES[replica.workload.training.recompute]
    moved_bytes = (
        passes
        * DEQUANTIZE_BYTES
        * replica.model.parameters
        / (replica.layout.tensor * replica.layout.pipeline)
    )
    return moved_bytes / (
        replica.peak_bandwidth_bytes_per_s * replica.capped_efficiency_factor("train_unpack")
    )


def training_tokens_per_step(replica: Replica) -> float:
    """Return the tokens that all devices of the replica train on in one step."""
    return float(replica.workload.batch * replica.workload.context_tokens * replica.layout.data)


def _operations_per_token(replica: Replica) -> float:
    """Return operations per token without routed experts: forward, backward and recomputation."""
    model, training = replica.model, replica.workload.training
    dense = operation_count.forward_operations_per_token(model)
    dense = max(0.0, dense - training_experts.count_routed_operations(replica))
    attention = operation_count.attention_operations_per_token(
        model, replica.workload.context_tokens
    ) / replica.capped_efficiency_factor("train_attention")
    backward = 1.0 if is_adapter_training(replica) else 2.0  # frozen weights need no weight gradient
    extra_passes = EXTRA_FORWARD_PASSES[training.recompute] * replica.efficiency_factor("train_recompute")
    return dense * (1.0 + backward + extra_passes) + attention * (3.0 + extra_passes)


def is_adapter_training(replica: Replica) -> bool:
    """Return whether only an adapter is trained (LoRA, QLoRA)."""
    return replica.workload.adapter_kind != "none"


def _effective_flops(replica: Replica) -> float | None:
    if replica.device_peak_flops is None:
        return None
    share = replica.efficiency_factor("train_compute") * replica.efficiency_factor(
        f"train_compute_{_training_format(replica)}"
    )
    share *= replica.saturation_factor("train_law", replica.device_peak_flops, REFERENCE_FLOPS)
    share *= replica.efficiency_factor("train_adapter") if is_adapter_training(replica) else 1.0
    spread = max(1.0, log2(max(1.0, count_replica_devices(replica))))
    stages = _pipeline_bubble(replica)
    return (
        replica.device_peak_flops
        * min(share, MAX_SHARE)
        * float(spread ** -replica.efficiency_factor("train_spread"))
        / stages
    )


def _pipeline_bubble(replica: Replica) -> float:
    """Return the step's time over that of a full pipeline; of many micro-batches if their number is not stated.

    Source: Megatron-LM (arXiv 2104.04473), section 2.2.1: stages less one, over the micro-batches of a step.
    """
    pipeline, micro_batches = replica.layout.pipeline, replica.workload.training.accumulation
    if micro_batches > 1:
        return 1.0 + (pipeline - 1) / micro_batches
    return 1.0 + replica.efficiency_factor("train_stages") * log2(pipeline)


def _training_format(replica: Replica) -> str:
    if replica.workload.task == "qlora":
        return "nf4"
    return operation_count.kernel_weight_format(replica.workload.precision)


def count_replica_devices(replica: Replica) -> int:
    """Return the number of devices of the replica."""
    return replica.layout.tensor * replica.layout.pipeline * replica.layout.data


def _sharding_seconds(replica: Replica, expert_parallel: int) -> float:
    """Return seconds of data-parallel communication: gathered weights and reduced gradients.

    Experts that several devices share are not gathered: tokens are sent instead, and their gradients counted there.
    """
    layout, members = replica.layout, replica.layout.data
    if layout.pipeline > 1:
        return _pipeline_seconds(replica, expert_parallel)
    if members <= 1 or replica.calibrated_engine == "megatron":
        return 0.0  # included in Megatron's measured compute factor
    gathered = _count_replicated_weights(replica, expert_parallel)
    return _all_gather_seconds(replica, WEIGHT_BYTES * gathered / layout.tensor)


def _all_gather_seconds(replica: Replica, weight_bytes: float) -> float:
    """Return seconds of all-gathering so many weight bytes and reduce-scattering their gradients."""
    layout, members = replica.layout, replica.layout.data
    gradient_factor = 0.0 if is_adapter_training(replica) else 1.0
    if replica.workload.training.sharding not in ("auto", "zero3"):
        return _ring_seconds(replica, 2.0 * gradient_factor * weight_bytes, members, members)
    shards = layout.shards or members
    shard_seconds = _ring_seconds(
        replica, (2.0 + gradient_factor) * weight_bytes, shards, shards
    )  # gathered forward and backward, then reduced
    return shard_seconds + _ring_seconds(
        replica, 2.0 * gradient_factor * weight_bytes / shards, members // shards, members
    )


def _pipeline_seconds(replica: Replica, expert_parallel: int) -> float:
    """Return seconds of pipeline communication: activations between stages, gradients once per step."""
    layout, work = replica.layout, replica.workload
    split = layout.tensor * layout.pipeline
    gradients = (
        0.0
        if is_adapter_training(replica)
        else 2.0 * PIPELINE_GRADIENT_BYTES * _count_replicated_weights(replica, expert_parallel) / split
    )
    span = layout.data * layout.pipeline  # distance between data-parallel copies of one stage
    reduce_seconds = _ring_seconds(replica, gradients, layout.data, span) / (
        training_experts.MICRO_BATCHES * layout.pipeline
    )
    states = 2.0 * WEIGHT_BYTES * work.batch * work.context_tokens * replica.model.hidden / layout.tensor
    link = (
        interconnect.intra_node_link(replica.hardware) if split <= replica.hardware.devices_per_node else None
    )
    return reduce_seconds + states / ((link or interconnect.inter_node_link(replica.hardware)).gb_s * 1e9)


def _count_replicated_weights(replica: Replica, expert_parallel: int) -> float:
    """Return the weights that every data-parallel device has: not those of experts that several devices share."""
    routed = training_experts.count_routed_weights(replica) if expert_parallel > 1 else 0.0
    return replica.model.parameters - routed


def _ring_seconds(replica: Replica, payload: float, members: int, spread: int) -> float:
    """Return seconds of a ring pass of the payload over ``members`` devices that span ``spread`` devices."""
    return payload * (members - 1) / members / (_ring_gb_s(replica, spread) * 1e9) if members > 1 else 0.0


def _ring_gb_s(replica: Replica, span: int) -> float:
    """Return GB/s of a ring over data-parallel devices: between nodes it uses all adapters of its devices.

    A ring enters and leaves each node once, so a group of eight devices of a node shares that node's eight adapters.
    """
    hardware, tensor = replica.hardware, replica.layout.tensor
    intra_node_gb_s = interconnect.intra_node_link(hardware).gb_s
    if span * tensor <= hardware.devices_per_node:
        return intra_node_gb_s
    if hardware.accelerator.kind == "tpu":
        return interconnect.inter_node_link(hardware).gb_s  # ICI links of a pod connect chips directly
    neighbours = max(1, hardware.devices_per_node // tensor)
    return min(intra_node_gb_s, interconnect.inter_node_link(hardware).gb_s * neighbours * RING_SHARE)


def _tensor_parallel_seconds(replica: Replica) -> float:
    """Return seconds of tensor-parallel all-reduces: two forward and two backward per layer of the stage."""
    return (
        2.0
        * replica.all_reduce_seconds(replica.workload.batch * replica.workload.context_tokens)
        / replica.layout.pipeline
    )


def _offload_seconds(replica: Replica) -> float:
    """Return seconds in which states cross the PCIe slot and the host's CPUs update the weights."""
    kind = replica.workload.training.offload
    if kind == "none":
        return 0.0
    weight_bytes = replica.model.parameters
    crossing = (
        weight_bytes
        * 2.0
        * (2.0 if kind == "optimizer" else 3.0)
        / count_replica_devices(replica)
        / (interconnect.PCIE_GB_S * 1e9)
    )
    return crossing + weight_bytes * OPTIMIZER_UPDATE_BYTES / replica.layout.nodes / (HOST_GB_S * 1e9)
