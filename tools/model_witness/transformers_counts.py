"""Count the parameters of every CausalLM family of transformers on the meta device; write them as test cases.

Needs transformers and torch, which the project does not install: run it with a Python that has them.

    python tools/model_witness/transformers_counts.py OUTPUT.json

Each family's class is built from its default configuration. The output has the configuration as
``config.json`` would have it, and the number of parameters, each tied one counted once.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MAX_SECONDS = 20
DROPPED_KEYS = {"transformers_version", "architectures", "id2label", "label2id", "torch_dtype", "dtype"}


def count_family(config_class: type[Any], model_class: type[Any]) -> tuple[dict[str, Any], int]:
    """Return a family's configuration and its true number of parameters."""
    torch = import_module("torch")
    config = config_class()
    with torch.device("meta"):
        model = model_class(config)
        model.tie_weights()
    keys = {name: value for name, value in config.to_dict().items() if name not in DROPPED_KEYS}
    return keys, sum(parameter.numel() for parameter in model.parameters())


def main(output: Path) -> None:
    """Write the counts of all families."""
    transformers = import_module("transformers")
    mapping = import_module("transformers.models.auto.modeling_auto").MODEL_FOR_CAUSAL_LM_MAPPING
    cases: dict[str, Any] = {}
    failures: dict[str, str] = {}

    def stop(*_: object) -> None:
        raise TimeoutError("took too long")

    signal.signal(signal.SIGALRM, stop)
    for config_class in mapping:
        name = config_class.model_type
        signal.alarm(MAX_SECONDS)
        try:
            model_class = mapping[config_class]
            model_class = model_class[0] if isinstance(model_class, tuple) else model_class
            keys, count = count_family(config_class, model_class)
            cases[name] = {"config": keys, "parameters": count}
        except Exception as error:  # noqa: BLE001 - a family that cannot be built is listed with its reason
            failures[name] = f"{type(error).__name__}: {str(error)[:120]}"
        finally:
            signal.alarm(0)
    document = {
        "source": f"transformers {transformers.__version__}, classes on the meta device",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "families": cases,
        "not_built": failures,
    }
    output.write_text(json.dumps(document, indent=1, sort_keys=True, default=str) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
