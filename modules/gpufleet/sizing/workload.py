"""What is asked: a model, a task, and how it is to run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gpufleet.catalog.architecture import Architecture

Task = Literal["inference", "full_finetune", "lora", "qlora", "dpo", "pretrain"]
Optimizer = Literal["adamw", "adamw_8bit", "paged_adamw_8bit", "sgd"]
Sharding = Literal["none", "zero1", "zero2", "zero3"]  # PyTorch FSDP's full sharding is zero3
Recompute = Literal["none", "selective", "full"]
Adapter = Literal["none", "lora", "qlora"]
Offload = Literal["none", "optimizer", "all"]


@dataclass(frozen=True)
class Training:
    """How weights are trained; of no account for inference.

    ``adapter`` follows from the task for lora and qlora; full fine-tuning has none; DPO may have any.
    ``master_copy`` is the 32-bit copy of the weights that mixed precision keeps (pure bf16 recipes do not).
    """

    optimizer: Optimizer = "adamw"
    sharding: Sharding = "zero3"
    recompute: Recompute = "full"
    flash_attention: bool = True
    offload: Offload = "none"
    adapter: Adapter = "none"
    lora_rank: int = 16
    master_copy: bool = True
    fused_loss: bool = False  # chunked or fused cross entropy: whole logits are never held


@dataclass(frozen=True)
class Workload:
    """One question. ``batch`` is concurrent streams of one replica (inference) or the micro-batch per device.

    A training sequence has ``input_tokens + output_tokens`` tokens. ``engine`` None means: the usual one of
    the hardware.
    """

    model: Architecture
    task: Task = "inference"
    precision: str = "bf16"
    input_tokens: int = 1024
    output_tokens: int = 256
    batch: int = 1
    kv_precision: str = "f16"
    engine: str | None = None
    training: Training = field(default_factory=Training)

    @property
    def context(self) -> int:
        """Return the tokens of one whole sequence."""
        return self.input_tokens + self.output_tokens

    @property
    def trains(self) -> bool:
        """Tell whether weights are trained."""
        return self.task != "inference"
