"""Test ways around the cost gate: each was a green gate once, although the cost rose or was not known."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.gate_file import list_changed_files
from gpufleet.cost.inputs.ignored_change import settle_like_engine
from gpufleet.cost.inputs.program.gitref import find_git_tree, list_git_files, read_git_files
from gpufleet.cost.inputs.project_list import load_project_list
from gpufleet.engine import StateResource
from gpufleet.errors import InputError

SMALL, LARGE = "t3.micro", "p4d.24xlarge"
CONFIG = "config:\n  aws:region: us-east-1\n  demo:machine: {machine}\n"
MACHINE = """import pulumi, pulumi_aws as aws
machine = pulumi.Config().get("machine")
aws.ec2.Instance("one", ami="ami-1", instance_type=machine, root_block_device={"volume_size": 10})
"""


def git(folder, *arguments):
    command = [
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "protocol.file.allow=always",
    ]
    subprocess.run([*command, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path):
    """Return a project whose machine is named in the stack's file, as committed at main."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: demo\nruntime: python\n")
    (folder / "Pulumi.dev.yaml").write_text(CONFIG.format(machine=SMALL))
    (folder / "__main__.py").write_text(MACHINE)
    git(folder, "init", "-q", "-b", "main")
    return folder


def commit(folder):
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "x")


def compare(folder, config_file=None):
    return cost.diff_stack_against_git_ref(folder, "dev", "main", config_file)


def test_both_sides_use_the_named_stack_file(project):
    named = project / "Pulumi.named.yaml"
    named.write_text(CONFIG.format(machine=SMALL))
    (project / "Pulumi.dev.yaml").write_text(CONFIG.format(machine=LARGE))
    commit(project)
    assert compare(project, named).change_usd_per_month == 0
    named.write_text(CONFIG.format(machine=LARGE))
    assert compare(project, named).change_usd_per_month > 10_000


def test_branch_that_lists_another_config_file_is_an_unknown_change(project):
    listed = project / "gpufleet-cost.yaml"
    listed.write_text("projects: [{path: ., stack: dev}]\n")
    (project / "Pulumi.small.yaml").write_text(CONFIG.format(machine=SMALL))
    commit(project)
    (project / "Pulumi.dev.yaml").write_text(CONFIG.format(machine=LARGE))
    listed.write_text("projects: [{path: ., stack: dev, config_file: Pulumi.small.yaml}]\n")
    combined = cost.diff_projects_against_git_ref(load_project_list(listed), "main")
    (unknown,) = combined.total.unknown_changes
    assert "(dev with its own file) is not in the list any more" in str(unknown)


def test_project_file_that_the_engine_prefers_is_refused(project):
    commit(project)
    (project / "Pulumi.json").write_text('{"name": "demo", "runtime": "python"}')
    git(project, "add", "-A")
    with pytest.raises(InputError, match="is read by the engine in place of") as error:
        compare(project)
    assert error.value.where.endswith("Pulumi.json")


def test_changed_program_is_an_unknown_change_where_only_deployment_knows_the_value(project):
    program = """import pulumi_aws as aws
address = aws.ec2.Eip("ip")
aws.ec2.Instance("one", ami="ami-1", instance_type=address.id.apply(lambda _: "{}"))
parameter = aws.ssm.get_parameter(name="/{}")
aws.ec2.Instance("two", ami="ami-1", instance_type=parameter.value)
"""
    (project / "__main__.py").write_text(program.format(SMALL, "small"))
    commit(project)
    (project / "README.md").write_text("what does not bill\n")
    git(project, "add", "-A")
    assert compare(project).unknown_changes == ()
    (project / "__main__.py").write_text(program.format(LARGE, "big"))
    unknown = {each.name: each for each in compare(project).unknown_changes}
    assert set(unknown) == {"one", "two"}
    assert unknown["one"].causes == ("__main__.py",)


