"""Time of `gpufleet compare` as a complete process. Prints, asserts nothing.

    python tests/benchmarks/bench_compare.py [RUNS]

Budget on two idle cores: 0.5 s for table and JSON. Plots load the plotting libraries and have no budget.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_size import run_once

COMPARE = [sys.executable, "-m", "gpufleet", "compare"]
MODEL = ["--model", "llama-3.1-8b", "--precision", "q4_k_m"]


def compare_commands(folder):
    """Return the commands by name."""
    from gpufleet import catalog

    return {
        "an empty process": [sys.executable, "-c", "pass"],
        "facts, table": COMPARE,
        "a model, table": [*COMPARE, *MODEL],
        "a model, --json": [*COMPARE, *MODEL, "--json"],
        "the whole catalogue, --json": [*COMPARE, *catalog.load_accelerators(), *MODEL, "--json"],
        "LoRA, --json": [*COMPARE, "--model", "qwen2.5-7b", "--task", "lora", "--json"],
        "one plot": [*COMPARE, *MODEL, "--svg", str(Path(folder) / "tokens.svg")],
        "a page of six plots": [*COMPARE, *MODEL, "--html", str(Path(folder) / "page.html")],
    }


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"gpufleet compare as a whole process, {runs} runs each, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in compare_commands(folder).items():
            run_once(command)
            wall, cpu = zip(*(run_once(command) for _ in range(runs)), strict=True)
            print(
                f"  {name:30} wall median {statistics.median(wall):.2f} s, best {min(wall):.2f} s; cpu {min(cpu):.2f} s"
            )


if __name__ == "__main__":
    main()
