"""Test `gpufleet configure` as a process: one-line errors, and a pattern without hosts."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--play", "sites"], "error: --play: play 'sites' not found; did you mean site?"),
        (["--tags", "a b"], "error: --tags: 'a b' is not a tag; write names like sshd,audit"),
        (["--plan", "--tags", "sshd"], "error: --plan: cannot be combined with --tags; remove --tags"),
        (
            ["--resume", "r1", "--skip-tags", "sshd"],
            "error: --resume: cannot be combined with --skip-tags; remove one",
        ),
        (["--limit", "balde01"], "error: --limit: no host or group 'balde01'; did you mean blade01"),
        (["--limit", "blades-1"], "error: --limit: no host or group 'blades-1'; did you mean rack_blades_1?"),
        (["--plan", "--play", "burn_in"], "error: --plan: cannot be combined with --play; remove --play"),
        (["--plan", "--resume"], "error: --plan: cannot be combined with --resume; remove --resume"),
        (
            ["--check", "--resume"],
            "error: --resume: cannot be combined with --check; remove one of the two",
        ),
        (
            ["--resume", "r1", "--limit", "blade01"],
            "error: --resume: cannot be combined with --limit; remove one",
        ),
        (
            ["--pack", "x", "--mesh-nodes", "rack-7"],
            "error: --pack: cannot be combined with --mesh-nodes; remove one",
        ),
        (["--shard-size", "2"], "error: --shard-size: needs --mesh-nodes; add --mesh-nodes"),
        (["--sources"], "error: --sources: needs --plan; add --plan"),
    ],
)
def test_wrong_input_is_reported_in_one_line(gpufleet, project, arguments, line):
    result = gpufleet("configure", *arguments, cwd=project)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.strip().startswith(line)
    assert len(result.stderr.strip().splitlines()) == 1


def test_unknown_choice_of_burn_in_is_refused(gpufleet, project):
    assert gpufleet("configure", "--burn-in", "maybe", cwd=project).returncode == 2


def test_help_shows_the_ansible_runner_command(gpufleet, project):
    help_text = gpufleet("configure", "--help", cwd=project).stdout
    assert "ansible-runner run . --project-dir playbooks -p site.yml --limit PATTERN" in " ".join(
        help_text.split()
    )


@pytest.mark.parametrize(
    "play", ["site", "commission", "drivers", "containers", "fabrics", "application", "burn_in"]
)
def test_each_play_can_be_run_alone_and_has_nothing_to_do_in_an_empty_group(gpufleet, project, play):
    (project / "inventory/site.ini").write_text("[spare]\n")
    result = gpufleet("configure", "--play", play, "--limit", "spare", "--json", cwd=project)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["hosts"] == []