def test_changed_secret_is_an_unknown_change(project):
    (project / "Pulumi.dev.yaml").write_text("config:\n  demo:machine: {secure: AAAA}\n")
    commit(project)
    (project / "Pulumi.dev.yaml").write_text("config:\n  demo:machine: {secure: BBBB}\n")
    (unknown,) = compare(project).unknown_changes
    assert (unknown.name, unknown.causes) == ("one", ("Pulumi.dev.yaml",))


def test_environments_of_pulumi_esc_are_named_and_their_change_is_unknown(project, caplog):
    commit(project)
    own = project / "Pulumi.dev.yaml"
    own.write_text(f"environment: [big]\n{CONFIG.format(machine=SMALL)}")
    diff = compare(project)
    assert [str(each) for each in diff.unknown_changes] == [
        "environment: of Pulumi.dev.yaml changes: what it sets is not known here"
    ]
    assert any("Pulumi ESC are not known here" in each and each.endswith("big") for each in diff.warnings)
    commit(project)
    assert compare(project).unknown_changes == ()
    cost.estimate_stack(project, "dev")
    assert "Pulumi ESC are not known here" in caplog.text


@pytest.mark.parametrize(
    ("fields", "text"),
    [({"retain_on_delete": True}, "is retained on deletion"), ({"protect": True}, "is protected")],
)
def test_removed_resource_that_is_kept_still_bills(fields, text):
    kind = "aws:ec2/instance:Instance"
    old, plain = (
        StateResource(f"urn:pulumi:dev::demo::{kind}::{name}", kind, name, {}, {}, **flags)
        for name, flags in (("old", fields), ("plain", {}))
    )
    before, after, (warning,) = settle_like_engine([old, plain], [])
    assert before == (old, plain)
    assert after == (old,)
    assert text in warning


def test_base_has_what_the_working_tree_has(project, tmp_path):
    part = tmp_path / "part"
    part.mkdir()
    git(part, "init", "-q", "-b", "main")
    (part / "size.txt").write_text("10")
    commit(part)
    git(project, "submodule", "add", "-q", str(part), "part")
    (project / ".gitattributes").write_text("hidden.txt export-ignore\n")
    (project / "hidden.txt").write_text("x")
    (project / "run.sh").write_text("true\n")
    (project / "run.sh").chmod(0o755)
    (project / "link").symlink_to("hidden.txt")
    commit(project)
    files = {
        file.path: file for file in read_git_files(list_git_files(project, find_git_tree(project, "main")))
    }
    assert files["hidden.txt"].content == b"x"
    assert files["part/size.txt"].content == b"10"
    assert (files["run.sh"].mode, files["link"].mode) == ("100755", "120000")


def test_base_of_a_project_in_a_subfolder_has_its_own_files_only(tmp_path):
    (tmp_path / "infra/sub").mkdir(parents=True)
    (tmp_path / "other").write_text("x")
    (tmp_path / "infra/sub/a b").write_text("content")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    files = read_git_files(list_git_files(tmp_path / "infra", find_git_tree(tmp_path / "infra", "main")))
    assert [(file.path, file.content) for file in files] == [("sub/a b", b"content")]


@pytest.mark.parametrize("option", ["--policy", "--commitments", "--usage"])
def test_committed_link_in_place_of_a_gate_file_is_one_line(project, option):
    from click.testing import CliRunner

    from gpufleet.cli.cost import cost_command

    commit(project)
    (project / "loop").symlink_to("loop")
    git(project, "add", "-A")
    arguments = [
        "diff",
        "-s",
        "dev",
        "--base",
        "main",
        "--project",
        str(project),
        option,
        str(project / "loop"),
    ]
    result = CliRunner().invoke(cost_command, arguments)
    assert isinstance(result.exception, InputError), result.output
    assert "symbolic link" in str(result.exception)


