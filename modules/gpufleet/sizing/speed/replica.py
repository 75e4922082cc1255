"""One replica: its device class, engine, nominal rates and efficiency factors."""

from __future__ import annotations

from functools import cached_property

from gpufleet.catalog import ModelArchitecture
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.inference import count_cache_devices
from gpufleet.sizing.speed import device, interconnect, operation_count
from gpufleet.sizing.speed.efficiency import ANY, EfficiencyFactors
from gpufleet.sizing.speed.engine_generation import find_engine_generation
from gpufleet.sizing.speed.result import Limit
from gpufleet.sizing.workload import Workload

REFERENCE_BANDWIDTH = 1e12  # bytes per second at which the fitted shares apply without saturation
REFERENCE_FLOPS = 1e14
SCARCE_COMPUTE = (
    0.015  # bytes per operation in 16 bits: with more, too few processors ask for the memory (H20: 0.027)
)
MAX_SHARE = 1.0  # upper bound of a share of a nominal rate
FUSED_LINKS = ("switched", "mesh")  # on which engines have all-reduce kernels of their own
EXCHANGE_BYTES = 3.0  # per element: 8 bits to the experts and 16 back (DeepEP's low-latency kernels)
OVERLAP_EXPONENT = 2.0  # exponent of the norm that combines overlapping times


