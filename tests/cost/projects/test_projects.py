"""Test several projects of one repository in one report."""

from __future__ import annotations

import json
import subprocess
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from comment_reader import read_comment
from gpufleet import cost
from gpufleet.cost import CostPolicy, load_project_list, render_combined
from gpufleet.cost.analysis.combined import ProjectDiff, combine_diffs
from gpufleet.cost.analysis.comment import prepare_comment_body
from gpufleet.cost.analysis.policy import CostLimits, PolicyRule, PolicyScope
from gpufleet.cost.analysis.reports.markdown import MAX_CHARACTERS
from gpufleet.cost.inputs.gate_file import GateFileReader, refuse_links_in_repository
from gpufleet.cost.inputs.program.gitref import find_git_tree
from gpufleet.cost.inputs.project_list import find_removed_projects
from gpufleet.engine import StateResource
from gpufleet.errors import InputError
from small_program import write_small_program, write_small_stack

KIND = "aws:ec2/instance:Instance"
DAY = date(2026, 7, 10)
G5, P4D = Decimal("734.38"), Decimal("16029.08")  # 1.006 and 21.957642 USD an hour, 730 hours


def make_machine(project, name, machine="g5.xlarge"):
    inputs = {"instanceType": machine, "region": "us-east-1", "associatePublicIpAddress": False}
    inputs["rootBlockDevice"] = {"volumeSize": 0, "volumeType": "gp3"}  # that of an image is not known
    return StateResource(f"urn:pulumi:prod::{project}::{KIND}::{name}", KIND, name, inputs, {})


@pytest.fixture
def make_project(book):
    """Return the difference of a project whose machines are named before and after."""

    def build(name, before, after, stack="prod"):
        sides = [[make_machine(name, each) for each in side] for side in (before, after)]
        return ProjectDiff(name, cost.diff(*sides, change=cost.StackChange(stack=stack), book=book))

    return build


@pytest.fixture
def three(make_project):
    return [
        make_project("network", "a", "a"),
        make_project("cluster", "ab", "abc"),
        make_project("old", "xy", "x"),
    ]


def test_total_is_the_sum_of_the_projects(three):
    combined = combine_diffs("acme", three)
    assert combined.total.before.usd_per_month.expected == 5 * G5
    assert combined.total.after.usd_per_month.expected == 5 * G5
    assert combined.total.change_usd_per_month == 0
    assert [project.is_changed for project in combined.projects] == [False, True, True]


def test_comment_has_a_row_for_each_project_and_details_of_those_that_changed(three):
    text = render_combined(combine_diffs("acme", three), "markdown")
    assert "| network | prod | \\$734.38 | \\$734.38 | no change |" in text
    assert "| cluster | prod | \\$1,468.76 | \\$2,203.14 | +\\$734.38 |" in text
    assert "| old | prod | \\$1,468.76 | \\$734.38 | -\\$734.38 |" in text
    assert "| **Total** |  | \\$3,671.90 | \\$3,671.90 | \\$0.00 |" in text
    assert text.count("network") == 1  # a project that did not change is one line
    assert text.count("<details>") == text.count("</details>") == 3  # two projects, and the prices
    assert text.endswith("<!-- gpufleet-cost:acme -->")
    assert prepare_comment_body(text).startswith("**The monthly cost of acme does not change")


def test_comment_lists_the_prices_with_date_and_source_as_that_of_one_project(three):
    text = render_combined(combine_diffs("acme", three), "markdown")
    single = cost.render_diff(three[1].diff, "markdown")
    title = "<summary>Prices used, with date and source</summary>"
    line = next(each for each in single.partition(title)[2].splitlines() if "g5.xlarge" in each)
    assert line in text.partition(title)[2]


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_free_resources_are_listed_only_with_the_option(book, form):
    urn = "urn:pulumi:prod::p::aws:ec2/vpc:Vpc::wide"
    network = StateResource(urn, "aws:ec2/vpc:Vpc", "wide", {}, {})
    diff = cost.diff([], [make_machine("p", "a"), network], change=cost.StackChange(stack="prod"), book=book)
    combined = combine_diffs("acme", [ProjectDiff("p", diff)])
    assert "networks are not billed" not in render_combined(combined, form)
    assert "Skipped" not in render_combined(combined, form)
    assert "networks are not billed" in render_combined(combined, form, show_skipped=True)


def test_lost_price_is_a_change(book):
    unknown = StateResource("urn:pulumi:prod::p::acme:a:B::u", "acme:a:B", "u", {}, {})
    diff = cost.diff([], [unknown], change=cost.StackChange(stack="prod"), book=book)
    assert ProjectDiff("p", diff).is_changed


