"""Count the parameters of every CausalLM family of transformers on the meta device; write them as test cases.

Needs transformers and torch, which the project does not install: run it with a Python that has them. FOLDER has the
published configurations of aiconfigurator-core (``OWNER--MODEL_config.json``).

    python tools/model_witness/transformers_counts.py FOLDER tests/cases/catalog/model_families.json

Each family's class is built from its default configuration. A case has the keys that say how large a model is, and the
number of parameters, each tied one counted once.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

MAX_SECONDS = 25
QUANTIZED = ("FP8", "NVFP4", "hf_quant")  # copies of a model in another format
DROPPED = (
    "rope_", "initializer", "use_cache", "pad_token", "bos_", "eos_", "rms_", "layer_norm_eps", "attention_drop",
    "output_", "_name_or", "return_dict", "is_encoder", "chunk_size_feed", "hidden_drop", "_attn", "image_", "video_",
    "audio_tok", "vision_s", "classifier_", "summary_", "auto_map", "architectures", "transformers_version", "dtype",
    "torch_dtype", "gradient", "resid_", "embd_p", "attn_p", "quantization_config", "id2label", "label2id",
)  # fmt: skip
ENCODERS = ("vision_config", "audio_config", "depth_decoder_config")
NESTED = ("per_layer_config", "attn_config", "compress_rates", "ffn_config")
TEXTS = ("model_type", "hybrid_override_pattern")
Counted = dict[str, Any]


def count_parameters(build: Callable[[], Any]) -> int:
    """Return the number of parameters of the model that a function builds."""
    torch = import_module("torch")
    with torch.device("meta"):
        model = build()
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def keep_structural_keys(config: dict[str, Any]) -> dict[str, Any]:
    """Return the keys that say how large a model is; of encoders of images and sound only that they exist."""
    kept: dict[str, Any] = {}
    for name, value in config.items():
        if name in ENCODERS:
            kept[name] = {"trimmed": True}
        elif name == "text_config" and isinstance(value, dict):
            kept[name] = keep_structural_keys(value)
        elif value is None or name.startswith(DROPPED) or (isinstance(value, str) and name not in TEXTS):
            continue
        elif not isinstance(value, dict) or name in NESTED:
            kept[name] = value
    return kept


def count_all(
    items: Iterable[tuple[str, Callable[[], tuple[dict[str, Any], int]]]],
) -> tuple[Counted, Counted]:
    """Return the counts by name, and why others could not be built."""

    def stop(*_: object) -> None:
        raise TimeoutError("took too long")

    counts: Counted = {}
    failures: Counted = {}
    signal.signal(signal.SIGALRM, stop)
    for name, count in items:
        signal.alarm(MAX_SECONDS)
        try:
            keys, parameters = count()
            counts[name] = {"config": keep_structural_keys(keys), "parameters": parameters}
        except Exception as error:  # noqa: BLE001 - a family that cannot be built is listed with its reason
            failures[name] = f"{type(error).__name__}: {str(error)[:120]}"
        finally:
            signal.alarm(0)
    return counts, failures


def count_family(mapping: Any, config_class: Any) -> tuple[dict[str, Any], int]:
    """Return a family's default configuration and its true number of parameters."""
    classes = mapping[config_class]
    model_class = classes[0] if isinstance(classes, tuple) else classes
    config = config_class()
    return config.to_dict(), count_parameters(lambda: model_class(config))


def count_published(path: Path) -> tuple[dict[str, Any], int]:
    """Return a published configuration and the true number of parameters of its language part."""
    transformers = import_module("transformers")
    mapping = import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    document = json.loads(path.read_text())
    text = document.get("text_config")
    keys = dict(text) if isinstance(text, dict) and "hidden_size" in text else dict(document)
    for name in ("auto_map", "quantization_config"):
        keys.pop(name, None)
    config = mapping[keys["model_type"]].from_dict(keys)
    if "tie_word_embeddings" in document:
        config.tie_word_embeddings = document["tie_word_embeddings"]
    return document, count_parameters(lambda: transformers.AutoModelForCausalLM.from_config(config))


def main(folder: Path, output: Path) -> None:
    """Write the counts of all families and published configurations."""
    transformers = import_module("transformers")
    mapping = import_module("transformers.models.auto.modeling_auto").MODEL_FOR_CAUSAL_LM_MAPPING
    families, failures = count_all(
        (each.model_type, partial(count_family, mapping, each)) for each in mapping
    )
    files = sorted(folder.glob("*_config.json"))
    published, _ = count_all(
        (path.name.removesuffix("_config.json"), partial(count_published, path))
        for path in files
        if not any(word in path.name for word in QUANTIZED) or "Nemotron" in path.name
    )
    document = {
        "source": f"transformers {transformers.__version__} with torch on the meta device: tools/model_witness",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "families": families,
        "published": published,
        "not_built": failures,
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
    output.write_text(text.replace('"config":', '\n"config":') + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
