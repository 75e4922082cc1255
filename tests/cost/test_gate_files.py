"""Test that a branch does not choose its own limits: the files that decide a verdict are those of the base."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpufleet import cost
from gpufleet.cost import api
from gpufleet.cost.api import load_gate_policy
from gpufleet.cost.inputs.gate_file import (
    GateFile,
    GateFileReader,
    list_changed_files,
    refuse_tracked_price_store,
)
from gpufleet.cost.inputs.project_list import (
    find_removed_projects,
    load_project_list,
    with_gate_files_of_base,
)
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
    return reader.read(Path(path)).text, reader.warnings


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


def test_new_file_does_not_apply_and_is_named(repository):
    (repository / "new.yaml").write_text(LENIENT)
    reader = GateFileReader(repository, "HEAD")
    assert reader.read(repository / "new.yaml").is_new
    assert reader.warnings == ["new.yaml is not in HEAD: it applies when it is merged"]


NEW_POLICY = """max_increase_usd_per_month: 1
unknown_change: {allowed}
rules:
- {{name: a, max_usd_per_month: 5, unknown_change: {allowed}}}
"""


@pytest.mark.parametrize("allowed", ["allow", "['aws:*']", "forbid"])
def test_limits_of_a_new_policy_apply_and_what_it_allows_does_not(repository, allowed):
    path = repository / "new.yaml"
    path.write_text(NEW_POLICY.format(allowed=allowed))
    reader = GateFileReader(repository, "HEAD")
    policy = load_gate_policy(path, reader)
    assert (policy.max_increase_usd_per_month, policy.rules[0].limits.budget_usd_per_month) == (1, 5)
    assert not policy.unknown_change
    assert not policy.rules[0].limits.unknown_change
    later = "" if allowed == "forbid" else ", its unknown_change when it is merged"
    assert reader.warnings == [f"new.yaml is not in HEAD: its limits apply now{later}"]
    commit(repository)
    merged = GateFileReader(repository, "HEAD")
    assert bool(load_gate_policy(path, merged).unknown_change) == (allowed != "forbid")
    assert merged.warnings == []
    assert load_gate_policy(path, GateFileReader(repository, None)) == cost.load_policy(path)


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
    (repository / "new.yaml").write_text(LENIENT)
    assert GateFileReader(repository, None).read(repository / "new.yaml") == GateFile(LENIENT)
    assert GateFileReader(repository, None).read(repository / "missing.yaml") == GateFile()


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
    assert with_gate_files_of_base(projects, gate).projects == projects.projects
    assert gate.warnings == ["list.yaml has no list at HEAD: that of this branch applies"]


def test_policy_and_usage_that_only_the_branchs_list_names_allow_nothing(project):
    """The base has both files, for something else: which of them apply is not the branch's choice either."""
    (project / "policy.yaml").write_text(STRICT + "unknown_change: allow\n")
    (project / "usage.yaml").write_text("- broken\n")
    commit(project)
    listed = "policy: policy.yaml\nprojects: [{path: ., stack: dev, name: p, usage: usage.yaml}]\n"
    (project / "list.yaml").write_text(listed)
    combined = cost.diff_projects_against_git_ref(cost.load_project_list(project / "list.yaml"), "HEAD")
    assert combined.own_warnings == (
        "list.yaml has no list at HEAD: that of this branch applies",
        "p is not in the list at HEAD: its usage file applies when it is merged",
        "policy.yaml is not the policy of the list at HEAD: its limits apply now, its unknown_change when it is merged",
    )


def test_list_of_the_base_may_name_a_stack_with_its_organisation(project):
    (project / "list.yaml").write_text("projects: [{path: ., stack: acme/p/dev, usage: u.yaml}]\n")
    (project / "u.yaml").touch()
    commit(project)
    (project / "list.yaml").write_text("projects: [{path: ., stack: dev}]\n")
    gate = GateFileReader(project, "HEAD")
    projects = load_project_list(project / "list.yaml")
    assert with_gate_files_of_base(projects, gate).projects[0].usage == project / "u.yaml"
    assert find_removed_projects(projects, gate) == []


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


MACHINE = """import pulumi_aws as aws
aws.ec2.Instance("a", ami="ami-1", instance_type="p4d.24xlarge", associate_public_ip_address=False,
    root_block_device={"volume_size": 8, "volume_type": "gp3"})
"""
RESERVED = """commitments:
- {id: a, kind: reserved_instance, region: us-east-1, machine: p4d.24xlarge, count: 1, usd_per_hour: 1,
   start: 2026-01-01, end: 2099-01-01, source: an invoice}
"""


def test_commitments_and_usage_that_the_base_does_not_have_do_not_apply(gpufleet, project):
    (project / "__main__.py").write_text(MACHINE)
    (project / "commitments.yaml").write_text(RESERVED)
    (project / "usage.yaml").write_text("types: {'aws:ec2/instance:Instance': {hours_per_month: 700}}\n")
    git(project, "add", "-A")
    arguments = ("cost", "diff", "-s", "dev", "--usage", "usage.yaml", "--policy", "policy.yaml", "--json")
    new = gpufleet(*arguments, "--base", "HEAD", cwd=project)
    document = json.loads(new.stdout)
    assert document["change"]["usd_per_month"] > 16_000  # all 730 hours, none of them covered
    assert new.returncode == 1
    assert "policy violated" in new.stderr
    for name in ("commitments.yaml", "usage.yaml"):
        assert f"{name} is not in HEAD: it applies when it is merged" in document["warnings"]
    git(project, "commit", "-qm", "merged", "commitments.yaml", "usage.yaml")
    merged = gpufleet(*arguments, "--base", "HEAD", cwd=project)
    assert json.loads(merged.stdout)["change"]["usd_per_month"] < 1000  # disk, and hours that are not covered
    assert "merged" not in merged.stdout


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
    assert find_budget(gate, repository, 90_000) == MonthlyBudget(min=1, max=500)
    assert gate.warnings == ["this branch changes the budget of dev: that of the base applies"]
    file.unlink()  # the branch moves it
    (repository / "stacks").mkdir(exist_ok=True)
    assert find_budget(gate, repository, 90_000) == MonthlyBudget(min=1, max=500)


def find_budget(gate, root, own=None, config_file=None):
    fleet = own and SimpleNamespace(budget_usd_per_month=MonthlyBudget(max=own))
    return api._find_budget(gate, root, "dev", config_file, fleet)


def test_stack_without_a_budget_at_the_base_has_that_of_the_branch(repository):
    gate = GateFileReader(repository, "HEAD")
    assert find_budget(gate, repository) is None
    assert gate.warnings == []
    assert find_budget(gate, repository, 700) == MonthlyBudget(max=700)  # it forbids more
    assert gate.warnings == ["the budget of dev is not in HEAD: it applies now"]


def test_budget_of_another_config_file_is_that_of_the_base(repository):
    (repository / "own.yaml").write_text(BUDGET.format(500))
    commit(repository)
    (repository / "own.yaml").write_text(BUDGET.format(90_000))
    gate = GateFileReader(repository, "HEAD")
    assert find_budget(gate, repository, 90_000, repository / "own.yaml") == MonthlyBudget(max=500)