def test_policy_judges_all_projects_together(three):
    limit = CostPolicy(budget_usd_per_month=5 * G5)
    assert combine_diffs("acme", three, limit, DAY).total.policy.passed
    limit = CostPolicy(budget_usd_per_month=5 * G5 - Decimal("0.01"))
    combined = combine_diffs("acme", three, limit, DAY)
    assert not combined.total.policy.passed
    assert "**Policy violated**" in render_combined(combined, "markdown")
    assert "Policy violated" in render_combined(combined, "table")
    assert 'failures="1"' in render_combined(combined, "junit")


@pytest.mark.parametrize(("when", "is_passed"), [
    ({"project": "cluster"}, False), ({"project": "old"}, True),
    ({"stack": "prod"}, False), ({"stack": "dev"}, True),
])  # fmt: skip
def test_rule_of_a_project_or_a_stack(three, when, is_passed):
    rule = PolicyRule("r", PolicyScope(**when), CostLimits(max_increase_usd_per_month=Decimal(100)))
    projects = three if when.get("project") else [three[1]]
    assert combine_diffs("acme", projects, CostPolicy(rules=(rule,)), DAY).total.policy.passed == is_passed


def test_rule_of_a_stack_applies_to_the_projects_with_that_stack(make_project):
    projects = [make_project("a", "x", "xy", "prod"), make_project("b", "x", "xyz", "dev")]
    for stack, limit, is_passed in (
        ("prod", G5, True),
        ("dev", G5, False),
        ("*", 2 * G5, False),
        ("q", 0, True),
    ):
        limits = CostLimits(max_increase_usd_per_month=Decimal(limit))
        policy = CostPolicy(rules=(PolicyRule("r", PolicyScope(stack=stack), limits),))
        assert combine_diffs("acme", projects, policy, DAY).total.policy.passed == is_passed, stack


def test_advice_of_a_rule_is_a_warning(three):
    limits = CostLimits(max_increase_usd_per_month=Decimal(1))
    rule = PolicyRule("r", PolicyScope(project="cluster"), limits, is_advice=True)
    combined = combine_diffs("acme", three, CostPolicy(rules=(rule,)), DAY)
    assert combined.total.policy.passed
    (warning,) = combined.own_warnings
    assert warning.startswith("r: an increase of $734.38")
    for form in ("markdown", "table"):
        assert "Warnings" in render_combined(combined, form)


def test_json_has_the_difference_of_each_project(three):
    document = json.loads(render_combined(combine_diffs("acme", three), "json"))
    assert (document["name"], document["change"]["usd_per_month"]) == ("acme", 0)
    assert [(each["name"], each["changed"]) for each in document["projects"]] == [
        ("network", False), ("cluster", True), ("old", True),
    ]  # fmt: skip
    assert document["projects"][1]["difference"]["change"]["usd_per_month"] == float(G5)


def test_table_has_no_details_of_an_unchanged_project(three):
    text = render_combined(combine_diffs("acme", three), "table")
    assert text.count("network") == 1
    assert "no change" in text
    assert "create" in text.split("\ncluster\n")[1]


def test_long_comment_is_shortened_and_keeps_every_project(make_project):
    many = [make_project(f"p{at}", [], [f"machine-{at}-{each}" for each in range(150)]) for at in range(9)]
    text = render_combined(combine_diffs("acme", many), "markdown")
    assert len(text) <= MAX_CHARACTERS
    assert all(f"| p{at} | prod |" in text for at in range(9))
    assert "more omitted" in text


def test_hostile_names_break_no_report(make_project):
    name = "x|<img>\n@team\x1b[31m"
    text = render_combined(combine_diffs("acme", [make_project(name, "a", "ab")]), "markdown")
    comment = read_comment(text)
    assert comment.faults == ()
    assert comment.text.count(r"x|<img>\n@team\x1b[31m") == 2  # in the row and as the title of its details


