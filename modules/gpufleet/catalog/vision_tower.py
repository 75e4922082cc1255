"""The weights of a multimodal model's towers for images and sound, from its config.json."""

from __future__ import annotations

from typing import Any

LAYER_KEYS = ("depth", "num_hidden_layers", "vt_num_hidden_layers", "num_layers", "layers")
WIDTH_KEYS = ("hidden_size", "vt_hidden_size", "embed_dim", "width")
BLOCK_KEYS = ("intermediate_size", "vt_intermediate_size", "mlp_dim")
GATED_TOWERS = {"pixtral", "gemma4_vision", "qwen2_5_vl"}  # three matrices in a feed-forward block, else two
ATTENTION_MATRICES = 4
MAX_SETTING = 1_000_000  # of layers or a width: a larger value is a typing error


def count_tower_parameters(document: dict[str, Any]) -> tuple[float, str]:
    """Return the weights of the blocks of a vision tower, and a note on what is estimated or left out.

    Patch embedding and projector have widths that every family names differently: 1 to 10 % of a tower.
    """
    notes = []
    if isinstance(document.get("audio_config"), dict):
        notes.append("its audio tower is left out")
    vision = document.get("vision_config")
    if not isinstance(vision, dict):
        return 0.0, "; ".join(notes)
    layers, width = _find_number(vision, LAYER_KEYS), _find_number(vision, WIDTH_KEYS)
    block = _find_number(vision, BLOCK_KEYS) or 4 * width
    if not layers or not width:
        return 0.0, "; ".join([*notes, "its vision tower is left out: vision_config has no layers or width"])
    matrices = 3 if vision.get("model_type") in GATED_TOWERS else 2
    count = layers * (ATTENTION_MATRICES * width * width + matrices * width * block)
    return float(count), "; ".join(
        [*notes, "its vision tower is counted without patch embedding and projector"]
    )


def _find_number(keys: dict[str, Any], names: tuple[str, ...]) -> int:
    """Return the first of these keys that is a positive number, 0 without one."""
    values = (keys.get(name) for name in names)
    numbers = (each for each in values if isinstance(each, int) and not isinstance(each, bool))
    return next((each for each in numbers if 0 < each < MAX_SETTING), 0)
