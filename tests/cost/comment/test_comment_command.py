"""Test ``gpufleet cost comment`` with the environment of CI systems."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from gpufleet.cli.cost_comment import post_cost_comment
from gpufleet.cost.analysis.reports.markdown import stack_comment_marker

TEXT = f"**It costs more.**\n\n{stack_comment_marker('prod')}\n"


@pytest.fixture
def run_command(tmp_path, monkeypatch):
    for name in (
        "GITHUB_ACTIONS",
        "GITLAB_CI",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "GITLAB_TOKEN",
        "SYSTEM_ACCESSTOKEN",
        "BITBUCKET_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "comment.md"
    file.write_text(TEXT)

    def run(environment, *arguments):
        return CliRunner().invoke(post_cost_comment, ["--file", str(file), *arguments], env=environment)

    return run


def test_command_creates_and_then_updates_the_comment(run_command, make_environment, fake_host):
    result = run_command(make_environment(fake_host))
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ["comment", "created"])
    assert "unchanged" in run_command(make_environment(fake_host)).stdout
    assert len(fake_host.comments) == 1


@pytest.mark.parametrize("token", ["t0ken", ""])
def test_run_in_a_fork_succeeds_and_prints_the_comment(run_command, make_environment, fake_host, token):
    fake_host.may_write = False
    result = run_command(make_environment(fake_host, token))
    assert result.exit_code == 0
    assert "It costs more." in result.stdout
    assert "the comment is above" in result.stderr
    assert fake_host.comments == []


def test_comment_in_the_log_of_a_fork_commands_no_runner(run_command, make_environment, fake_host, tmp_path):
    commands = "::set-output name=a::b\n  ::add-mask::b\nx ##vso[task.complete result=Succeeded;]\n##[e]x\r::debug::y"
    (tmp_path / "comment.md").write_text(f"{commands}\n\n{TEXT}")
    result = run_command(make_environment(fake_host, ""))
    assert result.exit_code == 0
    assert "##vso[" not in result.output
    assert "##[" not in result.output
    assert not any(line.lstrip().startswith("::") for line in result.output.splitlines())


def test_run_in_a_github_fork_writes_the_comment_to_the_job_summary(
    run_command, make_environment, github, tmp_path
):
    github.may_write = False
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    result = run_command(make_environment(github) | {"GITHUB_STEP_SUMMARY": str(page)})
    assert result.exit_code == 0
    assert page.read_text().startswith("before\n**It costs more.**")
    assert "in the job's summary" in result.stderr
