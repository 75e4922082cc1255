"""Outputs quoted in the documentation: run the commands again, and compare or update the pages.

    python tests/sizing/quoted.py                 # updates all pages with current output
    python tests/sizing/quoted.py questions.md    # updates one page

A console block with lines below its command quotes that command's output. ``<!-- quoted: memory plans -->`` above
a block tells which sections of the output it quotes; without it, all. Blocks of one command only are looked at.

``Measured: 14.1 tokens/s (source, date): …`` below a block compares a publication with the answer; the words behind the
colon are written by this program. ``Measured on NAME:`` means the row of that name.
"""

from __future__ import annotations

import gc
import os
import re
import shlex
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("sizing.md", "compare.md", "questions.md", "tiers.md")
BLOCK = re.compile(
    r"(?:^<!-- quoted: (?P<parts>[\w ]+) -->\n)?^```console\n\$ (?P<command>.*)\n(?P<output>(?!\$ )[^`]+?)^```",
    re.MULTILINE,
)
# What a section of an output begins with; the first one is the headline, another the work of a comparison.
SECTIONS = {
    "Memory": "memory", "Quick": "quick", "HARDWARE": "plans", "No": "plans", "Warnings": "warnings",
    "Prices": "prices", "ACCELERATOR": "facts", "Rates": "legend", "Not": "left-out", "Buy": "purchase",
    "Recommended:": "recommendation",
}  # fmt: skip
QUOTED = datetime(2026, 11, 29, tzinfo=UTC)  # the day of the quoted answers: a price grows stale
MEASURED = re.compile(
    r"^Measured(?: on (?P<row>[^:\n]+))?: (?P<value>[\d.,]+) (?P<unit>tokens/s|documents/s|GiB|ms) "
    r"\((?P<source>[^\n]+)\): (?P<verdict>[^\n]+)\.$",
    re.MULTILINE,
)
PATTERNS = {  # what an answer says in that unit, where it is not a row of the table
    "GiB": re.compile(r"fullest device: ([\d.,]+) of"),
    "ms": re.compile(r"one document alone: ([\d.,]+) ms"),
}
DATE = re.compile(r"\b20\d\d-\d\d(?:-\d\d)?(?:/20\d\d-\d\d)?\b|\bundated\b")


@dataclass(frozen=True)
class Measurement:
    """A published figure below a block: the quote that it judges, and the verdict on the page."""

    quote: Quote
    row: str
    value: float
    unit: str
    source: str
    verdict: str


@dataclass(frozen=True)
class Quote:
    """One block: where it is, its command, the sections it quotes, its text."""

    page: str
    command: str
    parts: tuple[str, ...]
    output: str


def find_quotes(page: str) -> list[Quote]:
    """Return the quoted outputs of one page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [_quote(page, match) for match in BLOCK.finditer(text)]


def find_measurements(page: str) -> list[Measurement]:
    """Return the published figures of one page, each with the block above it."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [_measurement(page, text, match) for match in MEASURED.finditer(text)]


def judge(measurement: Measurement) -> str:
    """Return how far the current answer is from the published figure."""
    output = run_quoted_command(replace(measurement.quote, parts=()))
    if pattern := PATTERNS.get(measurement.unit):
        predicted, low, high = _number(pattern.search(output)[1]), None, None
    else:
        predicted, low, high = _find_row(output, measurement.row, f"{measurement.unit.upper()}")
    share = predicted / measurement.value - 1
    distance = "the same" if abs(share) < 0.005 else f"{abs(share):.0%} {'more' if share > 0 else 'less'}"
    text = (
        f"predicted {predicted:,.3g}, {distance}"
        if predicted < 1000
        else f"predicted {predicted:,.0f}, {distance}"
    )
    if low is None or high is None:
        return text
    return f"{text}, {'inside' if low <= measurement.value <= high else 'outside'} its range"


def _find_row(output: str, name: str, column: str) -> tuple[float, float, float]:
    """Return figure and range of the table's row of that name, or of its first row."""
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("HARDWARE"))
    header = re.split(r"\s{2,}", lines[start])
    rows = [re.split(r"\s{2,}", line) for line in lines[start + 1 :] if line.strip()]
    row = dict(zip(header, next(row for row in rows if name in row[0]), strict=False))
    low, high = row["80 % RANGE"].split("-")
    return _number(row[column]), _number(low), _number(high)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def run_quoted_command(quote: Quote) -> str:
    """Run the command in this process and return the sections that are quoted."""
    from gpufleet.cli import gpufleet

    arguments = shlex.split(re.split(r"\s{2,}#", quote.command)[0])
    assert arguments[0] == "gpufleet"
    clock = mock.patch("gpufleet.sizing.plans.options.read_clock", return_value=QUOTED)
    try:
        with clock:
            result = CliRunner().invoke(gpufleet, arguments[1:], catch_exceptions=False)
    finally:
        gc.enable()  # a command is a short process of its own and never collects
    assert result.exit_code in (0, 1), result.output  # 1: no plan reaches a target, which is an answer too
    return select_sections(result.stdout, quote.parts)


def select_sections(text: str, parts: tuple[str, ...]) -> str:
    """Return the sections of an output by name; what is indented belongs to the section before it."""
    named_sections: list[tuple[str, str]] = []
    sections = [section.strip("\n") for section in text.rstrip("\n").split("\n\n")]
    for number, section in enumerate(sections):
        first = section.split(maxsplit=1)[0] if section.split() else ""
        if section.startswith("  ") and named_sections:
            named_sections[-1] = (named_sections[-1][0], f"{named_sections[-1][1]}\n\n{section}")
        elif section:
            name = SECTIONS.get(first) or ("headline" if number == 0 else "work")
            named_sections.append((name, section))
    selected_sections = [section for name, section in named_sections if not parts or name in parts]
    return "\n\n".join(selected_sections) + "\n"


def normalize(text: str) -> str:
    """Return an output without what prices' dates and column widths change."""
    return re.sub(r"[ ]+", " ", DATE.sub("DATE", text)).strip()


def write(page: str) -> int:
    """Write what the commands of a page print now into it; return how many blocks changed."""
    path, changed = ROOT / "docs" / page, 0

    def replace_output(match: re.Match[str]) -> str:
        nonlocal changed
        quote = _quote(page, match)
        output = run_quoted_command(quote)
        changed += output != quote.output
        head = match[0][: match.start("output") - match.start()]
        return f"{head}{output}```"

    text = BLOCK.sub(replace_output, path.read_text(encoding="utf-8"))

    def replace_verdict(match: re.Match[str]) -> str:
        head = match[0][: match.start("verdict") - match.start()]
        return f"{head}{judge(_measurement(page, text, match))}."

    path.write_text(MEASURED.sub(replace_verdict, text), encoding="utf-8")
    return changed


def _measurement(page: str, text: str, match: re.Match[str]) -> Measurement:
    above = [block for block in BLOCK.finditer(text) if block.end() <= match.start()]
    return Measurement(
        _quote(page, above[-1]), match["row"] or "", _number(match["value"]), match["unit"], match["source"],
        match["verdict"],
    )  # fmt: skip


def _quote(page: str, match: re.Match[str]) -> Quote:
    return Quote(page, match["command"], tuple((match["parts"] or "").split()), match["output"])


if __name__ == "__main__":
    os.chdir(ROOT)
    os.environ["GPUFLEET_PRICES"] = "embedded"  # the prices that everybody has
    for name in sys.argv[1:] or PAGES:
        print(f"docs/{name}: {write(name)} outputs changed")
