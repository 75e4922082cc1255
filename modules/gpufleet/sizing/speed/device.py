"""Device classes with their calibrated engines and nominal rates."""

from __future__ import annotations

import re

from gpufleet.catalog import Accelerator
from gpufleet.sizing.speed.operation_count import kernel_weight_format

HBM_ARCHITECTURES = re.compile(r"cc(6\.0|7\.0|8\.0|9\.0|10\.)|gfx9")  # architectures with HBM
LOCAL_ENGINES = frozenset({"llama.cpp", "mlx", "mlc", "distributed-llama", "rknn", "pytorch", "transformers"})
EAGER_ENGINES = frozenset({"transformers"})  # eager PyTorch: every kernel is launched from Python
ENGINE_ALIASES = {
    "ollama": "llama.cpp", "llamacpp": "llama.cpp", "llama-cpp": "llama.cpp", "lmstudio": "llama.cpp",
    "dllama": "distributed-llama", "exo": "mlx", "gpt-fast": "pytorch", "torch": "pytorch",
    "trt-llm": "tensorrt-llm", "tensorrt": "tensorrt-llm", "trtllm": "tensorrt-llm", "tgi": "vllm",
    "fsdp": "pytorch-fsdp", "torchtitan": "pytorch-fsdp", "torchtune": "pytorch-fsdp",
    "deepspeed": "pytorch-fsdp", "nemo": "megatron", "megatron-lm": "megatron",
}  # fmt: skip


def classify_device(accelerator: Accelerator) -> str:
    """Return the device class whose measurements apply to the accelerator."""
    vendor = accelerator.vendor.lower()
    if accelerator.kind in ("apple", "tpu"):
        return accelerator.kind
    if accelerator.kind == "cpu":
        return "board-cpu"  # processors of boards run the same engines, and are the ones that were measured
    if vendor in ("nvidia", "amd"):
        if accelerator.unified:
            return f"{vendor}-soc"
        return (
            f"{vendor}-hbm"
            if HBM_ARCHITECTURES.search(accelerator.architecture.lower())
            else f"{vendor}-gddr"
        )
    if "A72" in accelerator.architecture:
        return "board-a72"  # no dot-product instructions, and a quarter of its nominal bandwidth
    class_by_vendor = {
        "raspberry pi": "board-cpu",
        "rockchip": "board-npu",
        "aws": "neuron",
        "intel": "intel-gpu",
    }
    return "gaudi" if "gaudi" in accelerator.name.lower() else class_by_vendor.get(vendor, "other")


def find_calibrated_engine(
    requested: str | None, accelerator: Accelerator, *, training: bool, nodes: int = 1
) -> str:
    """Return the engine whose efficiency factors apply: the requested one, or the default of the device."""
    if requested:
        name = requested.strip().lower()
        name = ENGINE_ALIASES.get(name, name)
        return "pytorch-fsdp" if training and name in ("pytorch", "transformers") else name
    kind = classify_device(accelerator)
    if training:
        return {"tpu": "maxtext", "neuron": "neuron"}.get(kind, "pytorch-fsdp")
    if kind == "board-cpu" and nodes > 1:
        return "distributed-llama"
    default_engines = {
        "board-npu": "rknn",
        "neuron": "neuron",
        "amd-hbm": "vllm",
        "tpu": "vllm",
        "gaudi": "vllm",
    }
    return default_engines.get(kind, "tensorrt-llm" if kind == "nvidia-hbm" else "llama.cpp")


def is_server_engine(engine: str) -> bool:
    """Return whether the engine processes prompts while it generates, which lowers its generation rate."""
    return engine not in LOCAL_ENGINES


def default_kv_precision(engine: str, precision: str, kind: str = "") -> str:
    """Return the default KV cache precision: 8 bits for 8-bit recipes of TensorRT-LLM and Gaudi, else 16 bits."""
    eight = (
        (engine == "tensorrt-llm" or kind == "gaudi")
        and bool(precision)
        and kernel_weight_format(precision) in ("fp8", "fp4")
    )
    return "fp8" if eight else "f16"


def find_peak_flops(accelerator: Accelerator, precision: str, engine: str) -> float | None:
    """Return the dense peak FLOP/s that the engine can use, None if the catalogue has no rate."""
    half = accelerator.bf16_tflops_dense or accelerator.fp16_tflops_dense
    if engine in LOCAL_ENGINES and accelerator.vendor == "NVIDIA":
        # kernels that accumulate in 16 bits run at the full rate of the cores, half of the one for 8-bit integers
        half = max(half or 0.0, (accelerator.int8_tops_dense or 0.0) / 2)
    if precision.lower() == "mxfp4" and engine not in LOCAL_ENGINES:
        # where 4-bit floats are arithmetic (Blackwell, MI350), servers multiply MXFP4 weights with MXFP8 activations
        # at the 8-bit rate; elsewhere they unpack them to 16 bits (vLLM docs, quantization of gpt-oss, 2026)
        tflops = (accelerator.fp8_tflops_dense if accelerator.fp4_tflops_dense else None) or half
    else:
        tflops = {"fp8": accelerator.fp8_tflops_dense, "fp4": accelerator.fp4_tflops_dense}.get(
            kernel_weight_format(precision)
        ) or half
    tflops = tflops or accelerator.fp32_tflops
    return tflops * 1e12 if tflops else None
