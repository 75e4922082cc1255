"""Test projects whose code or environment is outside of their folder, at both git refs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program.allowlist import list_parts_without_secrets
from gpufleet.cost.inputs.program.evaluation import start_git_ref_comparison
from gpufleet.engine import UnreadableValue
from gpufleet.errors import InputError

CANARY, PROJECT = "canary-31b9", "gpu-infra"
UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) != 0)"
CAN_CONFINE = sys.platform == "linux" and not subprocess.call([sys.executable, "-c", UNSHARE])
pytestmark = pytest.mark.skipif(not CAN_CONFINE, reason="this kernel allows no namespaces")
LIBRARY = "SIZE = {size!r}\n"
PROGRAM = """
import sys, pulumi
from pathlib import Path
{path}
from acme_infra import SIZE
pulumi.ComponentResource("t:m:C", "c", {{"size": SIZE, "file": __file__, "prefix": sys.prefix}})
"""
INSERT = 'sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))'


def git(root, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "-C", str(root), *author, *arguments], check=True, capture_output=True)


def write_library(folder, size):
    (folder / "acme_infra").mkdir(parents=True, exist_ok=True)
    (folder / "acme_infra/__init__.py").write_text(LIBRARY.format(size=size))


@pytest.fixture
def monorepo(tmp_path):
    """Make a repository with shared code in src/ and a project in infra/gpu; HEAD has another size than HEAD~1."""

    def make(path="", runtime="python"):
        root = tmp_path / "mono"
        project = root / "infra/gpu"
        project.mkdir(parents=True)
        (project / "Pulumi.yaml").write_text(f"name: gpu\nruntime: {runtime}\n")
        (project / "Pulumi.dev.yaml").write_text("config: {}\n")
        (project / "__main__.py").write_text(PROGRAM.format(path=path))
        (root / ".gitignore").write_text(".venv\n")
        git(tmp_path, "init", "-q", str(root))
        (project / "pyproject.toml").write_text(f'[project]\nname = "{PROJECT}"\n')
        for size in ("small", "large"):
            write_library(root / "src", size)
            git(root, "add", "-A")
            git(root, "commit", "-qm", size)
        return project

    return make


def make_environment(folder, editable=(), link_to=None):
    """Make a virtual environment that imports this Python's packages through links, and ``editable`` folders."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    installed = Path(next(path for path in sys.path if path.endswith("-packages")))
    for entry in installed.iterdir():
        if not entry.name.endswith(".pth") and "gpufleet" not in entry.name and entry.name != "__pycache__":
            (packages / entry.name).symlink_to(entry)
    (packages / "editable.pth").write_text("".join(f"{path}\n" for path in editable))
    if link_to:
        (packages / "leak").symlink_to(link_to)
    return folder


def compare(project, **options):
    with start_git_ref_comparison(project, "dev", "HEAD~1", **options) as run:
        return [resources[0].inputs for resources in run()]


def get_sizes(sides):
    return [side["size"] for side in sides]


def test_each_side_imports_its_own_commit_of_code_outside_the_project(monorepo):
    before, after = compare(monorepo(INSERT))
    assert (before["size"], after["size"]) == ("small", "large")
    assert before["file"] == after["file"]  # an absolute path is no change


@pytest.mark.parametrize("runtime", ["../../.venv", "link", "toolchain"])
def test_environment_at_the_top_behind_a_link_or_of_a_workspace(monorepo, tmp_path, runtime):
    names = {
        "../../.venv": "{virtualenv: ../../.venv}",
        "link": "{virtualenv: .venv}",
        "toolchain": "{toolchain: uv}",
    }
    project = monorepo(runtime=f"{{name: python, options: {names[runtime]}}}")
    top = project.parents[1]
    place = tmp_path / "elsewhere" if runtime == "link" else top / ".venv"
    make_environment(place, editable=[top / "src"])
    if runtime == "link":
        (project / ".venv").symlink_to(place)
    (top / "uv.lock").write_text("version = 1\n")
    before, after = compare(project)
    assert get_sizes([before, after]) == ["small", "large"]
    assert {before["prefix"], after["prefix"]} == {str(place)}
    (resource,) = cost.evaluate_program(project, "dev")
    assert resource.inputs["size"] == "large"


def test_editable_install_of_another_repository_is_seen_without_its_credentials(monorepo, tmp_path):
    library = tmp_path / "library"
    write_library(library, "other")
    (library / ".env").write_text(CANARY)
    (library / "acme_infra/.aws").mkdir()
    (library / "acme_infra/.aws/credentials").write_text(CANARY)
    secret = tmp_path / ".ssh"
    secret.mkdir()
    (secret / "id").write_text(CANARY)
    project = monorepo(
        f"import os; SEEN = [n for _, fs, ns in os.walk({str(library)!r}) for n in (*fs, *ns)]",
        runtime="{name: python, options: {virtualenv: .venv}}",
    )
    program = (project / "__main__.py").read_text()
    program = program.replace('"file": __file__', f'"file": [SEEN, os.path.exists({str(secret / "id")!r})]')
    (project / "__main__.py").write_text(program)
    make_environment(project / ".venv", editable=[library], link_to=secret)
    (resource,) = cost.evaluate_program(project, "dev")
    assert resource.inputs["size"] == "other"
    seen, has_secret = resource.inputs["file"]
    assert {"acme_infra", "__init__.py"} <= set(seen) <= {"acme_infra", "__init__.py", "__pycache__"}
    assert not has_secret
    assert list_parts_without_secrets(library / "acme_infra") == [library / "acme_infra/__init__.py"]


