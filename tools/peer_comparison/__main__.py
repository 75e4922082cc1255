"""Ask both and print the table: ``python -m tools.peer_comparison [PYTHON] [--rows FILE] [--answers FILE]``.

PYTHON is an interpreter that has the pinned package; without one a temporary environment is built. ``--rows`` writes
every row with both errors as CSV. ``--answers`` keeps the package's answers in a file, or takes them from it.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

from tools.peer_comparison.question import build_question
from tools.speed_calibration.cross_validation import HeldOutPrediction, cross_validate_speed, quantile
from tools.speed_calibration.measurement import SpeedMeasurement, load_speed_measurements

PACKAGE = "aiconfigurator==0.12.0"
CHILD = Path(__file__).parent / "aiconfigurator_estimates.py"
MAX_SECONDS = 3000


@dataclass(frozen=True)
class ComparedRow:
    """A measurement that both answer: logarithms of predicted over published."""

    row: SpeedMeasurement
    own_log_error: float
    peer_log_error: float

    @property
    def class_name(self) -> str:
        """Return the class of the row, or what it measures if it has none."""
        return self.row.row["cls"] or f"{self.row.metric_kind}, before 2025"

    @property
    def is_closer(self) -> bool:
        """True if gpufleet's factor is nearer to one."""
        return abs(self.own_log_error) <= abs(self.peer_log_error)


def main() -> None:
    """Print the comparison by class, as the table of docs/sizing-peers.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", nargs="?", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--answers", type=Path)
    arguments = parser.parse_args()
    rows = [row for row in load_speed_measurements() if row.is_predictable]
    questions = {row.measurement_id: question for row in rows if (question := build_question(row))}
    with tempfile.TemporaryDirectory() as folder:
        answers = _load_answers(arguments.answers) if arguments.answers else {}
        if not answers:
            answers = _collect_answers(arguments.python or _install(Path(folder)), list(questions.values()))
    predictions = {p.row.measurement_id: p for p in cross_validate_speed(rows)}
    compared = [
        _compare(predictions[name], answer, int(questions[name]["copies"]))
        for name, answer in answers.items()
        if answer > 0.0 and name in predictions
    ]
    sys.stdout.write(format_comparison(compared, len(questions)))
    if arguments.answers:
        arguments.answers.write_text(json.dumps(answers), encoding="utf-8")
    if arguments.rows:
        _write_rows(arguments.rows, compared)


def format_comparison(compared: Sequence[ComparedRow], question_count: int) -> str:
    """Return the Markdown table by class: rows, how often gpufleet is closer, and both errors."""
    lines = [
        f"{question_count} rows asked, {len(compared)} answered by both",
        "",
        "| class | rows | closer | gpufleet | aiconfigurator |",
        "|---|---|---|---|---|",
    ]
    names = sorted({row.class_name for row in compared})
    groups = [("all", list(compared))] + [
        (name, [row for row in compared if row.class_name == name]) for name in names
    ]
    for name, group in groups:
        if group:
            closer = sum(row.is_closer for row in group) / len(group)
            own = _format_errors([row.own_log_error for row in group])
            peer = _format_errors([row.peer_log_error for row in group])
            lines.append(f"| {name} | {len(group)} | {closer:.0%} | {own} | {peer} |")
    return "\n".join(lines) + "\n"


def _format_errors(log_errors: Sequence[float]) -> str:
    errors = sorted(abs(exp(error) - 1.0) for error in log_errors)
    return f"{quantile(errors, 0.5):.0%}, {quantile(errors, 0.9):.0%}"


def _compare(prediction: HeldOutPrediction, tokens_per_s: float, copies: int) -> ComparedRow:
    peer_log_error = log(tokens_per_s * copies / prediction.row.published_tokens_per_s)
    return ComparedRow(prediction.row, prediction.log_error, peer_log_error)


def _load_answers(path: Path) -> dict[str, float]:
    """Return the answers of an earlier run; none without the file."""
    return (
        {row: float(rate) for row, rate in json.loads(path.read_text("utf-8")).items()}
        if path.exists()
        else {}
    )


def _install(folder: Path) -> Path:
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], check=True, timeout=MAX_SECONDS)
    return python


def _collect_answers(python: Path, questions: list[dict[str, object]]) -> dict[str, float]:
    """Return tokens per second by row, 0 without an answer; what the package says goes to stderr."""
    ordered = sorted(
        questions, key=lambda q: (str(q["system"]), str(q["model"]))
    )  # its tables are loaded once
    child = subprocess.run(
        [python, CHILD],
        input=json.dumps(ordered),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=MAX_SECONDS,
    )
    return {name: float(answer.get("tokens_per_s", 0.0)) for name, answer in json.loads(child.stdout).items()}


def _write_rows(path: Path, compared: Sequence[ComparedRow]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "class", "publication", "gpufleet", "aiconfigurator"])
        writer.writerows(
            [
                r.row.measurement_id,
                r.class_name,
                r.row.publication,
                f"{exp(r.own_log_error):.3f}",
                f"{exp(r.peer_log_error):.3f}",
            ]
            for r in compared
        )


if __name__ == "__main__":
    main()
