"""Training: operations of forward, backward and recomputed passes, beside what shards exchange."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from gpufleet.sizing.speed import links, traffic
from gpufleet.sizing.speed.result import Limit
from gpufleet.sizing.speed.step import MOST, USUAL_RATE, Setting, together

WEIGHT_BYTES = 2.0
UPDATED_BYTES = 28.0  # read and written per weight by Adam in the host: 32-bit weight, gradient, two moments
HOST_GB_S = 200.0  # assumption: memory of a two-socket host, what processors reach
# A ring over 53 nodes of eight reached 187 GB/s (github.com/llm-jp/scripts cluster/gpu/all_reduce_bench/README.md), far
# beyond one adapter; beside computing, the runs over several nodes in measured.csv fit best with a fifth to a half.
RING_SHARE = 0.5
RECOMPUTED = {"none": 0.0, "selective": 0.0, "full": 1.0}  # forward passes more; attention's own apart


@dataclass(frozen=True)
class Parts:
    """Seconds of one optimiser step and of its parts."""

    compute: float
    sharding: float
    tensor: float
    launch: float
    offload: float

    @property
    def seconds(self) -> float:
        """Return the whole step: shards travel while others compute, sums of a tensor split do not."""
        return together(self.compute, self.sharding) + self.tensor + self.launch + self.offload

    def limit(self, setting: Setting) -> Limit:
        """Return what takes most of the step."""
        within = devices(setting) <= setting.hardware.devices_per_node
        link: Limit = "interconnect" if within else "network"
        shares: list[tuple[float, Limit]] = [
            (self.compute, "compute"),
            (self.sharding, link),
            (self.tensor, setting.joined_by),
            (self.offload, "host link"),
        ]
        return max(shares)[1]


def parts(setting: Setting) -> Parts | None:
    """Return what one step over every device's micro-batch takes, None without a known rate."""
    rate = _rate(setting)
    if rate is None:
        return None
    compute = tokens_per_step(setting) / setting.layout.data * _operations(setting) / rate
    return Parts(
        compute=compute / (setting.layout.tensor * setting.layout.pipeline),
        sharding=_sharding(setting),
        tensor=_tensor(setting),
        launch=setting.model.layers / setting.layout.pipeline * setting.factor("train_layer_seconds"),
        offload=_offload(setting),
    )


def tokens_per_step(setting: Setting) -> float:
    """Return the tokens that all devices of the replica train on in one step."""
    return float(setting.workload.batch * setting.workload.context * setting.layout.data)


def _operations(setting: Setting) -> float:
    """Return operations per token: forward, backward, and what is computed again."""
    model, training = setting.model, setting.workload.training
    dense = traffic.operations(model)
    attention = traffic.attention_operations(model, setting.workload.context)
    backward = 1.0 if frozen(setting) else 2.0  # frozen weights need no gradient of their own
    again = RECOMPUTED[training.recompute] * setting.factor("train_recompute")
    return dense * (1.0 + backward + again) + attention * (3.0 + again)


def frozen(setting: Setting) -> bool:
    """Tell whether only an adapter is trained."""
    return setting.workload.adapter != "none"


def _rate(setting: Setting) -> float | None:
    if setting.flops is None:
        return None
    share = setting.factor("train_compute") * setting.factor(f"train_compute_{_form(setting)}")
    share *= setting.law("train_law", setting.flops, USUAL_RATE)
    spread = max(1.0, log2(max(1.0, devices(setting))))
    stages = 1.0 + setting.factor("train_stages") * log2(setting.layout.pipeline)
    return setting.flops * min(share, MOST) * float(spread ** -setting.factor("train_spread")) / stages


def _form(setting: Setting) -> str:
    if setting.workload.task == "qlora":
        return "nf4"
    return traffic.form(setting.workload.precision)


def devices(setting: Setting) -> int:
    """Return the devices of the replica."""
    return setting.layout.tensor * setting.layout.pipeline * setting.layout.data


def _sharding(setting: Setting) -> float:
    """Return seconds in which devices that hold copies or shards of the same weights exchange them or gradients."""
    layout, members = setting.layout, setting.layout.data
    if members <= 1 or layout.pipeline > 1 or setting.engine == "megatron":
        return 0.0  # where layers are split, gradients are summed once per many micro-batches
    held = WEIGHT_BYTES * setting.model.parameters / layout.tensor
    summed = 0.0 if frozen(setting) else 1.0
    if setting.workload.training.sharding not in ("auto", "zero3"):
        return _passed(setting, 2.0 * summed * held, members, members)
    shards = layout.shards or members
    within = _passed(
        setting, (2.0 + summed) * held, shards, shards
    )  # gathered forward and backward, then summed
    return within + _passed(setting, 2.0 * summed * held / shards, members // shards, members)


def _passed(setting: Setting, payload: float, members: int, spread: int) -> float:
    """Return seconds in which a ring of so many members, within a span of so many, passes the payload around."""
    return payload * (members - 1) / members / (_around(setting, spread) * 1e9) if members > 1 else 0.0


def _around(setting: Setting, span: int) -> float:
    """Return GB/s of a ring over data-parallel devices: between nodes it has all adapters of its devices there.

    A ring enters and leaves each node once, whatever the number of its members in it: a group of eight devices
    of a node shares that node's eight adapters, it does not queue for one.
    """
    hardware, tensor = setting.hardware, setting.layout.tensor
    inside = links.inside(hardware).gb_s
    if span * tensor <= hardware.devices_per_node:
        return inside
    if hardware.accelerator.kind == "tpu":
        return links.between(hardware).gb_s  # a pod's links run from chip to chip
    neighbours = max(1, hardware.devices_per_node // tensor)
    return min(inside, links.between(hardware).gb_s * neighbours * RING_SHARE)


def _tensor(setting: Setting) -> float:
    """Return seconds of sums within a tensor split: two forward, two backward, of the stage's own layers."""
    return 2.0 * setting.exchange(setting.workload.batch * setting.workload.context) / setting.layout.pipeline


def _offload(setting: Setting) -> float:
    """Return seconds in which states cross the host's slot and its processors update the weights."""
    kind = setting.workload.training.offload
    if kind == "none":
        return 0.0
    held = setting.model.parameters
    crossing = held * 2.0 * (2.0 if kind == "optimizer" else 3.0) / devices(setting) / (links.PCIE_GB_S * 1e9)
    return crossing + held * UPDATED_BYTES / setting.layout.nodes / (HOST_GB_S * 1e9)
