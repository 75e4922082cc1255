"""Priors of the efficiency factors, and how far device classes and engines may depart from them.

Prior values and spreads are assumptions; the fit moves a factor as far as its measurements require.
"""

from __future__ import annotations

from dataclasses import dataclass

DECODE_METRICS = frozenset({"decode", "throughput"})
SERVER_METRICS = frozenset({"throughput"})
INFERENCE_METRICS = frozenset({"decode", "throughput", "prefill"})
PREFILL_METRICS = frozenset({"prefill", "throughput"})
TRAINING_METRICS = frozenset({"training"})
LINKS = ("switched", "mesh", "pcie", "adapter", "ethernet")


@dataclass(frozen=True)
class EfficiencyPrior:
    """Standard deviations of logarithms: ``spread`` of the common value, ``class_spread`` of a class or engine."""

    value: float
    spread: float
    class_spread: float
    metrics: frozenset[str] | None = None
    links: tuple[str, ...] = ()  # the parameter belongs to links, not to classes of devices
    is_shared: bool = False  # one value for all
    has_device_factors: bool = True  # False: work of the host, whatever the devices
    generation_spread: float = 0.0  # of a generation of engines; 0: the same in all


PRIORS: dict[str, EfficiencyPrior] = {
    "weight_bandwidth": EfficiencyPrior(0.88, 0.15, 0.20, INFERENCE_METRICS, generation_spread=0.1),
    "weight_bandwidth_byte": EfficiencyPrior(0.95, 0.10, 0.05, INFERENCE_METRICS),
    "weight_bandwidth_nibble": EfficiencyPrior(0.90, 0.15, 0.10, INFERENCE_METRICS),
    "weight_bandwidth_fp8": EfficiencyPrior(0.95, 0.10, 0.05, INFERENCE_METRICS),
    "weight_bandwidth_fp4": EfficiencyPrior(0.90, 0.10, 0.05, INFERENCE_METRICS),
    "bandwidth_law": EfficiencyPrior(0.20, 0.5, 0.2, INFERENCE_METRICS, is_shared=True),
    "scarce_compute_law": EfficiencyPrior(0.2, 0.5, 0.2, INFERENCE_METRICS, is_shared=True),
    "layer_seconds_byte": EfficiencyPrior(1.0, 0.2, 0.1, DECODE_METRICS),
    "layer_seconds_nibble": EfficiencyPrior(1.0, 0.2, 0.1, DECODE_METRICS),
    "layer_seconds_fp8": EfficiencyPrior(1.1, 0.2, 0.1, DECODE_METRICS),
    "layer_seconds_fp4": EfficiencyPrior(1.0, 0.2, 0.1, DECODE_METRICS),
    "expert_seconds_byte": EfficiencyPrior(1.0, 0.3, 0.1, DECODE_METRICS),
    "expert_seconds_nibble": EfficiencyPrior(1.0, 0.3, 0.1, DECODE_METRICS),
    "expert_seconds_fp8": EfficiencyPrior(1.2, 0.4, 0.1, DECODE_METRICS),
    "expert_seconds_fp4": EfficiencyPrior(1.0, 0.4, 0.1, DECODE_METRICS),
    "cache_bandwidth": EfficiencyPrior(0.50, 0.40, 0.40, DECODE_METRICS),
    "layer_seconds": EfficiencyPrior(40e-6, 0.8, 0.4, INFERENCE_METRICS, generation_spread=0.4),
    "eager_seconds": EfficiencyPrior(8e-4, 0.4, 0.2, DECODE_METRICS, is_shared=True),
    "expert_seconds": EfficiencyPrior(2e-5, 0.8, 0.6, DECODE_METRICS, generation_spread=0.4),
    "expert_tile": EfficiencyPrior(8.0, 0.7, 0.2, DECODE_METRICS, is_shared=True),
    "latent_seconds": EfficiencyPrior(2e-5, 0.8, 0.6, DECODE_METRICS, generation_spread=0.3),
    "latent_compute": EfficiencyPrior(0.5, 0.3, 0.2, DECODE_METRICS, is_shared=True),
    "expert_bandwidth": EfficiencyPrior(0.85, 0.2, 0.2, DECODE_METRICS, generation_spread=0.15),
    "step_seconds": EfficiencyPrior(3e-4, 0.6, 0.8, INFERENCE_METRICS, generation_spread=0.4),
    "stream_seconds": EfficiencyPrior(
        2e-5, 0.7, 0.7, SERVER_METRICS, has_device_factors=False, generation_spread=0.5
    ),
    "decode_compute": EfficiencyPrior(0.45, 0.3, 0.35, DECODE_METRICS, generation_spread=0.15),
    "prefill_compute": EfficiencyPrior(0.60, 0.3, 0.3, PREFILL_METRICS, generation_spread=0.15),
    "prefill_compute_byte": EfficiencyPrior(0.9, 0.2, 0.1, PREFILL_METRICS),
    "prefill_compute_nibble": EfficiencyPrior(0.8, 0.3, 0.15, PREFILL_METRICS),
    "prefill_compute_fp8": EfficiencyPrior(0.95, 0.2, 0.1, PREFILL_METRICS),
    "prefill_compute_fp4": EfficiencyPrior(0.9, 0.2, 0.1, PREFILL_METRICS),
    "prefill_experts": EfficiencyPrior(0.7, 0.4, 0.3, PREFILL_METRICS),
    "prefill_stages": EfficiencyPrior(0.7, 0.4, 0.2, frozenset({"prefill"}), is_shared=True),
    "prefill_attention": EfficiencyPrior(0.5, 0.4, 0.4, PREFILL_METRICS),
    "compute_law": EfficiencyPrior(0.30, 0.5, 0.2, PREFILL_METRICS, is_shared=True),
    "link_latency": EfficiencyPrior(1.0, 1e-3, 0.6, INFERENCE_METRICS, LINKS),
    "fused_latency": EfficiencyPrior(1.0, 1e-3, 0.5, INFERENCE_METRICS, LINKS),
    "exchange_latency": EfficiencyPrior(1.0, 1e-3, 0.5, INFERENCE_METRICS, LINKS),
    "exchange_share": EfficiencyPrior(1.0, 1e-3, 0.4, INFERENCE_METRICS, LINKS),
    "link_share": EfficiencyPrior(1.0, 1e-3, 0.3, INFERENCE_METRICS, LINKS),
    "hop_latency": EfficiencyPrior(1.0, 1e-3, 0.6, INFERENCE_METRICS, LINKS),
    "train_compute": EfficiencyPrior(0.80, 0.2, 0.15, TRAINING_METRICS),
    "train_adapter": EfficiencyPrior(0.8, 0.3, 0.1, TRAINING_METRICS, is_shared=True),
    "train_experts": EfficiencyPrior(0.8, 0.3, 0.15, TRAINING_METRICS),
    "train_expert_tokens": EfficiencyPrior(150.0, 0.7, 0.2, TRAINING_METRICS, is_shared=True),
    "train_expert_seconds": EfficiencyPrior(6e-3, 0.6, 0.3, TRAINING_METRICS),
    "train_graphed_seconds": EfficiencyPrior(2e-3, 0.6, 0.3, TRAINING_METRICS),
    "train_unfused": EfficiencyPrior(8.0, 0.6, 0.2, TRAINING_METRICS, is_shared=True),
    "train_linear_seconds": EfficiencyPrior(2e-3, 0.8, 0.2, TRAINING_METRICS, is_shared=True),
    "train_permutation": EfficiencyPrior(12.0, 0.4, 0.2, TRAINING_METRICS, is_shared=True),
    "train_traffic": EfficiencyPrior(0.7, 0.2, 0.2, TRAINING_METRICS, is_shared=True),
    "train_exchange": EfficiencyPrior(0.8, 0.4, 0.2, TRAINING_METRICS, is_shared=True),
    "train_attention": EfficiencyPrior(0.6, 0.3, 0.2, TRAINING_METRICS, is_shared=True),
    "train_unpack": EfficiencyPrior(0.3, 0.5, 0.2, TRAINING_METRICS, is_shared=True),
    "train_compute_nf4": EfficiencyPrior(0.85, 0.2, 0.05, TRAINING_METRICS),
    "train_compute_fp8": EfficiencyPrior(0.95, 0.2, 0.05, TRAINING_METRICS),
    "train_recompute": EfficiencyPrior(0.5, 0.6, 0.05, TRAINING_METRICS, is_shared=True),
    "train_law": EfficiencyPrior(0.20, 0.5, 0.2, TRAINING_METRICS, is_shared=True),
    "train_spread": EfficiencyPrior(0.03, 0.7, 0.1, TRAINING_METRICS, is_shared=True),
    "train_stages": EfficiencyPrior(0.05, 0.7, 0.1, TRAINING_METRICS, is_shared=True),
    "train_layer_seconds": EfficiencyPrior(2e-4, 0.7, 0.3, TRAINING_METRICS, is_shared=True),
}
LINK_SHARES: dict[str, float] = {
    "switched": 0.7, "mesh": 0.6, "pcie": 0.8, "adapter": 0.6, "ethernet": 0.9,
}  # fmt: skip
LINK_SECONDS: dict[str, float] = {
    "switched": 8e-6, "mesh": 12e-6, "pcie": 30e-6, "adapter": 40e-6, "ethernet": 400e-6,
}  # fmt: skip
