"""How libraries train when nothing is said: the settings that decide memory."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.sizing.workload import Training

USUAL = Training(recompute="auto", lora_dropout=False)
RECIPES: dict[str, Training] = {
    # torchtune README and recipes/configs/llama3_1 (2024-09): pure bf16, chunked loss, compiled
    "torchtune": replace(USUAL, master_copy=False, compiled=True, fused_loss=True),
    # litgpt config_hub and finetune/*.py (0.5.13): bf16-true, its own output matrix, 16-bit chunks at the loss
    "litgpt": replace(
        USUAL, recompute="none", master_copy=False, untied=True, logits_bytes=6.0, lora_dropout=True
    ),
    # transformers' Trainer, and what is built on it (4.4x, 2024): 16-bit logits, a 32-bit copy, its shifted copy
    # and the log-softmax
    "transformers": replace(USUAL, logits_bytes=14.0),
    "trl": replace(USUAL, logits_bytes=14.0),
    # unsloth and liger: fused cross entropy, recomputation always
    "unsloth": replace(USUAL, recompute="full", fused_loss=True),
}


def recipe(engine: str | None = None) -> Training:
    """Return the usual settings of a library, if it is one whose own we know."""
    named = (engine or "").lower().replace("-", "")
    return next((training for name, training in RECIPES.items() if name in named), USUAL)
