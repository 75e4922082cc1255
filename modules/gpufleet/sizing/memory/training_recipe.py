"""Default training settings of libraries that affect memory."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.sizing.workload import TrainingSettings

DEFAULT_TRAINING = TrainingSettings(recompute="auto", lora_dropout=False)
RECIPES: dict[str, TrainingSettings] = {
    # torchtune README and recipes/configs/llama3_1 (2024-09): pure bf16, chunked loss, compiled
    "torchtune": replace(
        DEFAULT_TRAINING, master_copy=False, compiled=True, fused_loss=True, adapter_bytes=2.0
    ),
    # litgpt config_hub and finetune/*.py (0.5.13): bf16-true, its own output matrix, 16-bit chunks at the loss
    "litgpt": replace(
        DEFAULT_TRAINING,
        recompute="none",
        master_copy=False,
        untied=True,
        logits_bytes=6.0,
        lora_dropout=True,
        adapter_bytes=2.0,
    ),
    # transformers' Trainer, and what is built on it (4.4x, 2024): 16-bit logits, a 32-bit copy, its shifted copy
    # and the log-softmax
    "transformers": replace(DEFAULT_TRAINING, logits_bytes=14.0),
    "trl": replace(DEFAULT_TRAINING, logits_bytes=14.0),
    # unsloth and liger: fused cross entropy, recomputation always
    "unsloth": replace(DEFAULT_TRAINING, recompute="full", fused_loss=True),
}


def find_training_recipe(engine: str | None = None) -> TrainingSettings:
    """Return the default settings of a library, the generic defaults for an unknown one."""
    engine_name = (engine or "").lower().replace("-", "")
    return next((training for name, training in RECIPES.items() if name in engine_name), DEFAULT_TRAINING)
