"""Test ``gpufleet cost`` as a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[1] / "cases" / "cost"
BARE = {"PATH": "/usr/bin:/bin"}  # no engine


@pytest.fixture
def preview():
    """Return one case's preview as text."""
    return lambda name: json.dumps(json.loads((CASES / f"{name}.json").read_text())["preview"])


def test_preview_is_read_from_standard_input(gpufleet, project, preview):
    result = gpufleet(
        "cost", "diff", "--preview", "-", "--format", "json", cwd=project, stdin=preview("create")
    )
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    machine = next(line for line in document["resources"] if line["component"] == "machine")
    assert (
        machine["after_usd_per_hour"] == 21.957642
    )  # p4d.24xlarge in us-east-1, AWS list price of 2026-07-06


@pytest.mark.parametrize("form", ["table", "markdown", "json", "junit", "html"])
def test_resource_name_with_markup_breaks_no_report_format(gpufleet, tmp_path, preview, form):
    hostile = "a\\u001b[31m\\u202e\\uffff<b>"  # what JSON can hold and neither a terminal nor XML can
    text = preview("create").replace('::a"', f'::{hostile}"')
    assert hostile in text
    (tmp_path / "p.json").write_text(text, encoding="utf-16")
    result = gpufleet("cost", "diff", "--preview", "p.json", "--format", form, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert not {"\0", "\x1b", "\u202e"} & set(result.stdout)


@pytest.mark.parametrize("hostile", ["a\\u0000", "a\\ud800"])
def test_stack_name_with_a_nul_character_is_refused_in_one_line(gpufleet, tmp_path, preview, hostile):
    (tmp_path / "p.json").write_text(preview("create").replace('::a"', f'::{hostile}"'))
    result = gpufleet("cost", "diff", "--preview", "p.json", cwd=tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "p.json: contains a" in result.stderr


def test_preview_is_priced_outside_a_project(gpufleet, tmp_path, preview):
    (tmp_path / "preview.json").write_text(preview("same"))
    result = gpufleet("cost", "diff", "--preview", "preview.json", "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["change"]["usd_per_month"] == 0


def test_estimate_needs_no_engine_and_no_credentials(gpufleet, project):
    result = gpufleet("cost", "estimate", "-s", "production", cwd=project, env=BARE)
    assert result.returncode == 0, result.stderr
    assert "reserved capacity and commitments bill around the clock" in result.stdout
    assert "hours, not a month" in result.stdout
    assert "within the budget of $60,000.00" in result.stdout


def test_violated_policy_exits_with_1_and_names_the_rule(gpufleet, project, preview):
    (project / "policy.yaml").write_text("max_increase_usd_per_month: 100\n")
    result = gpufleet(
        "cost",
        "diff",
        "--preview",
        "-",
        "--policy",
        "policy.yaml",
        "--json",
        cwd=project,
        stdin=preview("create"),
    )
    assert result.returncode == 1
    assert result.stderr.startswith("error: policy violated: max_increase_usd_per_month: ")
    assert json.loads(result.stdout)["policy"]["violations"][0]["rule"] == "max_increase_usd_per_month"


def test_preview_without_steps_is_refused(gpufleet, project):
    result = gpufleet("cost", "diff", "--preview", "-", cwd=project, stdin='{"steps": []}')
    assert result.returncode == 2
    assert result.stderr == "error: --preview: the preview has no steps; add --show-sames\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diff", "-s", "poc"], "cost diff: give one of --base, --preview, --event-log and --state"),
        (["diff", "--base", "HEAD"], "--stack: no stack given"),
        (["diff", "-s", "poc", "--base", "HEAD", "--preview", "-"], "give one of --base, --preview"),
        (["diff", "-s", "poc", "--base", "nosuch"], "--base: no commit named 'nosuch'"),
        (["diff", "--preview", "none.json"], "none.json: cannot be read: No such file"),
        (["diff", "--preview", "-"], "standard input: is empty"),
        (
            ["diff", "--preview", "Pulumi.json"],
            "Pulumi.json: the input is not a Pulumi preview: it has no 'steps'",
        ),
        (["diff", "--preview", "steps.json"], "steps.json: the preview contains a step without 'op'"),
        (["estimate", "--state", "Pulumi.json"], "Pulumi.json: the input is not the state of a stack"),
        (
            ["diff", "--preview", "-", "--config-file", "x"],
            "--config-file: needs --base or --state",
        ),
        (["estimate", "-s", "nosuch"], "stack 'nosuch' not found"),
        (["estimate", "-s", "poc", "--config-file", "none.yaml"], "none.yaml: no such file"),
    ],
)
def test_mistakes_are_reported_in_one_line_and_exit_with_2(gpufleet, project, arguments, message):
    (project / "Pulumi.json").write_text("{}")
    (project / "steps.json").write_text('{"steps": [{}]}')
    result = gpufleet("cost", *arguments, cwd=project, stdin="")
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_command_outside_of_a_project_names_the_option_for_it(gpufleet, tmp_path):
    result = gpufleet("cost", "estimate", "-s", "dev", cwd=tmp_path)
    assert result.returncode == 2
    assert (
        "no Pulumi.yaml in this folder or above; run inside a Pulumi project, give --project DIR, or start one: "
        "gpufleet init DIR" in result.stderr
    )


def test_command_line_itself_imports_neither_an_sdk_nor_the_models_of_a_spec(gpufleet, project):
    import subprocess
    import sys

    late = ("pulumi", "pydantic", "gpufleet.fleet")
    code = f"import sys, gpufleet.cli.cost; print([m for m in sys.modules if m.startswith({late})])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
