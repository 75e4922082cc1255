"""Test that a branch does not choose its own limits: the files that decide a verdict are those of the base."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost import api
from gpufleet.cost.inputs.gate_file import GateFileReader, list_changed_files, refuse_tracked_price_store
from gpufleet.cost.inputs.project_list import load_project_list, with_gate_files_of_base
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.fleet import MonthlyBudget

STRICT, LENIENT = "max_increase_usd_per_month: 1\n", "max_increase_usd_per_month: 999999\n"
PROGRAM = """import pulumi_aws as aws
for name in {names!r}:
    aws.ec2.Eip(name)
"""


@pytest.fixture
def repository(tmp_path):
    """Return a repository with a policy in its first commit; ``commit`` makes another one."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "policy.yaml").write_text(STRICT)
    git(folder, "init", "-q")
    commit(folder)
    return folder


def git(folder, *arguments):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "x", "--allow-empty")


def read(folder, path):
    reader = GateFileReader(folder, "HEAD")
    return reader.read(Path(path)), reader.warnings


def test_unchanged_file_has_no_warning(repository):
    assert read(repository, repository / "policy.yaml") == (STRICT, [])


@pytest.mark.parametrize("change", ["edited", "deleted", "link"])
def test_changed_file_is_that_of_the_base(repository, change):
    path = repository / "policy.yaml"
    path.unlink()
    if change == "edited":
        path.write_text(LENIENT)
    elif change == "link":
        (repository / "lenient.yaml").write_text(LENIENT)
        path.symlink_to("lenient.yaml")
    assert read(repository, path) == (STRICT, ["this branch changes policy.yaml: that of HEAD applies"])


def test_folder_that_becomes_a_link_changes_nothing(repository, tmp_path):
    (repository / "cost").mkdir()
    (repository / "cost" / "policy.yaml").write_text(STRICT)
    commit(repository)
    (repository / "cost" / "policy.yaml").unlink()
    (repository / "cost").rmdir()
    (tmp_path / "policy.yaml").write_text(LENIENT)
    (repository / "cost").symlink_to(tmp_path)
    text, (warning,) = read(repository, repository / "cost" / "policy.yaml")
    assert text == STRICT
    assert "changes cost/policy.yaml" in warning


def test_new_file_applies_and_is_named(repository):
    (repository / "new.yaml").write_text(LENIENT)
    text, (warning,) = read(repository, repository / "new.yaml")
    assert text == LENIENT
    assert warning == "new.yaml is not in HEAD: this branch brings it, and it applies"


