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

    def limit(self, setting: Replica) -> Limit:
        """Return what takes most of the step."""
        within = count_devices(setting) <= setting.hardware.devices_per_node
        link: Limit = "interconnect" if within else "network"
        shares: list[tuple[float, Limit]] = [
            (self.compute, "compute"),
            (self.sharding, link),
            (self.tensor, setting.link_limit),
            (self.offload, "host link"),
        ]
        return max(shares)[1]


def training_step(setting: Replica) -> TrainingStep | None:
    """Return what one step over every device's micro-batch takes, None without a known rate."""
    rate = _effective_flops(setting)
    if rate is None:
        return None
    compute = tokens_per_step(setting) / setting.layout.data * _operations_per_token(setting) / rate
    return TrainingStep(
        compute=compute / (setting.layout.tensor * setting.layout.pipeline),
        sharding=_sharding_seconds(setting),
        tensor=_tensor_parallel_seconds(setting),
        launch=setting.model.layers / setting.layout.pipeline * setting.factor("train_layer_seconds")
        + _dequantize_seconds(setting),
        offload=_offload_seconds(setting),
    )


def _dequantize_seconds(setting: Replica) -> float:
    """Return seconds in which four-bit weights are written out in 16 bits, once per pass, whatever the batch."""
    if setting.workload.adapter != "qlora" or not setting.peak_bandwidth:
        return 0.0
    passes = 2.0 + EXTRA_FORWARD_PASSES[setting.workload.training.recompute]
    moved = (
        passes
        * DEQUANTIZE_BYTES
        * setting.model.parameters
        / (setting.layout.tensor * setting.layout.pipeline)
    )
    return moved / (setting.peak_bandwidth * setting.capped_factor("train_unpack"))


def tokens_per_step(setting: Replica) -> float:
    """Return the tokens that all devices of the replica train on in one step."""
    return float(setting.workload.batch * setting.workload.context * setting.layout.data)


def _operations_per_token(setting: Replica) -> float:
    """Return operations per token: forward, backward, and what is computed again."""
    model, training = setting.model, setting.workload.training
    dense = operation_count.forward_operations(model)
    attention = operation_count.attention_operations(model, setting.workload.context) / setting.capped_factor(
        "train_attention"
    )
    backward = 1.0 if is_adapter_training(setting) else 2.0  # frozen weights need no gradient of their own
    again = EXTRA_FORWARD_PASSES[training.recompute] * setting.factor("train_recompute")
    return dense * (1.0 + backward + again) + attention * (3.0 + again)


def is_adapter_training(setting: Replica) -> bool:
    """Tell whether only an adapter is trained."""
    return setting.workload.adapter != "none"


def _effective_flops(setting: Replica) -> float | None:
    if setting.peak_flops is None:
        return None
    share = setting.factor("train_compute") * setting.factor(f"train_compute_{_training_format(setting)}")
    share *= setting.saturation_factor("train_law", setting.peak_flops, REFERENCE_FLOPS)
    share *= setting.factor("train_adapter") if is_adapter_training(setting) else 1.0
    share *= setting.factor("train_experts") if setting.expert_layers else 1.0
    spread = max(1.0, log2(max(1.0, count_devices(setting))))
    stages = 1.0 + setting.factor("train_stages") * log2(setting.layout.pipeline)
    return (
        setting.peak_flops * min(share, MAX_SHARE) * float(spread ** -setting.factor("train_spread")) / stages
    )


def _training_format(setting: Replica) -> str:
    if setting.workload.task == "qlora":
        return "nf4"
    return operation_count.kernel_format(setting.workload.precision)


def count_devices(setting: Replica) -> int:
    """Return the devices of the replica."""
    return setting.layout.tensor * setting.layout.pipeline * setting.layout.data


def _sharding_seconds(setting: Replica) -> float:
    """Return seconds in which devices that hold copies or shards of the same weights exchange them or gradients."""
    layout, members = setting.layout, setting.layout.data
    if layout.pipeline > 1:
        return _pipeline_seconds(setting)
    if members <= 1 or setting.engine == "megatron":
        return 0.0  # measured as a part of what its engine computes
    held = WEIGHT_BYTES * (setting.model.parameters - _expert_weights(setting)) / layout.tensor
    chosen = WEIGHT_BYTES * _expert_weights(setting) / layout.tensor
    if chosen and _expert_all_to_all_seconds(setting) + _all_gather_seconds(
        setting, held
    ) < _all_gather_seconds(setting, held + chosen):
        return _expert_all_to_all_seconds(setting) + _all_gather_seconds(
            setting, held
        )  # experts stay where they are, tokens travel
    return _all_gather_seconds(setting, held + chosen)


