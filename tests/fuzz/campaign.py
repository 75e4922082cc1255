"""Fuzz the parsers: ``python tests/fuzz/campaign.py --count 100000 --seed 1 [--target NAME]``.

Input number N of a target depends on seed, target and N only. Progress is kept in ``.gpufleet/fuzz/``: the same
command resumes where it was stopped. Findings are written there too; copy one into ``tests/fuzz/corpus/TARGET/``
with its fix. Atheris (``pip install atheris``) can drive a target by coverage: ``--atheris --target NAME``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))
from target import ROOT, TARGETS, Target

from gpufleet.errors import GpufleetError
from mutation import mutate  # next to this file; tests are not a package

SLOWEST_S = 2.0
HANG_S = 120  # of one input, by the wall clock
GROWTH_MIB = 300
FINDINGS = ROOT / ".gpufleet" / "fuzz"
MAX_FINDINGS = 25  # of one target: the same mistake again and again needs no more files


@dataclass
class Progress:
    """How far a target's campaign is."""

    target: str
    seed: int
    inputs: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    growth_mib: int = 0
    cpu_s: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)  # kind of mistake -> the input's file


class Memory:
    """The memory of this process: the peak of one input above the memory before it."""

    def __init__(self) -> None:
        self.status = Path("/proc/self/status")
        self.peak = Path("/proc/self/clear_refs")
        self.before = 0

    def start(self) -> None:
        """Record the current memory and reset the kernel's peak."""
        if not self.peak.exists():  # not Linux: no figures of memory
            return
        self.peak.write_text("5")
        self.before = self._read("VmRSS:")

    def growth_mib(self) -> int:
        """Return the peak since ``start`` over what there was."""
        return max(0, self._read("VmHWM:") - self.before) // 1024 if self.before else 0

    def _read(self, name: str) -> int:
        text = self.status.read_text()
        return int(text[text.index(name) + len(name) :].split(maxsplit=1)[0])


MEMORY = Memory()


def make_input(target: Target, seed: int, number: int, seeds: list[bytes]) -> bytes:
    """Return a campaign's input by its number."""
    return mutate(Random(f"{seed}:{target.name}:{number}"), seeds, target.kind)


@dataclass(frozen=True)
class Result:
    """The result of one input: ``problem`` is empty for a passed input, ``took_s`` are CPU seconds."""

    problem: str
    refused: bool
    took_s: float
    growth_mib: int


def try_input(target: Target, content: bytes) -> Result:
    """Give a parser one input."""
    MEMORY.start()
    started = time.process_time()
    refused, mistake_text = False, ""
    signal.alarm(HANG_S)
    try:
        target.run(content)
    except GpufleetError as error:
        refused = True
        mistake_text = "a message of several lines" if "\n" in str(error) else ""
        mistake_text = mistake_text or ("a message of 2000 characters" if len(str(error)) > 2000 else "")
    except Exception as error:  # noqa: BLE001 - the campaign looks for these
        last = traceback.extract_tb(error.__traceback__)[-1]
        own_frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "/gpufleet/" in frame.filename
        ] or [last]
        frame = own_frames[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        mistake_text = f"{type(error).__name__} at {place} {str(error)[:60]!r}"
    finally:
        signal.alarm(0)
    took = time.process_time() - started
    if took > SLOWEST_S:
        mistake_text = mistake_text or f"took {took:.0f} s"
    growth = MEMORY.growth_mib()
    if growth > GROWTH_MIB:
        mistake_text = mistake_text or f"took {growth} MiB"
    return Result(mistake_text, refused, took, growth)


def describe_mistake(text: str) -> str:
    """Return a finding's kind: where it is, without the values of the input."""
    return text.partition(" '")[0].partition(' "')[0]


def run_target(target: Target, seed: int, count: int) -> Progress:
    """Continue a target's campaign up to ``count`` inputs."""
    finding_file = FINDINGS / f"{target.name.replace(' ', '-')}-{seed}.json"
    progress = (
        Progress(**json.loads(finding_file.read_text()))
        if finding_file.is_file()
        else Progress(target.name, seed)
    )
    seeds = target.seeds()
    for content in seeds:  # load imports and tables before the measurement
        try_input(target, content)
    since = time.process_time()
    while progress.inputs < count:
        content = make_input(target, seed, progress.inputs, seeds)
        result = try_input(target, content)
        mistake_text = result.problem
        progress.inputs += 1
        progress.refused += result.refused
        progress.slowest_s = max(progress.slowest_s, round(result.took_s, 3))
        progress.growth_mib = max(progress.growth_mib, result.growth_mib)
        if (
            mistake_text
            and describe_mistake(mistake_text) not in progress.findings
            and len(progress.findings) < MAX_FINDINGS
        ):
            progress.findings[describe_mistake(mistake_text)] = save_finding(target, content)
            print(f"  {target.name} #{progress.inputs - 1}: {mistake_text}", flush=True)
        if progress.inputs % 1000 == 0 or progress.inputs == count:
            progress.cpu_s += round(time.process_time() - since, 1)
            since = time.process_time()
            finding_file.parent.mkdir(parents=True, exist_ok=True)
            finding_file.write_text(json.dumps(asdict(progress), indent=1))
    return progress


def save_finding(target: Target, content: bytes) -> str:
    """Keep an input that broke a parser; return its file's name."""
    folder = FINDINGS / "findings" / target.name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(content).hexdigest()[:16]
    path.write_bytes(content)
    return str(path.relative_to(FINDINGS))


def run_atheris(target: Target) -> None:
    """Hand a target to libFuzzer, which keeps what reaches new code."""
    import atheris

    def test_one(content: bytes) -> None:
        if mistake_text := try_input(target, content).problem:
            raise AssertionError(mistake_text)

    folder = FINDINGS / "atheris" / target.name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(content)
    atheris.Setup([sys.argv[0], str(folder)], test_one)
    atheris.Fuzz()


def main() -> int:
    """Run the campaign; exit 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="one parser; default: all")
    parser.add_argument("--count", type=int, default=100_000, help="inputs per parser (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--atheris", action="store_true", help="guided by coverage, one target, until stopped"
    )
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if options.atheris:
        run_atheris(TARGETS[names[0]])
    print(f"seed {options.seed}, {options.count:,} inputs per parser", flush=True)
    print("parser               inputs  refused  kinds found  slowest s  MiB more  CPU s", flush=True)
    finding_count = 0
    for name in names:
        result = run_target(TARGETS[name], options.seed, options.count)
        finding_count += len(result.findings)
        print(
            f"{name:<18} {result.inputs:>8} {result.refused:>8} {len(result.findings):>12} {result.slowest_s:>10.3f}"
            f" {result.growth_mib:>9} {result.cpu_s:>6.0f}",
            flush=True,
        )
    return int(bool(finding_count))


if __name__ == "__main__":
    sys.exit(main())
