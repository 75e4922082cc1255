"""A workload: a model, a task and its settings."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.quick_dataclass import dataclass

Task = Literal["inference", "full_finetune", "lora", "qlora", "dpo", "pretrain"]
Optimizer = Literal["adamw", "adamw_8bit", "paged_adamw_8bit", "sgd"]
Sharding = Literal["auto", "none", "zero1", "zero2", "zero3"]  # PyTorch FSDP's full sharding is zero3
Recompute = Literal[
    "auto", "none", "selective", "full"
]  # auto: the least that fits (sizing.choose_recompute)
Adapter = Literal["none", "lora", "qlora"]
Offload = Literal["none", "optimizer", "all"]
LoraTargets = Literal["attention", "all"]
Experts = Literal["fused", "linear"]

# DeepSeek-V3 Technical Report (arXiv 2412.19437), section 5.4.3: 85 to 90 % of the second token's guesses are accepted
DEFAULT_ACCEPTANCE = 0.85


@dataclass(frozen=True)
class TrainingSettings:
    """How weights are trained; ignored for inference.

    ``adapter`` follows from the task for lora and qlora; full fine-tuning has none; DPO may have any.
    ``master_copy`` is the 32-bit copy of the weights that mixed precision keeps (pure bf16 recipes do not).
    ``fused_loss`` never stores all logits. ``accumulation`` counts micro-batches per step: sharded gradients
    are unsharded on each device between them unless ``sync_each``. ``step_in_backward`` frees each gradient at
    once. ``untied`` keeps two copies of a tied embedding, as some libraries do. ``experts``: transformers 5 stores
    the routed experts of a layer as one tensor (``fused``), which bitsandbytes does not quantise and PEFT does not
    adapt; ``linear`` is a runtime that treats each expert as a linear layer. ``adapter_bytes`` are those of one adapter
    weight, and of its gradient: PEFT casts adapters to 32 bits.
    """

    optimizer: Optimizer = "adamw"
    sharding: Sharding = "zero3"
    recompute: Recompute = "full"
    flash_attention: bool = True
    offload: Offload = "none"
    adapter: Adapter = "none"
    lora_rank: int = 16
    master_copy: bool = True
    fused_loss: bool = False  # chunked or fused cross entropy: never stores all logits
    lora_targets: LoraTargets = "all"
    lora_dropout: bool = False
    compiled: bool = False
    accumulation: int = 1
    sync_each: bool = True
    step_in_backward: bool = False
    untied: bool = False
    experts: Experts = "fused"
    adapter_bytes: float = 4.0
    logits_bytes: float = (
        18.0  # per token and vocabulary entry at the loss: one 16-bit and four 32-bit copies
    )
    foreach_optimizer: bool = False  # AdamW's step by lists of tensors: PyTorch's default, Trainer's is fused
    sequence_parallel: bool = True  # of tensor-parallel training
    context_parallel: int = 1
    micro_batches_in_flight: int = 0  # micro-batches in the first pipeline stage; 0: the number of stages


@dataclass(frozen=True)
class Workload:
    """A workload. ``batch`` is concurrent streams of one replica (inference) or the micro-batch per device.

    A training sequence has ``input_tokens + output_tokens`` tokens. ``engine`` None: the default one of
    the hardware; ``engine_version`` is a number or a date, empty for the newest. ``disaggregated``: other devices
    process the prompts. Speculative decoding guesses ``draft_tokens`` ahead, each of which is right with probability
    ``acceptance``. ``prefix_hits`` is the share of the prompt that is already in the cache.
    """

    model: ModelArchitecture
    task: Task = "inference"
    precision: str = "bf16"
    input_tokens: int = 1024
    output_tokens: int = 256
    batch: int = 1
    kv_precision: str = "f16"
    engine: str | None = None
    engine_version: str = ""
    disaggregated: bool = False
    draft_tokens: int = 0
    acceptance: float = DEFAULT_ACCEPTANCE
    prefix_hits: float = 0.0
    training: TrainingSettings = field(default_factory=TrainingSettings)
    has_concurrent_streams: bool = False  # many streams are requested, their number is searched

    @property
    def context_tokens(self) -> int:
        """Return the tokens of one sequence: input and output."""
        return self.input_tokens + self.output_tokens

    @property
    def uncached_input_tokens(self) -> float:
        """Return the tokens of a prompt that are not in the cache yet."""
        return self.input_tokens * (1.0 - self.prefix_hits)

    @property
    def tokens_per_step(self) -> float:
        """Return the expected tokens of a stream that one decode step yields: its guesses up to the first wrong one."""
        return float(sum(self.acceptance**guess for guess in range(self.draft_tokens + 1)))

    @property
    def is_training(self) -> bool:
        """True if weights are trained."""
        return self.task != "inference"

    @property
    def adapter_kind(self) -> Adapter:
        """Return the adapter that is trained instead of the weights: given by the task, or chosen for DPO.

        Weights in four bits cannot be trained: DPO of such a model trains an adapter on them.
        """
        if self.task in {"lora", "qlora"}:
            return "lora" if self.task == "lora" else "qlora"
        if self.task != "dpo":
            return "none"
        four_bits = self.precision.startswith(("nf4", "int4", "fp4"))
        return "qlora" if four_bits and self.training.adapter == "none" else self.training.adapter
