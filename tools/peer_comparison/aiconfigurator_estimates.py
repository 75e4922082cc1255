"""Runs in the temporary environment: read questions as JSON from stdin, print aiconfigurator's answers as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import warnings
from importlib import import_module
from typing import Any

BATCHES = (128, 512, 2048)  # tried for a question of the largest throughput
MODES = (
    "SILICON",
    "HYBRID",
)  # measured kernels only; if that has no answer, with the package's own estimates


def main() -> None:
    """Answer every question: tokens per second, or the error."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    questions = json.load(sys.stdin)
    answers = {}
    for question in questions:
        with contextlib.redirect_stdout(io.StringIO()):
            answer = _answer(question, MODES[0])
            if "error" in answer:
                answer = _answer(question, MODES[1])
        sys.stderr.write(f"{question['id']}: {answer}\n")
        answers[question["id"]] = answer
    json.dump(answers, sys.stdout)


def _answer(question: dict[str, Any], mode: str) -> dict[str, Any]:
    best: dict[str, Any] = {"error": "no batch fits"}
    batches = [question["batch"]] if question["batch"] else BATCHES
    for batch in batches:
        try:
            answer = _estimate(question, batch, mode)
        except Exception as error:  # noqa: BLE001 - whatever the package raises means that it has no answer
            if "tokens_per_s" not in best:
                best = {"error": f"{type(error).__name__}: {error}"[:160]}
            continue
        if answer["tokens_per_s"] > best.get("tokens_per_s", 0.0):
            best = answer
    return best


def _estimate(question: dict[str, Any], batch: int, mode: str) -> dict[str, Any]:
    result = import_module("aiconfigurator.cli.api").cli_estimate(
        question["model"],
        question["system"],
        batch_size=batch,
        database_mode=mode,
        **question["options"],
    )
    if question["metric"] == "decode":
        rate = 1000.0 / result.tpot
    elif question["metric"] == "prefill":
        rate = batch * question["options"]["isl"] / result.ttft * 1000.0
    else:
        rate = result.tokens_per_second
    return {"tokens_per_s": float(rate), "memory_gb": float(result.memory)}


if __name__ == "__main__":
    main()