@pytest.fixture
def repository(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/Pulumi.yaml").write_text("name: infra\n")
    return tmp_path


def write_list(folder, text):
    path = folder / "gpufleet-cost.yaml"
    path.write_text(text)
    return path


def test_project_that_left_the_list_is_named(repository):
    write_list(
        repository,
        "projects: [{path: infra, stack: prod}, {path: gone, stack: prod}, {path: infra, stack: q}]",
    )
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    projects = load_project_list(write_list(repository, "projects: [{path: infra, stack: prod}]"))
    gate = GateFileReader(repository, "HEAD")
    assert find_removed_projects(projects, gate) == ["gone (prod)", "infra (q)"]
    assert find_removed_projects(projects, GateFileReader(None, None)) == []


@pytest.mark.parametrize("text", ["projects: 3", "[", "projects: [1, {path: [a], stack: b}]", ""])
def test_broken_list_of_before_is_refused(repository, text):
    write_list(repository, text)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=repository, check=True)
    projects = load_project_list(write_list(repository, "projects: [{path: infra, stack: prod}]"))
    with pytest.raises(InputError, match=r"gpufleet-cost\.yaml at HEAD"):
        find_removed_projects(projects, GateFileReader(repository, "HEAD"))


def test_list_is_read(repository):
    text = "name: acme\npolicy: p.yaml\nprojects:\n- {path: infra, stack: prod}\n- {path: infra, stack: dev, name: d}\n"
    projects = load_project_list(write_list(repository, text))
    assert (projects.name, projects.policy) == ("acme", repository / "p.yaml")
    assert [(each.name, each.stack) for each in projects.projects] == [("infra", "prod"), ("d", "dev")]
    assert projects.projects[0].root == repository / "infra"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no list of projects"),
        ("projects: {}", "has no list of projects"),
        ("projects: [infra]", "'infra' is not a project"),
        ("projects:\n- {path: infra}", "gpufleet-cost.yaml:2: stack: is missing"),
        ("projects:\n- {path: nowhere, stack: s}", "gpufleet-cost.yaml:2: nowhere: has no Pulumi.yaml"),
        ("projects:\n- {path: ../.., stack: s}", "'../..' is outside the repository"),
        (
            "policy: /etc/passwd\nprojects: [{path: infra, stack: s}]",
            "'/etc/passwd' is outside the repository",
        ),
        ("projects: [{path: " + "x" * 300 + ", stack: s}]", "is not a path"),
        ("projects: [{path: infra, stack: [s]}]", "is not a name"),
        ("projects: [{path: infra, stack: s, trust: true}]", "trust: unknown key"),
        ("projects:\n- {path: infra, stack: s}\n- {path: infra, stack: t}", "two projects are named 'infra'"),
        ("projects: [" + "{path: infra, stack: s}," * 101 + "]", "has more than 100 projects"),
    ],
)
def test_mistake_in_the_list_is_one_line(repository, text, message):
    with pytest.raises(InputError) as excinfo:
        load_project_list(write_list(repository, text))
    assert message in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


def test_link_out_of_the_repository_is_refused(repository):
    (repository / "out").symlink_to("/etc")
    with pytest.raises(InputError, match="outside the repository"):
        load_project_list(write_list(repository, "projects: [{path: out, stack: s}]"))


def test_command_compares_two_stacks_with_a_git_ref(gpufleet, project):
    write_small_program(project, "dev", "production")
    commit = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-qam", "small"]
    subprocess.run(commit, cwd=project, check=True)
    write_small_stack(project, "dev", 2)
    arguments = ("cost", "diff", "--projects", "docs/examples/gpufleet-cost.yaml", "--base", "HEAD")
    result = gpufleet(*arguments, "--format", "json", cwd=project)
    assert result.returncode in {0, 1}, result.stderr
    document = json.loads(result.stdout)
    single = gpufleet("cost", "diff", "-s", "dev", "--base", "HEAD", "--json", cwd=project)
    change = json.loads(single.stdout)["change"]["usd_per_month"]
    assert change == 730
    assert document["change"]["usd_per_month"] == change
    assert [(each["name"], each["changed"]) for each in document["projects"]] == [
        ("development", True), ("production", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--projects: needs --base"),
        (("--base", "HEAD", "-s", "dev"), "--projects: cannot be combined with --stack"),
        (("--base", "HEAD", "--commitments", "c.yaml"), "--projects: cannot be combined with --commitments"),
        (("--base", "nowhere"), "--base: no commit named 'nowhere'"),
    ],
)
def test_wrong_options_are_one_line(gpufleet, repository, arguments, message):

    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    write_list(repository, "projects: [{path: infra, stack: s}]")
    result = gpufleet("cost", "diff", "--projects", "gpufleet-cost.yaml", *arguments, cwd=repository)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1), result.stderr
    assert message in result.stderr


# A folder that became a link: at the base the other project would be read in its place.
LISTED = "projects: [{path: p1, stack: dev}, {path: p2, stack: dev, name: two}]"


