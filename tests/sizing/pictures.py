"""Draw the plots of docs/compare.md again: ``python tests/sizing/pictures.py``. Review them afterwards."""

from __future__ import annotations

from pathlib import Path

from gpufleet.sizing.compare.builder import compare_accelerators
from gpufleet.sizing.compare.options import build_sizing_request
from gpufleet.sizing.compare.plots import draw_svg

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
FACTS, MODEL = {"model": ""}, {"model": "llama-3.1-8b", "precision": "q4_k_m"}
PICTURES = {
    "roofline": FACTS,
    "memory-bandwidth": FACTS,
    "tokens": MODEL,
    "per-watt": MODEL,
    "per-dollar": MODEL,
    "power": MODEL,
    "training": {"model": "llama-3.1-8b", "task": "lora"},
}


def draw() -> dict[str, str]:
    """Return every picture of the page by its file's name."""
    return {
        f"compare-{name}.svg": draw_svg(compare_accelerators((), build_sizing_request(**options)), name)
        for name, options in PICTURES.items()
    }


if __name__ == "__main__":
    for file, text in draw().items():
        (IMAGES / file).write_text(text, encoding="utf-8")
        print(f"docs/images/{file}")
