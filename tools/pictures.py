"""Renew the pictures of the docs: `python -m tools.pictures`, or some of them by a part of their names. Review them.

Needs a Chromium: the system's, or `playwright install chromium` once. The fleet report is that of the last `make demo`.
The comment is rendered by markdown-it, which reads CommonMark with GitHub's tables as GitHub does, in GitHub's own
type sizes and colours; it is a likeness, not GitHub.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from gpufleet.sizing.compare.builder import compare_accelerators
from gpufleet.sizing.compare.options import build_sizing_request
from gpufleet.sizing.compare.plots import draw_svg
from tools.terminal_recording import draw_recording, record

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
STACK = ROOT / "stacks" / "Pulumi.production.yaml"
GROWN = ("count: 1\n        purchase: {kind: reserved, reservation: create}\n", "count: 1", "count: 2")
POLICY = ROOT / "docs" / "examples" / "cost-policy.yaml"
DEMO_REPORTS = ".gpufleet/rehearsal/*/report.html"
FACTS, MODEL = {"model": ""}, {"model": "llama-3.1-8b", "precision": "q4_k_m"}
COMPARISONS = {
    "roofline": FACTS,
    "memory-bandwidth": FACTS,
    "tokens": MODEL,
    "per-watt": MODEL,
    "per-dollar": MODEL,
    "power": MODEL,
    "training": {"model": "llama-3.1-8b", "task": "lora"},
}
OWN_OR_RENT = {
    "tco-blades.svg": ("blades-1", "--no-storage"),
    "tco-gpu-server.svg": ("docs/examples/gpu-server-1.yaml", "--against", "p5.48xlarge"),
}
FIRST_STEPS = (  # the folder in which each runs
    (".", "gpufleet init fleet1 --cloud gcp --rack blades:6"),
    ("fleet1", "gpufleet cost estimate -s dev | head -9"),
    (
        "fleet1",
        "sed -i 's/count: 1/count: 4/' stacks/Pulumi.dev.yaml && gpufleet cost diff -s dev --base HEAD | head -9",
    ),
)
LIKE_GITHUB = """
body { font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; color: #1f2328;
       background: #fff; margin: 24px; width: 920px; }
.box { border: 1px solid #d1d9e0; border-radius: 6px; }
.head { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; padding: 8px 16px; color: #59636e; }
.head b { color: #1f2328; } .body { padding: 16px; }
table { border-collapse: collapse; margin: 0 0 16px; display: block; overflow: auto; }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; } tr:nth-child(2n) td { background: #f6f8fa; }
details { margin-bottom: 16px; } summary { cursor: pointer; }
"""


def main() -> None:
    """Write the pictures whose names have one of the arguments, or all."""
    for name, write in list_pictures():
        if not sys.argv[1:] or any(part in name for part in sys.argv[1:]):
            write(IMAGES / name)
            print(f"docs/images/{name}")


def list_pictures() -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Yield each picture's name with the function that writes it."""
    for name in COMPARISONS:
        yield f"compare-{name}.svg", partial(write_comparison, name)
    for name, words in OWN_OR_RENT.items():
        yield name, partial(write_own_or_rent, words)
    yield "cost-comment.png", shoot_cost_comment
    yield "cost-report.png", shoot_cost_report
    yield "first-steps.svg", record_first_steps
    if reports := sorted(ROOT.glob(DEMO_REPORTS)):
        yield "report.png", lambda path: shoot(reports[-1], path, 1180, height=1100)


def write_comparison(name: str, path: Path) -> None:
    """Draw one plot of docs/compare.md."""
    comparison = compare_accelerators((), build_sizing_request(**COMPARISONS[name]))
    path.write_text(draw_svg(comparison, name), encoding="utf-8")


def write_own_or_rent(words: Sequence[str], path: Path) -> None:
    """Draw one plot of docs/tco.md."""
    run_gpufleet("cost", "tco", *words, "--svg", str(path))


def shoot_cost_comment(image: Path) -> None:
    """Take the comment on a pull request that grows a pool."""
    from markdown_it import MarkdownIt

    with tempfile.TemporaryDirectory() as folder:
        text = compare_grown_stack(Path(folder) / "comment.md").read_text()
        comment = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
        head = f"<style>{LIKE_GITHUB}</style><div class=box><div class=head><b>github-actions</b> bot commented</div>"
        page = Path(folder) / "comment.html"
        page.write_text(f"<!doctype html><meta charset=utf-8>{head}<div class=body>{comment}</div></div>")
        shoot(page, image, 970)


def shoot_cost_report(image: Path) -> None:
    """Take the HTML page of the same change."""
    with tempfile.TemporaryDirectory() as folder:
        shoot(compare_grown_stack(Path(folder) / "report.html"), image, 1180)


def compare_grown_stack(target: Path) -> Path:
    """Price production with another machine in its training pool against what is committed; return the target."""
    stack, (pool, before, after) = STACK.read_text(), GROWN
    if pool not in stack:
        sys.exit(f"{STACK.name} has no such pool any more: {pool!r}")
    grown = target.with_name("grown.yaml")
    grown.write_text(stack.replace(pool, pool.replace(before, after)))
    words = ("-s", "production", "--base", "HEAD", "--config-file", str(grown), "--policy", str(POLICY))
    run_gpufleet("cost", "diff", *words, "--output", str(target), expected=(0, 1))  # 1: the policy says no
    return target


def run_gpufleet(*words: str, expected: tuple[int, ...] = (0,)) -> None:
    """Run a command from the root of the project."""
    done = subprocess.run(
        [sys.executable, "-m", "gpufleet", *words], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode not in expected:
        sys.exit(done.stderr.decode("utf-8", "replace"))


def record_first_steps(image: Path) -> None:
    """Record a new fleet, its price, and the price of a change."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PATH": path, "NO_COLOR": "1", "HOME": folder, "GPUFLEET_HOME": folder}
        scenes = []
        for place, command in FIRST_STEPS:
            scenes.append(record(command, Path(folder) / place, env))
            if place == ".":
                commit_all(Path(folder) / "fleet1")
        image.write_text(draw_recording(scenes), encoding="utf-8")


def commit_all(folder: Path) -> None:
    """Make a repository of a folder: a difference needs something to compare with."""
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=you", "-c", "user.email=you@example.org", "commit", "-qm", "Start"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


def shoot(page: Path, image: Path, width: int, *, height: int | None = None) -> None:
    """Take a picture of a page: of its first ``height`` pixels, or of all."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = shutil.which("chromium")  # a system's own, else the one that Playwright installed
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": width, "height": height or 600}, device_scale_factor=1.5)
        view.goto(page.as_uri())
        view.screenshot(path=str(image), full_page=height is None)
        browser.close()


if __name__ == "__main__":
    main()