def test_editable_install_is_that_of_the_commit_also_without_confinement(monorepo):
    project = monorepo(runtime="{name: python, options: {virtualenv: ../../.venv}}")
    top = project.parents[1]
    make_environment(top / ".venv", editable=[top / "src"])
    assert get_sizes(compare(project, trusted=True)) == ["small", "large"]


def test_active_environment_evaluates_a_project_that_names_none(monorepo, tmp_path, monkeypatch):
    project = monorepo()
    place = make_environment(tmp_path / "active", editable=[project.parents[1] / "src"])
    monkeypatch.setenv("VIRTUAL_ENV", str(place))
    before, after = compare(project)
    assert get_sizes([before, after]) == ["small", "large"]
    assert after["prefix"] == str(place)


def test_poetry_environment_is_found_by_the_folder_and_the_name(monorepo, tmp_path, monkeypatch):
    """The first name is what poetry 2.5.1 made for this folder."""
    from gpufleet.cost.inputs.program.virtual_environment import name_poetry_environment

    assert name_poetry_environment("Acme.Infra", Path("/tmp/p2/poetry/acme")) == "acme-infra-B4omLLAn"
    project = monorepo(runtime="{name: python, options: {toolchain: poetry}}")
    name = name_poetry_environment(PROJECT, project)
    cache = tmp_path / "cache"
    place = make_environment(cache / f"{name}-py3.11", editable=[project.parents[1] / "src"])
    monkeypatch.setenv("POETRY_VIRTUALENVS_PATH", str(cache))
    before, after = compare(project)
    assert get_sizes([before, after]) == ["small", "large"]
    assert after["prefix"] == str(place)


REFERENCE = """
import pulumi
reference = pulumi.StackReference("acme/net/dev")
pulumi.ComponentResource("t:m:C", "c", {
    "size": reference.get_output("size"), "own": pulumi.Config().get("size"),
    "other": pulumi.Config("other").get("size"),
})
"""


@pytest.fixture
def write_project(tmp_path):
    """Write a project without a repository, with a stack's file and other files."""

    def write(program, stack_file, files=()):
        texts = {
            "Pulumi.yaml": "name: web\nruntime: python\n",
            "Pulumi.dev.yaml": stack_file,
            "__main__.py": program,
        }
        for name, text in {**texts, **dict(files)}.items():
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_outputs_of_other_stacks_and_settings_of_other_projects_are_read(write_project):
    stack_file = "config: {'other:size': m5.large, 'web:size': t3.micro}\n"
    (unknown,) = cost.evaluate_program(write_project(REFERENCE, stack_file), "dev")
    assert unknown.inputs["size"] is UnreadableValue.UNKNOWN
    values = {"gpufleet-lookups.yaml": "stackReferences: {acme/net/dev: {size: m5.xlarge}}\n"}
    (known,) = cost.evaluate_program(write_project(REFERENCE, stack_file, values), "dev")
    assert known.inputs == {"size": "m5.xlarge", "own": "t3.micro", "other": "m5.large"}
    with pytest.raises(InputError, match="is not a mapping of stacks"):
        cost.evaluate_program(
            write_project(REFERENCE, stack_file, {"gpufleet-lookups.yaml": "stackReferences: [a]\n"}), "dev"
        )


def test_plain_values_of_an_inline_environment_are_settings(write_project):
    environment = (
        "environment: {imports: [acme/base], values: {pulumiConfig: {'web:size': a, 'other:size': '${x}'}}}\n"
    )
    (resource,) = cost.evaluate_program(write_project(REFERENCE, environment), "dev")
    assert (resource.inputs["own"], resource.inputs.get("other")) == ("a", None)


def test_missing_setting_of_an_environment_says_that_it_is_not_asked(write_project):
    program = "import pulumi\npulumi.Config().require('size')\n"
    with pytest.raises(InputError, match="Pulumi ESC is not asked here") as error:
        cost.evaluate_program(write_project(program, "environment: [acme/base]\n"), "dev")
    assert error.value.where == "Pulumi.dev.yaml:1"
    assert "--config-file" in error.value.remedy
    with pytest.raises(InputError, match="Missing required configuration variable"):
        cost.evaluate_program(write_project(program, "config: {}\n"), "dev")


def test_project_file_that_git_does_not_track_is_named(monorepo):
    project = monorepo(INSERT)
    git(project, "rm", "-q", "--cached", "Pulumi.yaml")
    with pytest.raises(InputError, match=r"not found; git does not track .*Pulumi\.yaml") as error:
        cost.evaluate_program(project, "dev")
    assert error.value.where == "Pulumi.yaml"