def test_own_gate_file_of_an_estimate_is_not_read_through_a_link(project, tmp_path):
    from gpufleet.cost.inputs.gate_file import GateFileReader

    private = tmp_path / "private.yaml"
    private.write_text("password: x\n")
    (project / "commitments.yaml").symlink_to(private)
    commit(project)
    with pytest.raises(InputError, match="symbolic link"):
        GateFileReader(project, None).read(project / "commitments.yaml")


def test_stack_file_outside_of_the_project_is_that_of_the_base(tmp_path):
    infra, envs = tmp_path / "infra", tmp_path / "envs"
    infra.mkdir()
    envs.mkdir()
    (infra / "Pulumi.yaml").write_text("name: demo\nruntime: python\nstackConfigDir: ../envs\n")
    (infra / "__main__.py").write_text(MACHINE.replace('get("machine")', 'require_secret("machine")'))
    (envs / "Pulumi.dev.yaml").write_text("config:\n  demo:machine: {secure: AAAA}\n")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    assert compare(infra).unknown_changes == ()
    (envs / "Pulumi.dev.yaml").write_text("config:\n  demo:machine: {secure: BBBB}\n")
    assert [each.causes for each in compare(infra).unknown_changes] == [("Pulumi.dev.yaml",)]
    (infra / "__main__.py").write_text(MACHINE)
    (envs / "Pulumi.dev.yaml").write_text(CONFIG.format(machine=SMALL))
    commit(tmp_path)
    (envs / "Pulumi.dev.yaml").write_text(CONFIG.format(machine=LARGE))
    assert compare(infra).change_usd_per_month > 10_000


@pytest.mark.parametrize(
    ("files", "moved"),
    [
        ({"Pulumi.dev.yaml": '"env\\x69ronment": [big]\n' + CONFIG.format(machine=SMALL)}, ""),
        (
            {"conf/Pulumi.dev.yaml": "environment: [big]\n" + CONFIG.format(machine=SMALL)},
            "stackConfigDir: conf",
        ),
        ({"conf/Pulumi.dev.yaml": "environment: [big]\n" + CONFIG.format(machine=SMALL)}, "config: conf"),
    ],
)
def test_environment_is_found_however_it_is_spelt_and_wherever_the_file_is(project, files, moved):
    commit(project)
    (project / "Pulumi.yaml").write_text(f"name: demo\nruntime: python\n{moved}\n")
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    git(project, "add", "-A")
    assert [str(each)[:12] for each in compare(project).unknown_changes] == ["environment:"]


def test_policy_behind_a_committed_link_of_a_folder_is_refused(project):
    from gpufleet.cost.inputs.gate_file import GateFileReader

    (project / "ci").mkdir()
    (project / "ci/policy.yaml").write_text("max_increase_usd_per_month: 1\n")
    (project / "cost").symlink_to("ci")
    commit(project)
    with pytest.raises(InputError, match="symbolic link"):
        GateFileReader(project, "main").read_limits(project / "cost/policy.yaml")


def test_changed_submodule_cannot_be_hidden_by_its_own_settings(project, tmp_path):
    part = tmp_path / "part"
    part.mkdir()
    git(part, "init", "-q", "-b", "main")
    (part / "size.txt").write_text("1")
    commit(part)
    git(project, "submodule", "add", "-q", str(part), "part")
    git(project, "config", "-f", ".gitmodules", "submodule.part.ignore", "all")
    commit(project)
    (project / "part/size.txt").write_text("2")
    git(project / "part", "commit", "-qam", "2")
    assert "part" in list_changed_files(project, "main")


def test_code_and_documentation_do_not_make_an_unchanged_resource_an_unknown_change(project):
    (project / "__main__.py").write_text(
        "import pulumi, pulumi_aws as aws\n"
        'code = pulumi.FileArchive(".")\n'
        'aws.lambda_.Function("f", role="r", code=code, handler="a.b", runtime="python3.12", tags={"Name": "docs"})\n'
    )
    (project / "docs").mkdir()
    (project / "docs/page.txt").write_text("a")
    commit(project)
    (project / "docs/page.txt").write_text("b")
    assert compare(project).unknown_changes == ()