@pytest.fixture
def two_projects(tmp_path):
    """Return a repository with a list of p1 and p2; ``p2`` is moved to ``p3`` and is a link to ``p1`` now."""
    root = tmp_path / "two"
    for name in ("p1", "p2"):
        (root / name).mkdir(parents=True)
        (root / name / "Pulumi.yaml").write_text(f"name: {name}\nruntime: python\n")
        (root / name / "Pulumi.dev.yaml").write_text("config: {}\n")
        (root / name / "__main__.py").write_text("raise SystemExit('it was run')\n")
    write_list(root, LISTED)
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], ["mv", "p2", "p3"]):
        subprocess.run([*git, *command], check=True)
    (root / "p2").symlink_to("p1")
    subprocess.run([*git, "add", "-A"], check=True)
    return root


@pytest.mark.parametrize(
    ("arguments", "where", "link"),
    [
        (("--projects", "gpufleet-cost.yaml"), "gpufleet-cost.yaml:1: p2", "p2"),
        (("--projects", "linked.yaml"), "linked.yaml", "linked.yaml"),
        (("--project", "p2", "-s", "dev"), "p2", "p2"),
        (("--project", "p1/../p2", "-s", "dev"), "p1/../p2", "p2"),
        (("--project", "p1", "-s", "dev", "--config-file", "p2/Pulumi.dev.yaml"), "p2/Pulumi.dev.yaml", "p2"),
    ],
)
def test_path_through_a_link_of_the_repository_is_refused(gpufleet, two_projects, arguments, where, link):
    (two_projects / "linked.yaml").symlink_to("gpufleet-cost.yaml")
    result = gpufleet("cost", "diff", *arguments, "--base", "HEAD", cwd=two_projects)
    expected = f"{where}: passes through the symbolic link {link}; give the path that it leads to"
    assert (result.returncode, result.stderr.splitlines()) == (2, [f"error: {expected}"]), result.stdout
    assert result.stdout == ""


def test_list_names_no_stack_file_behind_a_link(two_projects):
    text = "projects: [{path: p1, stack: dev, config_file: p2/Pulumi.dev.yaml}]"
    with pytest.raises(InputError, match=r"p2/Pulumi\.dev\.yaml: passes through the symbolic link p2"):
        load_project_list(write_list(two_projects, text))


def test_working_folder_that_is_a_link_is_refused(two_projects, monkeypatch):
    monkeypatch.chdir(two_projects / "p2")
    monkeypatch.setenv("PWD", str(two_projects / "p2"))  # as a shell sets it
    with pytest.raises(InputError, match="passes through the symbolic link p2"):
        refuse_links_in_repository(Path())
    monkeypatch.setenv("PWD", str(two_projects))  # an old value
    refuse_links_in_repository(Path())


def test_links_of_the_operator_are_followed_and_those_behind_them_are_not(two_projects, tmp_path):
    (tmp_path / "good").symlink_to(two_projects / "p1")
    (tmp_path / "bad").symlink_to(two_projects / "p2")
    refuse_links_in_repository(tmp_path / "good", None, tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"bad: passes through the symbolic link p2"):
        refuse_links_in_repository(tmp_path / "bad")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError, match="too many symbolic links"):
        refuse_links_in_repository(tmp_path / "circle")


def test_link_to_a_repository_in_the_repository_is_refused(two_projects):
    inner = two_projects / "p1/inner"
    inner.mkdir()
    subprocess.run(["git", "init", "-q", inner], check=True)
    (two_projects / "to-inner").symlink_to("p1/inner")
    refuse_links_in_repository(two_projects / "to-inner")  # the operator's: git does not track it
    subprocess.run(["git", "-C", two_projects, "add", "to-inner"], check=True)
    with pytest.raises(InputError, match="passes through the symbolic link to-inner"):
        refuse_links_in_repository(two_projects / "to-inner")


def test_project_that_became_a_link_left_the_list(two_projects):
    projects = load_project_list(write_list(two_projects, "projects: [{path: p1, stack: dev}]"))
    assert find_removed_projects(projects, GateFileReader(two_projects, "HEAD")) == ["p2 (dev)"]


def test_project_that_was_a_link_at_the_base_is_new(two_projects):
    git = ["git", "-C", str(two_projects), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "commit", "-qm", "link"], check=True)
    (two_projects / "p2").unlink()
    (two_projects / "p3").rename(two_projects / "p2")
    assert not find_git_tree(two_projects / "p2", "HEAD")
    assert find_git_tree(two_projects / "p2", "HEAD~1")
