"""Outputs quoted in the documentation: run the commands again, and compare or update the pages.

    python tests/sizing/quoted.py            # updates the pages with current output

A console block with lines below its command quotes that command's output. ``<!-- quoted: memory plans -->`` above
a block tells which sections of the output it quotes; without it, all. Blocks of one command only are looked at.
"""

from __future__ import annotations

import gc
import os
import re
import shlex
from dataclasses import dataclass
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
    "Prices": "prices", "ACCELERATOR": "facts", "Rates": "legend", "Not": "left-out",
}  # fmt: skip
QUOTED = datetime(2026, 11, 29, tzinfo=UTC)  # the day of the quoted answers: a price grows stale
DATE = re.compile(r"\b20\d\d-\d\d(?:-\d\d)?(?:/20\d\d-\d\d)?\b|\bundated\b")


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
    assert result.exit_code == 0, result.output
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

    path.write_text(BLOCK.sub(replace_output, path.read_text(encoding="utf-8")), encoding="utf-8")
    return changed


def _quote(page: str, match: re.Match[str]) -> Quote:
    return Quote(page, match["command"], tuple((match["parts"] or "").split()), match["output"])


if __name__ == "__main__":
    os.chdir(ROOT)
    os.environ["GPUFLEET_PRICES"] = "embedded"  # the prices that everybody has
    for name in PAGES:
        print(f"docs/{name}: {write(name)} outputs changed")