@dataclass(frozen=True)
class Replica:
    """A workload on a layout of hardware, with its efficiency factors."""

    workload: Workload
    layout: ParallelLayout
    hardware: Hardware
    efficiency: EfficiencyFactors

    @property
    def model(self) -> ModelArchitecture:
        """Return the model."""
        return self.workload.model

    @cached_property
    def device_class(self) -> str:
        """Return the class of the devices."""
        return device.classify_device(self.hardware.accelerator)

    @cached_property
    def calibrated_engine(self) -> str:
        """Return the calibrated engine."""
        nodes = self.layout.nodes
        return device.find_calibrated_engine(
            self.workload.engine, self.hardware.accelerator, training=self.workload.is_training, nodes=nodes
        )

    @cached_property
    def generation(self) -> str:
        """Return the generation of the engine's version, empty for an engine without any."""
        return find_engine_generation(self.calibrated_engine, self.workload.engine_version)

    @cached_property
    def attention_groups(self) -> int:
        """Return over how many groups the streams of the replica are spread: attention data parallelism."""
        return max(1, self.layout.data) if not self.workload.is_training else 1

    @cached_property
    def stage_devices(self) -> int:
        """Return the devices that share each layer."""
        return self.layout.tensor * self.attention_groups

    @cached_property
    def cache_devices(self) -> int:
        """Return over how many devices a layer's cache of one stream is spread; a latent cache is copied to each."""
        return count_cache_devices(self.model, self.layout, self.model.kv_heads)

    @cached_property
    def device_peak_flops(self) -> float | None:
        """Return peak FLOP/s of one device."""
        return device.find_peak_flops(
            self.hardware.accelerator, self.workload.precision, self.calibrated_engine
        )

    @cached_property
    def half_precision_flops(self) -> float:
        """Return peak FLOP/s of one device in 16 bits."""
        return device.find_peak_flops(self.hardware.accelerator, "bf16", self.calibrated_engine) or 1.0

    @cached_property
    def peak_bandwidth_bytes_per_s(self) -> float | None:
        """Return peak memory bandwidth of one device in bytes per second."""
        nominal = self.hardware.accelerator.bandwidth_gb_s
        return nominal * 1e9 if nominal else None

    @cached_property
    def kv_precision(self) -> str:
        """Return the precision of the KV cache."""
        requested = self.workload.kv_precision
        return (
            device.default_kv_precision(self.calibrated_engine, self.workload.precision, self.device_class)
            if requested == "f16"
            else requested
        )

    def efficiency_factor(self, parameter: str) -> float:
        """Return the fitted factor of that parameter for this device class and engine."""
        return self.efficiency.get_factor(
            parameter, self.device_class, self.calibrated_engine, self.generation
        )

    def link_factor(self, parameter: str, kind: str) -> float:
        """Return the fitted factor of that parameter for a kind of link."""
        return self.efficiency.get_factor(parameter, kind, self.calibrated_engine, self.generation)

    def capped_efficiency_factor(self, parameter: str) -> float:
        """Return a factor that is a share of a nominal rate, at most one."""
        return min(self.efficiency_factor(parameter), 1.0)

    def saturation_factor(self, parameter: str, nominal: float, reference: float) -> float:
        """Return the saturation of a share: faster devices reach a smaller share of their nominal rate."""
        return float((1.0 + nominal / reference) ** -self.efficiency.get_factor(parameter, ANY, ANY))

    @cached_property
    def effective_weight_bytes_per_s(self) -> float:
        """Return the effective weight bandwidth of one device in bytes per second."""
        share = self.efficiency_factor("weight_bandwidth") * self.efficiency_factor(
            f"weight_bandwidth_{self.kernel_weight_format}"
        )
        nominal = self.peak_bandwidth_bytes_per_s or 1.0
        if self.device_class == "nvidia-hbm":
            scarcity = (nominal / self.half_precision_flops / SCARCE_COMPUTE) ** 4
            share *= (1.0 + scarcity) ** -self.efficiency_factor("scarce_compute_law")
        return nominal * min(
            share * self.saturation_factor("bandwidth_law", nominal, REFERENCE_BANDWIDTH), MAX_SHARE
        )

    @cached_property
    def expert_layer_count(self) -> int:
        """Return the number of mixture-of-experts layers."""
        return self.model.layers - self.model.experts.dense_layers if self.model.experts else 0

    @cached_property
    def weight_precision(self) -> str:
        """Return the precision of the weights: llama.cpp's MXFP4 files store all but the experts in 8 bits."""
        requested = self.workload.precision
        return (
            "mxfp4_moe"
            if self.calibrated_engine == "llama.cpp" and requested.lower() == "mxfp4"
            else requested
        )

    @cached_property
    def kernel_weight_format(self) -> str:
        """Return the weight format of the kernels; servers multiply MXFP4 where 4-bit floats are arithmetic."""
        name = operation_count.kernel_weight_format(self.workload.precision)
        multiplies_four_bits = bool(self.hardware.accelerator.fp4_tflops_dense) and bool(self.generation)
        return (
            "fp4"
            if name == "nibble" and "mxfp4" in self.workload.precision and multiplies_four_bits
            else name
        )

    @cached_property
    def tensor_parallel_link(self) -> interconnect.InterconnectLink:
        """Return the link of the tensor-parallel group."""
        return interconnect.tensor_parallel_link(self.hardware, self.layout)

    @property
    def link_limit_name(self) -> Limit:
        """Return the name of the link as limit."""
        if self.layout.nodes > 1 and self.layout.tensor > self.hardware.devices_per_node:
            return "network"
        return "interconnect" if self.tensor_parallel_link.kind == "switched" else "host link"

    def all_reduce_seconds(self, tokens: float) -> float:
        """Return seconds of the all-reduces of one pass over so many tokens: two per layer."""
        members, link = self.layout.tensor, self.tensor_parallel_link
        if members <= 1:
            return 0.0
        payload = tokens * self.model.hidden * 2.0
        share = min(self.link_factor("link_share", link.kind), 1.0)
        if link.kind in FUSED_LINKS and self.generation:
            latency = self.link_factor("fused_latency", link.kind)
            seconds = link.fused_all_reduce_seconds(members, payload, latency, share)
        else:
            latency = self.link_factor("link_latency", link.kind)
            seconds = link.all_reduce_seconds(members, payload, latency, share)
        return 2.0 * self.model.layers * seconds

    def expert_exchange_seconds(self, tokens: float) -> float:
        """Return seconds in which tokens travel to their experts and back, one byte and two bytes an element.

        Only with attention data parallelism: the ranks of tensor parallelism have all tokens. A token is sent once
        to a rank that has several of its experts (DeepEP, README, 2025).
        """
        experts, ranks = self.model.experts, self.layout.expert
        if experts is None or self.attention_groups <= 1 or ranks <= 1:
            return 0.0
        link = interconnect.expert_parallel_link(self.hardware, self.layout)
        ranks_reached = ranks * (1.0 - (1.0 - 1.0 / ranks) ** experts.per_token)
        sent = tokens / self.stage_devices * ranks_reached * self.model.hidden * EXCHANGE_BYTES
        seconds = link.exchange_seconds(
            ranks,
            sent,
            2.0 * self.link_factor("exchange_latency", link.kind),
            min(self.link_factor("exchange_share", link.kind), 1.0),
        )
        return self.expert_layer_count * seconds

    def pipeline_hop_seconds(self, tokens: float) -> float:
        """Return seconds in which activations pass between pipeline stages."""
        if self.layout.pipeline <= 1:
            return 0.0
        link = interconnect.pipeline_link(self.hardware, self.layout)
        latency = self.link_factor("hop_latency", link.kind)
        return (self.layout.pipeline - 1) * (latency + tokens * self.model.hidden * 2.0 / (link.gb_s * 1e9))


def combine_overlapping_seconds(*seconds: float) -> float:
    """Return the time of overlapping work: at least the longest part, more if several are similar."""
    return float(sum(second**OVERLAP_EXPONENT for second in seconds) ** (1.0 / OVERLAP_EXPONENT))
