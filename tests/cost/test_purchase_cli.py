"""Test ``gpufleet cost breakeven``, ``whatif``, ``ownership`` and ``--commitments`` as processes."""

from __future__ import annotations

import json
import shutil

import pytest


def test_break_even_prints_table_and_json(gpufleet, project):
    arguments = ("cost", "breakeven", "--machine", "g5.2xlarge", "--region", "us-east-1")
    result = gpufleet(*arguments, cwd=project)
    assert result.returncode == 0, result.stderr
    assert "above 460 hours a month (63 % of it)" in result.stdout  # 730 * 0.76356 / 1.212
    document = json.loads(gpufleet(*arguments, "--json", cwd=project).stdout)
    assert document[0]["hours_per_month"] == 459.9
    assert document[0]["committed"]["as_of"] == "2025-05-28"


def test_break_even_accepts_a_price_from_the_command_line(gpufleet, project):
    arguments = ("cost", "breakeven", "--machine", "p5.48xlarge", "--region", "us-east-1")
    assert "no usable reserved_1y price in the catalogue" in gpufleet(*arguments, cwd=project).stdout
    result = gpufleet(*arguments, "--committed", "30", cwd=project)
    assert "above 398 hours a month" in result.stdout  # 730 * 30 / 55.04


def test_what_if_compares_purchases_of_a_stack(gpufleet, project):
    result = gpufleet("cost", "what-if", "-s", "production", "--json", cwd=project)
    assert result.returncode == 0, result.stderr
    rows = {row["pool"]: row for row in json.loads(result.stdout)}
    assert rows["serve"]["cheapest"] == "reserved_3y"  # dearer on spot: the catalogue's own prices
    assert rows["train"]["options"]["reserved_1y"] is None


def test_commitments_file_of_the_project_is_found(gpufleet, project, repo_root):
    shutil.copy(repo_root / "docs/examples/commitments.yaml", project / "commitments.yaml")
    result = gpufleet("cost", "estimate", "-s", "production", "--json", cwd=project)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert {use["id"] for use in document["commitments"]} == {"ri-train", "res-tune"}
    assert {use["used"] for use in document["commitments"]} == {1.0}
    train = [row for row in document["resources"] if row["pool"] == "train" and row["covered_by"]]
    assert {row["covered_by"] for row in train} == {"ri-train"}


def test_ownership_writes_plot_page_and_json(gpufleet, project):
    arguments = ("cost", "tco", "blades-1", "--no-storage")
    result = gpufleet(*arguments, "--json", "--svg", "plot.svg", "--html", "page.html", cwd=project)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    # 20 * 0.102 * 730 = 1,489.20; 4,202 / (1,489.20 - 30.66) = 2.881
    assert document["break_even_month"] == pytest.approx(2.881, abs=1e-3)
    assert (project / "plot.svg").read_text().startswith("<svg")
    assert "<svg" in (project / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["breakeven", "--machine", "nosuch", "--region", "r"], "no price is known for machine 'nosuch'"),
        (["breakeven", "--machine", "g5.2xlarge", "--region", "mars"], "no price of g5.2xlarge in mars"),
        (["tco", "nosuch"], "no such rack file"),
        (
            ["tco", "blades-1", "--region", "mars"],
            "--region: no price is known for region 'mars'",
        ),
        (
            ["tco", "blades-1", "--svg", "/nosuch/plot.svg"],
            "/nosuch/plot.svg: cannot be written: No such file",
        ),
        (["estimate", "-s", "dev", "--commitments", "none.yaml"], "none.yaml: file not found"),
    ],
)
def test_mistakes_are_reported_in_one_line_and_exit_with_2(gpufleet, project, arguments, message):
    result = gpufleet("cost", *arguments, cwd=project)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["breakeven", "--machine", "g5.2xlarge", "--region", "us-east-1", "--committed", "nan"],
        ["tco", "blades-1", "--years", "nan"],
        ["tco", "blades-1", "--years", "1e-300"],
        ["tco", "blades-1", "--utilisation", "nan"],
        ["tco", "blades-1", "--cloud-usd-per-hour", "inf"],
        ["tco", "blades-1", "--cloud-count", "9" * 26],
        ["estimate", "-s", "dev", "--time-limit", "nan"],
    ],
)
def test_number_without_a_meaning_is_refused_by_its_option(gpufleet, project, arguments):
    result = gpufleet("cost", *arguments, cwd=project)
    assert result.returncode == 2
    assert f"invalid value for '{arguments[-2]}'" in result.stderr
    assert "Traceback" not in result.stderr