def _expert_weights(setting: Replica) -> float:
    """Return the weights of experts that not every token passes."""
    experts = setting.model.experts
    return (
        3.0 * setting.expert_layers * experts.count * setting.model.hidden * experts.intermediate
        if experts
        else 0.0
    )


def _expert_all_to_all_seconds(setting: Replica) -> float:
    """Return seconds in which tokens go to their experts' devices and back, forward and backward."""
    experts, layout = setting.model.experts, setting.layout
    if experts is None:
        return 0.0
    tokens = float(setting.workload.batch * setting.workload.context)
    each = tokens * experts.per_token * setting.model.hidden * WEIGHT_BYTES * setting.expert_layers
    members = min(layout.data, experts.count)
    link = (
        interconnect.intra_node_link
        if members * layout.tensor <= setting.hardware.devices_per_node
        else interconnect.inter_node_link
    )
    return 4.0 * each * (members - 1) / members / (link(setting.hardware).gb_s * RING_SHARE * 1e9)


def _all_gather_seconds(setting: Replica, held: float) -> float:
    """Return seconds of gathering so many bytes of weights and summing their gradients."""
    layout, members = setting.layout, setting.layout.data
    summed = 0.0 if is_adapter_training(setting) else 1.0
    if setting.workload.training.sharding not in ("auto", "zero3"):
        return _ring_seconds(setting, 2.0 * summed * held, members, members)
    shards = layout.shards or members
    within = _ring_seconds(
        setting, (2.0 + summed) * held, shards, shards
    )  # gathered forward and backward, then summed
    return within + _ring_seconds(setting, 2.0 * summed * held / shards, members // shards, members)


def _pipeline_seconds(setting: Replica) -> float:
    """Return seconds of a pipeline: states cross from stage to stage, gradients are summed once per many batches."""
    layout, work = setting.layout, setting.workload
    split = layout.tensor * layout.pipeline
    gradients = (
        0.0
        if is_adapter_training(setting)
        else 2.0 * PIPELINE_GRADIENT_BYTES * setting.model.parameters / split
    )
    span = layout.data * layout.pipeline  # stages lie one behind the other: copies of one are that far apart
    summed = _ring_seconds(setting, gradients, layout.data, span) / (MICRO_BATCHES * layout.pipeline)
    states = 2.0 * WEIGHT_BYTES * work.batch * work.context * setting.model.hidden / layout.tensor
    link = (
        interconnect.intra_node_link(setting.hardware) if split <= setting.hardware.devices_per_node else None
    )
    return summed + states / ((link or interconnect.inter_node_link(setting.hardware)).gb_s * 1e9)


def _ring_seconds(setting: Replica, payload: float, members: int, spread: int) -> float:
    """Return seconds in which a ring of so many members, within a span of so many, passes the payload around."""
    return payload * (members - 1) / members / (_ring_gb_s(setting, spread) * 1e9) if members > 1 else 0.0


def _ring_gb_s(setting: Replica, span: int) -> float:
    """Return GB/s of a ring over data-parallel devices: between nodes it has all adapters of its devices there.

    A ring enters and leaves each node once, whatever the number of its members in it: a group of eight devices
    of a node shares that node's eight adapters, it does not queue for one.
    """
    hardware, tensor = setting.hardware, setting.layout.tensor
    inside = interconnect.intra_node_link(hardware).gb_s
    if span * tensor <= hardware.devices_per_node:
        return inside
    if hardware.accelerator.kind == "tpu":
        return interconnect.inter_node_link(hardware).gb_s  # a pod's links run from chip to chip
    neighbours = max(1, hardware.devices_per_node // tensor)
    return min(inside, interconnect.inter_node_link(hardware).gb_s * neighbours * RING_SHARE)


def _tensor_parallel_seconds(setting: Replica) -> float:
    """Return seconds of sums within a tensor split: two forward, two backward, of the stage's own layers."""
    return (
        2.0
        * setting.all_reduce_seconds(setting.workload.batch * setting.workload.context)
        / setting.layout.pipeline
    )


def _offload_seconds(setting: Replica) -> float:
    """Return seconds in which states cross the host's slot and its processors update the weights."""
    kind = setting.workload.training.offload
    if kind == "none":
        return 0.0
    held = setting.model.parameters
    crossing = (
        held
        * 2.0
        * (2.0 if kind == "optimizer" else 3.0)
        / count_devices(setting)
        / (interconnect.PCIE_GB_S * 1e9)
    )
    return crossing + held * OPTIMIZER_UPDATE_BYTES / setting.layout.nodes / (HOST_GB_S * 1e9)