def test_new_link_is_not_followed(repository, tmp_path):
    (tmp_path / "secret.yaml").write_text("password: x\n")
    (repository / "new.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(InputError):
        read(repository, repository / "new.yaml")


def test_file_outside_the_repository_is_the_operators(repository, tmp_path):
    (tmp_path / "policy.yaml").write_text(LENIENT)
    assert read(repository, tmp_path / "policy.yaml") == (LENIENT, [])


def test_operators_link_into_the_repository_is_looked_up_at_the_base(repository, tmp_path):
    (tmp_path / "link.yaml").symlink_to(repository / "policy.yaml")
    (repository / "policy.yaml").write_text(LENIENT)
    assert read(repository, tmp_path / "link.yaml")[0] == STRICT


def test_link_at_the_base_is_refused(repository):
    (repository / "link.yaml").symlink_to("policy.yaml")
    commit(repository)
    with pytest.raises(InputError, match="symbolic link"):
        read(repository, repository / "link.yaml")


def test_path_with_special_characters_is_literal(repository):
    (repository / ":(top)*.yaml").write_text(STRICT)
    commit(repository)
    assert read(repository, repository / ":(top)*.yaml") == (STRICT, [])


@pytest.mark.parametrize("base", ["nowhere", "--help", ""])
def test_unknown_base_is_an_error(repository, base):
    with pytest.raises(InputError, match="no commit named"):
        GateFileReader(repository, base).read(repository / "policy.yaml")


def test_without_a_base_a_file_is_read_as_it_is(repository):
    assert GateFileReader(repository, None).read(repository / "policy.yaml") is None


def test_changed_files_are_relative_to_the_project(repository):
    (repository / "infra").mkdir()
    (repository / "infra" / "pools.yaml").write_text("a")
    commit(repository)
    (repository / "infra" / "pools.yaml").write_text("b")
    (repository / "policy.yaml").write_text("c")
    assert list_changed_files(repository / "infra", "HEAD") == {"pools.yaml"}


@pytest.mark.parametrize("tracked", ["file", "link"])
def test_price_store_in_git_is_refused(repository, tracked, tmp_path):
    store = repository / ".gpufleet" / "prices.db"
    (tmp_path / "elsewhere").mkdir()
    if tracked == "link":
        (repository / ".gpufleet").symlink_to(tmp_path / "elsewhere")
    else:
        store.parent.mkdir()
    store.write_text("x")
    refuse_tracked_price_store(store)
    commit(repository)
    with pytest.raises(InputError, match="git tracks it"):
        refuse_tracked_price_store(store)


def break_git(repository):
    """Damage the index and every object: what git is asked about has no answer."""
    (repository / ".git/index").write_bytes(b"damaged")
    for path in (repository / ".git/objects").glob("??/*"):
        path.chmod(0o600)
        path.write_bytes(b"damaged")


def test_failing_git_is_not_an_empty_answer(repository):
    store = repository / "prices.db"
    store.write_text("x")
    commit(repository)
    reader = GateFileReader(repository, "HEAD")
    commit_id = reader.repository.commit
    break_git(repository)
    for ask in (
        lambda: refuse_tracked_price_store(store),
        lambda: list_changed_files(repository, commit_id),
        lambda: reader.read(repository / "policy.yaml"),
    ):
        with pytest.raises(EnvironmentFault, match=r"git [a-z-]+ failed in"):
            ask()


@pytest.mark.parametrize("text", ["projects: [", "- a\n", ""])
def test_list_that_is_invalid_at_the_base_is_not_replaced_by_the_branchs(project, text):
    (project / "list.yaml").write_text(text)
    commit(project)
    (project / "list.yaml").write_text("projects: [{path: ., stack: dev}]\n")
    projects = load_project_list(project / "list.yaml")
    with pytest.raises(InputError, match=r"list\.yaml at HEAD"):
        with_gate_files_of_base(projects, GateFileReader(project, "HEAD"))


def test_new_list_applies_and_is_named(project):
    (project / "list.yaml").write_text("projects: [{path: ., stack: dev}]\n")
    gate = GateFileReader(project, "HEAD")
    projects = load_project_list(project / "list.yaml")
    assert with_gate_files_of_base(projects, gate) == projects
    assert gate.warnings == ["list.yaml has no list at HEAD: that of this branch applies"]


# The command, with a project whose change is over the limit of the base.
@pytest.fixture
def project(repository):
    (repository / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    (repository / "Pulumi.dev.yaml").write_text('config: {"aws:region": us-east-1}\n')
    (repository / "__main__.py").write_text(PROGRAM.format(names=["a"]))
    commit(repository)
    (repository / "__main__.py").write_text(PROGRAM.format(names=["a", "b", "c"]))
    return repository


def test_command_keeps_to_the_limits_of_the_base(gpufleet, project):
    arguments = ("cost", "diff", "-s", "dev", "--base", "HEAD", "--policy", "policy.yaml")
    refused = gpufleet(*arguments, cwd=project)
    assert refused.returncode == 1, refused.stderr
    (project / "policy.yaml").write_text(LENIENT)
    still = gpufleet(*arguments, cwd=project)
    assert still.returncode == 1
    assert "this branch changes policy.yaml: that of HEAD applies" in still.stdout
    commit(project)
    (project / "__main__.py").write_text(PROGRAM.format(names=list("abcde")))
    assert gpufleet(*arguments, cwd=project).returncode == 0  # the limit was merged before


BROKEN = "commitments: 3\n"


def test_commitments_and_usage_are_those_of_the_base(gpufleet, project):
    (project / "commitments.yaml").write_text("commitments: []\n")
    (project / "usage.yaml").write_text("resources: {}\n")
    commit(project)
    (project / "commitments.yaml").write_text(BROKEN)
    (project / "usage.yaml").write_text("- broken\n")
    arguments = ("cost", "diff", "-s", "dev", "--base", "HEAD", "--usage", "usage.yaml")
    result = gpufleet(*arguments, cwd=project)
    assert result.returncode == 0, result.stderr
    for name in ("commitments.yaml", "usage.yaml"):
        assert f"this branch changes {name}: that of HEAD applies" in result.stdout


def test_policy_of_a_list_is_that_of_the_list_at_the_base(project):
    (project / "lenient.yaml").write_text(LENIENT)
    (project / "list.yaml").write_text("policy: policy.yaml\nprojects: [{path: ., stack: dev}]\n")
    commit(project)
    (project / "list.yaml").write_text(
        "policy: lenient.yaml\nprojects: [{path: ., stack: dev, usage: u.yaml}]\n"
    )
    (project / "u.yaml").touch()
    git(project, "add", "u.yaml")
    gate = GateFileReader(project, "HEAD")
    projects = with_gate_files_of_base(load_project_list(project / "list.yaml"), gate)
    assert projects.policy == project / "policy.yaml"
    assert projects.projects[0].usage is None
    assert len(gate.warnings) == 2


def test_project_that_leaves_the_list_is_an_unknown_change(project):
    (project / "list.yaml").write_text("projects: [{path: ., stack: dev}, {path: gone, stack: dev}]\n")
    commit(project)
    (project / "list.yaml").write_text("projects: [{path: ., stack: dev}]\n")
    combined = cost.diff_projects_against_git_ref(cost.load_project_list(project / "list.yaml"), "HEAD")
    assert not combined.total.policy.passed
    assert "gone (dev) is not in the list any more" in cost.render_combined(combined, "table").splitlines()[0]


BUDGET = "config:\n  gpufleet:fleet:\n    owner: {{name: t}}\n    budget_usd_per_month: {}\n"


@pytest.mark.parametrize("folder", ["stacks", ""])
def test_budget_is_that_of_the_base(repository, folder):
    file = repository / folder / "Pulumi.dev.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(BUDGET.format("{min: 1, max: 500}"))
    commit(repository)
    file.write_text(BUDGET.format(90_000))
    gate = GateFileReader(repository, "HEAD")
    assert api._read_base_budget(gate, repository, "dev", None) == MonthlyBudget(min=1, max=500)
    assert gate.warnings == ["this branch changes the budget of dev: that of the base applies"]


def test_stack_without_a_budget_at_the_base_has_none(repository):
    gate = GateFileReader(repository, "HEAD")
    assert api._read_base_budget(gate, repository, "new", None) is None
    assert gate.warnings == []
