"""Write the accuracy of speeds into docs/sizing.md, from what the benchmark prints.

python tests/benchmarks/bench_sizing.py | python tests/sizing/accuracy.py
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/sizing.md"
SPEEDS = {
    "decode": "one stream, local engine", "throughput": "many streams", "serving": "server",
    "prefill": "prompts", "training": "training",
}  # fmt: skip
DEVICES = {
    "all": "all", "apple": "Apple", "nvidia-soc": "NVIDIA small computers (GB10, Jetson)",
    "nvidia-gddr": "NVIDIA cards (GDDR)", "nvidia-hbm": "NVIDIA servers (HBM)",
    "fewer than 10 each": "others, fewer than 10 rows each", "amd-soc": "AMD small computers",
    "neuron": "Trainium", "gaudi": "Gaudi", "tpu": "TPU",
}  # fmt: skip
ROW = re.compile(
    r"^(decode|throughput|serving|prefill|training)\s+(\D.*?)\s+(\d+)\s+([\d.]+)%\s+([\d.]+)%\s+(\d+)%$",
    re.MULTILINE,
)
OTHER_FORMULAS = re.compile(r"^(decode|throughput|prefill|training)\s+\d+\s+([\d.]+%.*)$", re.MULTILINE)
TABLE = re.compile(r"(<!-- accuracy -->\n).*?(<!-- /accuracy -->)", re.DOTALL)


def format_tables(printed: str) -> str:
    """Return the benchmark's tables as Markdown."""
    first, _, rest = printed.partition("the rows that the fit began with")
    lines = [
        "| speed | devices, or streams and devices | rows | median error | 90th percentile | inside the 80 % range |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {SPEEDS[speed]} | {DEVICES.get(kind, kind)} | {n} | {middle} % | {far} % | {inside} % |"
        for speed, kind, n, middle, far, inside in ROW.findall(first)
    ]
    lines += ["", "On the same rows, median and 90th percentile of what other formulas are off:", ""]
    lines += [
        "| speed | gpufleet | bare roofline | roofline times 0.65 | llm-analysis | quick formulas |",
        "|---|---|---|---|---|---|",
    ]
    for speed, figures in OTHER_FORMULAS.findall(rest):
        percentages = [float(figure) for figure in re.findall(r"([\d.]+)%", figures)]
        pairs = zip(percentages[::2], percentages[1::2], strict=True)
        lines.append(
            f"| {SPEEDS[speed]} | "
            + " | ".join(f"{median:.0f} / {p90:.0f} %" for median, p90 in pairs)
            + " |"
        )
    return "\n".join(lines) + "\n"


def replace_tables(page: str, printed: str, today: str) -> str:
    """Return the page with the tables and their day."""
    written = TABLE.sub(
        lambda percentages: (
            f"{percentages[1]}Printed on {today}:\n\n{format_tables(printed)}{percentages[2]}"
        ),
        page,
    )
    if written == page and format_tables(printed) not in page:
        raise ValueError("the page has no place for the tables")
    return written


if __name__ == "__main__":
    day = datetime.now(UTC).date().isoformat()
    PAGE.write_text(replace_tables(PAGE.read_text(encoding="utf-8"), sys.stdin.read(), day), encoding="utf-8")
