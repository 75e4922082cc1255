"""Training: operations of forward, backward and recomputed passes, beside what shards exchange."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from gpufleet.sizing.speed import interconnect, operation_count
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica, combine_overlapping
from gpufleet.sizing.speed.result import Limit

WEIGHT_BYTES = 2.0
DEQUANTIZE_BYTES = 2.5  # half a byte read, two written
OPTIMIZER_UPDATE_BYTES = (
    28.0  # read and written per weight by Adam in the host: 32-bit weight, gradient, two moments
)
HOST_GB_S = 200.0  # assumption: memory of a two-socket host, what processors reach
# A ring over 53 nodes of eight reached 187 GB/s (github.com/llm-jp/scripts cluster/gpu/all_reduce_bench/README.md), far
# beyond one adapter; beside computing, the runs over several nodes in measured.csv fit best with a fifth to a half.
RING_SHARE = 0.5
MICRO_BATCHES = 8  # assumption: per pipeline stage and step, which keeps what stages wait at its ends small
PIPELINE_GRADIENT_BYTES = 4.0  # gradients of a pipeline are added up in 32 bits
EXTRA_FORWARD_PASSES = {
    "none": 0.0,
    "selective": 0.0,
    "full": 1.0,
}  # forward passes more; attention's own apart


@dataclass(frozen=True)
class TrainingStep:
    """Seconds of one optimiser step and of its parts."""

    compute: float
    sharding: float
    tensor: float
    launch: float
    offload: float

    @property
    def seconds(self) -> float:
        """Return the whole step: shards travel while others compute, sums of a tensor split do not."""
        return combine_overlapping(self.compute, self.sharding) + self.tensor + self.launch + self.offload

    def limit(self, replica: Replica) -> Limit:
        """Return what takes most of the step."""
        within = count_devices(replica) <= replica.hardware.devices_per_node
        link: Limit = "interconnect" if within else "network"
        shares: list[tuple[float, Limit]] = [
            (self.compute, "compute"),
            (self.sharding, link),
            (self.tensor, replica.link_limit),
            (self.offload, "host link"),
        ]
        return max(shares)[1]


def training_step(replica: Replica) -> TrainingStep | None:
    """Return what one step over every device's micro-batch takes, None without a known rate."""
    rate = _effective_flops(replica)
    if rate is None:
        return None
    compute = tokens_per_step(replica) / replica.layout.data * _operations_per_token(replica) / rate
    return TrainingStep(
        compute=compute / (replica.layout.tensor * replica.layout.pipeline),
        sharding=_sharding_seconds(replica),
        tensor=_tensor_parallel_seconds(replica),
        launch=replica.model.layers / replica.layout.pipeline * replica.factor("train_layer_seconds")
        + _dequantize_seconds(replica),
        offload=_offload_seconds(replica),
    )


def _dequantize_seconds(replica: Replica) -> float:
    """Return seconds in which four-bit weights are written out in 16 bits, once per pass, whatever the batch."""
    if replica.workload.adapter != "qlora" or not replica.peak_bandwidth:
        return 0.0
    passes = 2.0 + EXTRA_FORWARD_PASSES[replica.workload.training.recompute]
    moved = (
        passes
        * DEQUANTIZE_BYTES
        * replica.model.parameters
        / (replica.layout.tensor * replica.layout.pipeline)
    )
    return moved / (replica.peak_bandwidth * replica.capped_factor("train_unpack"))


def tokens_per_step(replica: Replica) -> float:
    """Return the tokens that all devices of the replica train on in one step."""
    return float(replica.workload.batch * replica.workload.context * replica.layout.data)


def _operations_per_token(replica: Replica) -> float:
    """Return operations per token: forward, backward, and what is computed again."""
    model, training = replica.model, replica.workload.training
    dense = operation_count.forward_operations(model)
    attention = operation_count.attention_operations(model, replica.workload.context) / replica.capped_factor(
        "train_attention"
    )
    backward = 1.0 if is_adapter_training(replica) else 2.0  # frozen weights need no gradient of their own
    again = EXTRA_FORWARD_PASSES[training.recompute] * replica.factor("train_recompute")
    return dense * (1.0 + backward + again) + attention * (3.0 + again)


def is_adapter_training(replica: Replica) -> bool:
    """Tell whether only an adapter is trained."""
    return replica.workload.adapter != "none"


def _effective_flops(replica: Replica) -> float | None:
    if replica.peak_flops is None:
        return None
    share = replica.factor("train_compute") * replica.factor(f"train_compute_{_training_format(replica)}")
    share *= replica.saturation_factor("train_law", replica.peak_flops, REFERENCE_FLOPS)
    share *= replica.factor("train_adapter") if is_adapter_training(replica) else 1.0
    share *= replica.factor("train_experts") if replica.expert_layers else 1.0
    spread = max(1.0, log2(max(1.0, count_devices(replica))))
    stages = 1.0 + replica.factor("train_stages") * log2(replica.layout.pipeline)
    return (
        replica.peak_flops * min(share, MAX_SHARE) * float(spread ** -replica.factor("train_spread")) / stages
    )


def _training_format(replica: Replica) -> str:
    if replica.workload.task == "qlora":
        return "nf4"
    return operation_count.kernel_format(replica.workload.precision)


def count_devices(replica: Replica) -> int:
    """Return the devices of the replica."""
    return replica.layout.tensor * replica.layout.pipeline * replica.layout.data


