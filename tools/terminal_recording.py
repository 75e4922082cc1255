"""A terminal recording as an SVG that plays itself: CSS keyframes, no script, nothing from outside.

Each command that writes is a scene on an empty screen. On a narrow screen the scene is enlarged and cut at the right.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from gpufleet.boundary import make_block_printable

COLUMNS, ROWS = 114, 17
CHARACTER_WIDTH, LINE_HEIGHT, MARGIN = 8.0, 20, 14
LONGEST_WAIT = 1.2  # seconds that a pause of the recording is shown at most
WORD_DELAY = 0.18  # seconds between two words of a typed command
READING_TIME = 4.0  # seconds that a finished scene stays
CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\r")  # colours, titles, returns
STYLE = """
.t{font:13px/1 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1d2430;white-space:pre}
.s{fill:#f4f6f8;stroke:#dfe3e8}.p{fill:#00639b;font-weight:600}.f{opacity:0;animation-duration:%.2fs;animation-iteration-count:infinite}
@media(max-width:560px){.z{transform:scale(1.8)}}
@media(prefers-color-scheme:dark){.t{fill:#e8eaed}.s{fill:#14161a;stroke:#3a4049}.p{fill:#7cc0f5}}
@media(prefers-reduced-motion:reduce){.f{animation:none}.l{opacity:1}}
"""


@dataclass(frozen=True)
class Output:
    """Text that a command wrote, with the seconds since its start."""

    seconds: float
    text: str


@dataclass(frozen=True)
class Scene:
    """A command and what it wrote."""

    command: str
    outputs: Sequence[Output]


def record(command: str, folder: Path, env: Mapping[str, str]) -> Scene:
    """Run a shell command on a terminal of ``COLUMNS`` and return what it writes, as it writes it."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    start = time.monotonic()
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    ):
        os.close(terminal)
        outputs = []
        while chunk := _read(controller):
            outputs.append(Output(time.monotonic() - start, chunk.decode("utf-8", "replace")))
    os.close(controller)
    return Scene(command, outputs)


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65536)
    except OSError:  # the last process closed the terminal
        return b""


def draw_recording(scenes: Sequence[Scene]) -> str:
    """Return the SVG."""
    texts: list[tuple[float, float, int, int, str, str]] = []  # start, end, column, row, class, text
    clock, row = 0.5, 0
    shown: list[tuple[float, int, int, str, str]] = []
    for scene in scenes:
        shown.append((clock, 0, row, "p", "$"))
        column = 2
        for word in scene.command.split(" "):
            clock += WORD_DELAY
            shown.append((clock, column, row, "", word))
            column += len(word) + 1
        row, past = row + 1, 0.0
        for output in scene.outputs:
            clock += min(output.seconds - past, LONGEST_WAIT)
            past = output.seconds
            for line in list_screen_lines(output.text):
                if line and row < ROWS:
                    shown.append((clock, 0, row, "", line))
                row += 1
        if scene.outputs:  # a command that writes nothing stays above the next one
            clock += READING_TIME
            texts += [(start, clock, *rest) for start, *rest in shown]  # type: ignore[misc]  # five, then six
            shown, row = [], 0
    return _format_svg(texts, clock)


def list_screen_lines(text: str) -> Iterable[str]:
    """Yield the lines of a text as a terminal of ``COLUMNS`` shows them."""
    for line in make_block_printable(CONTROL.sub("", text)).removesuffix("\n").split("\n"):
        yield from (line[at : at + COLUMNS] for at in range(0, len(line) or 1, COLUMNS))


def _format_svg(texts: Sequence[tuple[float, float, int, int, str, str]], seconds: float) -> str:
    frames: dict[tuple[float, float], str] = {}
    parts = []
    for start, end, column, row, css, text in texts:
        frame = frames.setdefault((start, end), f"k{len(frames)}")
        classes = f"t f {css} l" if end == seconds else f"t f {css}"
        x, y = MARGIN + column * CHARACTER_WIDTH, MARGIN + row * LINE_HEIGHT + 14
        length = len(text) * CHARACTER_WIDTH  # the same columns in every font
        parts.append(
            Markup(
                '<text class="{}" style="animation-name:{}" x="{:g}" y="{}" textLength="{:g}" '
                'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{}</text>\n'
            ).format(classes, frame, x, y, length, text)
        )
    width, height = MARGIN * 2 + COLUMNS * CHARACTER_WIDTH, MARGIN * 2 + ROWS * LINE_HEIGHT
    keyframes = "".join(_format_keyframes(name, *times, seconds) for times, name in frames.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="A terminal: the first three commands" '
        f'viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}">\n'
        f"<style>{STYLE % seconds}{keyframes}</style>\n"
        f'<rect class="s" x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="8"/>\n'
        f'<g class="z">\n{Markup("").join(parts)}</g>\n</svg>\n'
    )


def _format_keyframes(name: str, start: float, end: float, seconds: float) -> str:
    steps = f"0%,{100 * start / seconds:.2f}%{{opacity:0}}{100 * start / seconds + 0.01:.2f}%{{opacity:1}}"
    if end < seconds:
        steps += f"{100 * end / seconds:.2f}%{{opacity:1}}{100 * end / seconds + 0.01:.2f}%{{opacity:0}}"
    return f"@keyframes {name}{{{steps}100%{{opacity:{int(end == seconds)}}}}}\n"
