"""Test names of stacks: as Pulumi's commands take them, and what is none."""

from __future__ import annotations

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.stack_name import parse_stack_name
from gpufleet.errors import InputError

PROGRAM = "import pulumi_aws as aws\naws.ec2.Eip('a')\n"


@pytest.mark.parametrize(
    ("name", "own"),
    [("production", "production"), ("acme/production", "production"), ("acme/web-2/prod.eu", "prod.eu")],
)
def test_own_name_is_the_last_part(name, own):
    assert parse_stack_name(name) == own


@pytest.mark.parametrize(
    "name",
    ["", "/", "a/b/c/d", "../x", "a//b", "a/..", ".", "a b", "x\n", "\x1b[2J", "a" * 101, "acme/../../etc"],
)
def test_what_is_no_name_is_refused_in_one_line(name):
    with pytest.raises(InputError, match="is not a stack's name") as error:
        parse_stack_name(name)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


@pytest.fixture
def project(tmp_path):
    """A project whose stack `prod` has a region."""
    (tmp_path / "Pulumi.yaml").write_text("name: web\nruntime: python\n")
    (tmp_path / "Pulumi.prod.yaml").write_text("config:\n  aws:region: eu-west-1\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    return tmp_path


def test_full_name_reads_the_file_of_the_stack(gpufleet, project):
    results = [
        gpufleet("cost", "estimate", "-s", name, "--json", cwd=project) for name in ("prod", "acme/web/prod")
    ]
    assert [result.returncode for result in results] == [0, 0]
    assert results[0].stdout == results[1].stdout
    assert "eu-west-1" in results[0].stdout


def test_full_name_of_a_stack_without_a_file_is_not_found(gpufleet, project):
    result = gpufleet("cost", "estimate", "-s", "acme/web/nope", cwd=project)
    assert result.returncode == 2
    assert "stack 'nope' not found" in result.stderr


def test_name_in_the_list_of_projects_is_checked(project):
    (project / "gpufleet-cost.yaml").write_text("projects:\n  - {path: ., stack: ../prod}\n")
    with pytest.raises(InputError, match=r"gpufleet-cost.yaml:2.*is not a stack's name"):
        cost.load_project_list(project / "gpufleet-cost.yaml")