def _sharding_seconds(replica: Replica) -> float:
    """Return seconds in which devices that hold copies or shards of the same weights exchange them or gradients."""
    layout, members = replica.layout, replica.layout.data
    if layout.pipeline > 1:
        return _pipeline_seconds(replica)
    if members <= 1 or replica.engine == "megatron":
        return 0.0  # measured as a part of what its engine computes
    weight_bytes = WEIGHT_BYTES * (replica.model.parameters - _expert_weights(replica)) / layout.tensor
    expert_bytes = WEIGHT_BYTES * _expert_weights(replica) / layout.tensor
    if expert_bytes and _expert_all_to_all_seconds(replica) + _all_gather_seconds(
        replica, weight_bytes
    ) < _all_gather_seconds(replica, weight_bytes + expert_bytes):
        return _expert_all_to_all_seconds(replica) + _all_gather_seconds(
            replica, weight_bytes
        )  # experts stay where they are, tokens travel
    return _all_gather_seconds(replica, weight_bytes + expert_bytes)


def _expert_weights(replica: Replica) -> float:
    """Return the weights of experts that not every token passes."""
    experts = replica.model.experts
    return (
        3.0 * replica.expert_layers * experts.count * replica.model.hidden * experts.intermediate
        if experts
        else 0.0
    )


def _expert_all_to_all_seconds(replica: Replica) -> float:
    """Return seconds in which tokens go to their experts' devices and back, forward and backward."""
    experts, layout = replica.model.experts, replica.layout
    if experts is None:
        return 0.0
    tokens = float(replica.workload.batch * replica.workload.context)
    each = tokens * experts.per_token * replica.model.hidden * WEIGHT_BYTES * replica.expert_layers
    members = min(layout.data, experts.count)
    link = (
        interconnect.intra_node_link
        if members * layout.tensor <= replica.hardware.devices_per_node
        else interconnect.inter_node_link
    )
    return 4.0 * each * (members - 1) / members / (link(replica.hardware).gb_s * RING_SHARE * 1e9)


def _all_gather_seconds(replica: Replica, weight_bytes: float) -> float:
    """Return seconds of gathering so many bytes of weights and summing their gradients."""
    layout, members = replica.layout, replica.layout.data
    gradient_factor = 0.0 if is_adapter_training(replica) else 1.0
    if replica.workload.training.sharding not in ("auto", "zero3"):
        return _ring_seconds(replica, 2.0 * gradient_factor * weight_bytes, members, members)
    shards = layout.shards or members
    within = _ring_seconds(
        replica, (2.0 + gradient_factor) * weight_bytes, shards, shards
    )  # gathered forward and backward, then summed
    return within + _ring_seconds(
        replica, 2.0 * gradient_factor * weight_bytes / shards, members // shards, members
    )


def _pipeline_seconds(replica: Replica) -> float:
    """Return seconds of a pipeline: states cross from stage to stage, gradients are summed once per many batches."""
    layout, work = replica.layout, replica.workload
    split = layout.tensor * layout.pipeline
    gradients = (
        0.0
        if is_adapter_training(replica)
        else 2.0 * PIPELINE_GRADIENT_BYTES * replica.model.parameters / split
    )
    span = layout.data * layout.pipeline  # stages lie one behind the other: copies of one are that far apart
    reduce_seconds = _ring_seconds(replica, gradients, layout.data, span) / (MICRO_BATCHES * layout.pipeline)
    states = 2.0 * WEIGHT_BYTES * work.batch * work.context * replica.model.hidden / layout.tensor
    link = (
        interconnect.intra_node_link(replica.hardware) if split <= replica.hardware.devices_per_node else None
    )
    return reduce_seconds + states / ((link or interconnect.inter_node_link(replica.hardware)).gb_s * 1e9)


def _ring_seconds(replica: Replica, payload: float, members: int, spread: int) -> float:
    """Return seconds in which a ring of so many members, within a span of so many, passes the payload around."""
    return payload * (members - 1) / members / (_ring_gb_s(replica, spread) * 1e9) if members > 1 else 0.0


def _ring_gb_s(replica: Replica, span: int) -> float:
    """Return GB/s of a ring over data-parallel devices: between nodes it has all adapters of its devices there.

    A ring enters and leaves each node once, whatever the number of its members in it: a group of eight devices
    of a node shares that node's eight adapters, it does not queue for one.
    """
    hardware, tensor = replica.hardware, replica.layout.tensor
    inside = interconnect.intra_node_link(hardware).gb_s
    if span * tensor <= hardware.devices_per_node:
        return inside
    if hardware.accelerator.kind == "tpu":
        return interconnect.inter_node_link(hardware).gb_s  # a pod's links run from chip to chip
    neighbours = max(1, hardware.devices_per_node // tensor)
    return min(inside, interconnect.inter_node_link(hardware).gb_s * neighbours * RING_SHARE)


def _tensor_parallel_seconds(replica: Replica) -> float:
    """Return seconds of sums within a tensor split: two forward, two backward, of the stage's own layers."""
    return (
        2.0
        * replica.all_reduce_seconds(replica.workload.batch * replica.workload.context)
        / replica.layout.pipeline
    )


def _offload_seconds(replica: Replica) -> float:
    """Return seconds in which states cross the host's slot and its processors update the weights."""
    kind = replica.workload.training.offload
    if kind == "none":
        return 0.0
    weight_bytes = replica.model.parameters
    crossing = (
        weight_bytes
        * 2.0
        * (2.0 if kind == "optimizer" else 3.0)
        / count_devices(replica)
        / (interconnect.PCIE_GB_S * 1e9)
    )
    return crossing + weight_bytes * OPTIMIZER_UPDATE_BYTES / replica.layout.nodes / (HOST_GB_S * 1e9)
