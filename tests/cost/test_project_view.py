"""Test what a confined program sees of its project, and which Python evaluates it: nothing that a branch chooses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program import allowlist, project_view
from gpufleet.cost.inputs.program.evaluation import start_git_ref_comparison
from gpufleet.cost.inputs.program.gitref import LINK_MODE, GitFile
from gpufleet.cost.inputs.program.project_view import copy_files, list_visible_files, write_git_files
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.cost.inputs.program.virtual_environment import choose_python
from gpufleet.cost.inputs.project_list import load_project_list
from gpufleet.errors import InputError

CANARY = "canary-77d2"
ROOT = Path(__file__).resolve().parents[2]
SDK = {
    "pulumi", "grpc", "grpcio", "google", "protobuf", "yaml", "_yaml", "dill", "semver", "debugpy", "six", "pip",
    "packaging", "opentelemetry", "importlib_metadata", "zipp", "typing_extensions.py",
}  # fmt: skip
UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) != 0)"
CAN_CONFINE = sys.platform == "linux" and not subprocess.call([sys.executable, "-c", UNSHARE])
pytestmark = pytest.mark.skipif(not CAN_CONFINE, reason="this kernel allows no namespaces")
# Lists every file that the program can see, with its text, and what it is run by.
LISTING = """
import os, sys, pulumi
from pathlib import Path
top = Path(__file__).resolve().parents[{above}]
seen = {{}}
for place, folders, files in os.walk(top):
    for name in files:
        path = Path(place, name)
        text = os.readlink(path) if path.is_symlink() else path.read_text(errors="replace")
        seen[str(path.relative_to(top))] = text[:100]
pulumi.ComponentResource("t:m:C", "c", {{"seen": seen, "python": sys.executable, "prefix": sys.prefix}})
"""


def git(root, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "protocol.file.allow=always"]
    return subprocess.run(
        ["git", "-C", str(root), *author, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(root, text="next"):
    git(root, "add", "-Af", ":!other")
    git(root, "commit", "-qm", text)


@pytest.fixture
def repository(tmp_path):
    """Make a repository with a project in a folder, whose program lists what it can see of the repository."""
    root = tmp_path / "repository/infra"
    root.mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: viewed\nruntime: python\n")
    (root / "Pulumi.dev.yaml").write_text("config: {}\n")
    (root / "__main__.py").write_text(LISTING.format(above=1))
    (root.parent / "shared.txt").write_text("shared")
    git(root.parent, "init", "-q")
    commit(root.parent, "first")
    return root.parent


def look(root, **options):
    """Return the files that the program of a project sees."""
    (resource,) = cost.evaluate_program(root, "dev", **options)
    return resource.inputs["seen"]


def compare(root, base="HEAD", **options):
    with start_git_ref_comparison(root, "dev", base, **options) as run:
        return [resources[0].inputs if resources else None for resources in run()]


OWN = {"infra/Pulumi.yaml", "infra/Pulumi.dev.yaml", "infra/__main__.py", "shared.txt"}


def test_only_tracked_files_are_seen_as_they_are_in_the_working_tree(repository):
    for name in (
        "other/.env",
        "infra/ignored.txt",
        "infra/sub/new.txt",
        ".env",
        "infra/.pulumi/x",
        ".gpufleet/r.db",
    ):
        (repository / name).parent.mkdir(exist_ok=True, parents=True)
        (repository / name).write_text(CANARY)
    (repository / ".gitignore").write_text("ignored.txt\n")
    (repository / "shared.txt").write_text("changed, not committed")
    (repository / "removed.txt").touch()
    (repository / "staged.txt").write_text("staged")
    (repository / "intended.txt").write_text("intended")
    git(repository, "add", "staged.txt", "removed.txt")
    git(repository, "add", "-N", "intended.txt")
    (repository / "removed.txt").unlink()
    seen = look(repository / "infra")
    assert CANARY not in str(seen)
    assert set(seen) == OWN | {"staged.txt", "intended.txt"}
    assert seen["shared.txt"] == "changed, not committed"


def test_tracked_credentials_and_git_are_left_out_of_both_sides(repository):
    for name in allowlist.SECRET_PATHS:
        for place in (repository, repository / "infra"):
            if name != ".git":
                (place / name).parent.mkdir(exist_ok=True, parents=True)
                (place / name).write_text(CANARY)
    commit(repository)
    assert set(look(repository / "infra")) == OWN
    (repository / "infra/__main__.py").write_text(LISTING.format(above=0))
    commit(repository)
    for side in compare(repository / "infra"):
        assert set(side["seen"]) == {"Pulumi.yaml", "Pulumi.dev.yaml", "__main__.py"}


def test_both_sides_of_a_comparison_see_the_same_files(repository):
    (repository / "infra/__main__.py").write_text(LISTING.format(above=0))
    (repository / "infra/link").symlink_to("Pulumi.dev.yaml")
    (repository / "infra/outside").symlink_to("../shared.txt")
    (repository / "infra/tool.sh").write_text("#!/bin/sh\n")
    (repository / "infra/tool.sh").chmod(0o755)
    commit(repository)
    (repository / "infra/untracked.txt").write_text(CANARY)
    before, after = compare(repository / "infra")
    assert before["seen"] == after["seen"]
    assert before["seen"]["link"] == "Pulumi.dev.yaml"


def test_large_file_is_shown_in_its_place(repository, monkeypatch):
    monkeypatch.setattr(project_view, "COPIED_BYTES", 10)
    (repository / "data").mkdir()
    (repository / "data/large.bin").write_text("x" * 50)
    (repository / "data/ignored.bin").write_text(CANARY * 10)
    git(repository, "add", "data/large.bin")
    seen = look(repository / "infra")
    assert seen["data/large.bin"] == "x" * 50
    assert set(seen) == OWN | {"data/large.bin"}


def test_link_that_replaces_a_large_file_is_not_followed(repository, tmp_path, monkeypatch):
    """The link appears between the copy and the mount: the evaluation ends."""
    monkeypatch.setattr(project_view, "COPIED_BYTES", 10)
    (repository / "large.bin").write_text("x" * 50)
    commit(repository)
    (tmp_path / "secret").write_text(CANARY)
    real = copy_files

    def copy_then_link(*arguments):
        view = real(*arguments)
        (repository / "large.bin").unlink()
        (repository / "large.bin").symlink_to(tmp_path / "secret")
        return view

    monkeypatch.setattr("gpufleet.cost.inputs.program.evaluation.copy_files", copy_then_link)
    with pytest.raises(Exception, match="its confinement failed: show the project's files") as caught:
        look(repository / "infra")
    assert caught.value.exit_code == 3


def test_submodule_is_seen_by_what_it_tracks(repository, tmp_path):
    module = tmp_path / "module"
    module.mkdir()
    (module / "code.py").write_text("a = 1\n")
    git(module, "init", "-q")
    commit(module)
    git(repository, "submodule", "-q", "add", str(module), "module")
    commit(repository)
    (repository / "module/.env").write_text(CANARY)
    (repository / "module/untracked").write_text(CANARY)
    assert set(look(repository / "infra")) == OWN | {".gitmodules", "module/code.py"}
    git(repository, "submodule", "-q", "deinit", "-f", "module")
    assert set(look(repository / "infra")) == OWN | {".gitmodules"}


def test_git_worktree_and_sparse_checkout_are_seen(repository, tmp_path):
    worktree = tmp_path / "worktree"
    git(repository, "worktree", "add", "-q", str(worktree))
    (worktree / "untracked").write_text(CANARY)
    assert set(look(worktree / "infra")) == OWN
    git(worktree, "sparse-checkout", "set", "--no-cone", "/infra/*")
    assert set(look(worktree / "infra")) == OWN - {"shared.txt"}


def test_untracked_module_gets_one_line_that_says_git_add(repository):
    root = repository / "infra"
    (root / "__main__.py").write_text("import parts.new_part\n")
    (root / "parts").mkdir()
    (root / "parts/__init__.py").touch()
    (root / "parts/new_part.py").touch()
    git(repository, "add", "infra/parts/__init__.py")
    with pytest.raises(InputError, match=r"No module named 'parts\.new_part'") as caught:
        look(root)
    assert "git does not track parts/new_part.py" in str(caught.value)
    assert "git add" in str(caught.value)
    git(repository, "add", "infra/parts")
    (root / "Pulumi.dev.yaml").rename(root / "Pulumi.test.yaml")
    (root / "Pulumi.other.yaml").touch()
    git(repository, "add", "infra/Pulumi.other.yaml")
    assert cost.evaluate_program(root, "test") == ()  # the user named the stack
    (repository / "infra/.env").touch()
    (root / "Pulumi.other.yaml").write_text("config: {}\n")
    (root / "__main__.py").write_text("open('.env')\n")
    with pytest.raises(InputError, match="FileNotFoundError") as caught:
        cost.evaluate_program(root, "other")
    assert "git add" not in str(caught.value)  # never a file of credentials
    (repository / "infra/.env").rename(root / "parts/.env")
    git(repository, "rm", "-rqf", "--cached", "infra/parts")
    (root / "__main__.py").write_text("import parts\n")
    with pytest.raises(InputError, match="No module named 'parts'") as caught:
        cost.evaluate_program(root, "other")
    assert "git add" not in str(caught.value)  # nor a folder that holds one
    (root / "parts/.env").unlink()
    with pytest.raises(InputError, match="git does not track parts"):
        cost.evaluate_program(root, "other")


def test_named_stack_file_is_seen_but_not_through_a_link_of_the_branch(repository, tmp_path):
    root = repository / "infra"
    (root / "own.yaml").write_text("config: {}\n")
    assert set(look(root, config_file=root / "own.yaml")) == OWN | {"infra/own.yaml"}
    (tmp_path / "secret.yaml").write_text(f"config: {{'viewed:x': {CANARY}}}\n")
    (root / "own.yaml").unlink()
    (root / "own.yaml").symlink_to(tmp_path / "secret.yaml")
    git(repository, "add", "infra/own.yaml")
    with pytest.raises(InputError, match=r"own\.yaml: is a symbolic link"):
        look(root, config_file=root / "own.yaml")
    (root / "folder").symlink_to(tmp_path)
    git(repository, "add", "infra/folder")
    with pytest.raises(InputError, match=r"folder: is a symbolic link"):
        look(root, config_file=root / "folder/secret.yaml")
    outside = tmp_path / "outside"
    outside.symlink_to(tmp_path / "secret.yaml")  # the user's own link
    (root / "folder").unlink()
    look(root, config_file=outside)


@pytest.mark.parametrize("name", ["Pulumi.yaml", "Pulumi.dev.yaml", "__main__.py", "app"])
@pytest.mark.parametrize("base", ["HEAD", None])
def test_link_out_of_the_project_is_named(repository, tmp_path, name, base):
    root = repository / "infra"
    if name == "app":
        (root / "Pulumi.yaml").write_text("name: viewed\nruntime: python\nmain: app\n")
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(tmp_path / "elsewhere")
    git(repository, "add", "-A")
    message = (
        rf"{name}: is a symbolic link, and links are not followed out of the project's files; put the file"
    )
    with pytest.raises(InputError, match=message):
        compare(root, base) if base else cost.evaluate_program(root, "dev")
    (root / name).unlink()
    (root / name).symlink_to(tmp_path / "elsewhere/..")  # also if there is something on this machine
    with pytest.raises(InputError, match=message):
        compare(root, base) if base else cost.evaluate_program(root, "dev")


@pytest.mark.parametrize("key", ["config_file", "usage", "policy"])
def test_list_that_git_tracks_names_only_files_that_git_tracks(repository, key):
    file = repository / "gpufleet-cost.yaml"
    entry = (
        "{path: infra, stack: dev}" if key == "policy" else f"{{path: infra, stack: dev, {key}: other/.env}}"
    )
    top = "policy: other/.env\n" if key == "policy" else ""
    file.write_text(f"{top}projects:\n  - {entry}\n")
    (repository / "other").mkdir()
    (repository / "other/.env").write_text(CANARY)
    assert load_project_list(file).projects  # the user's own list
    git(repository, "add", file.name)
    with pytest.raises(InputError, match=r"other/\.env.* git does not track") as caught:
        load_project_list(file)
    assert CANARY not in str(caught.value)
    git(repository, "add", "-f", "other/.env")
    assert load_project_list(file).projects


def test_project_in_a_home_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "Pulumi.yaml").write_text("name: h\nruntime: python\n")
    monkeypatch.setenv("HOME", str(tmp_path / "a"))
    for home in (tmp_path, tmp_path / "a"):
        monkeypatch.setenv("HOME", str(home))
        with pytest.raises(InputError, match="the project is a home folder"):
            cost.evaluate_program(tmp_path, "dev")


def test_bytecode_of_changed_or_untracked_sources_is_not_copied(repository, tmp_path):
    tag = sys.implementation.cache_tag
    for name in ("a", "b", "secret"):
        (repository / f"{name}.py").write_text(f"A = {CANARY!r}\n" if name == "secret" else "A = 1\n")
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(repository)], check=True)
    (repository / "b.py").write_text("A = 3333\n")
    git(repository, "add", "a.py", "b.py")
    view = tmp_path / "view"
    view.mkdir()
    copy_files(repository, list_visible_files(repository), view)
    assert [path.name for path in view.glob("__pycache__/*")] == [f"a.{tag}.pyc"]
    assert not any(CANARY.encode() in path.read_bytes() for path in view.rglob("*") if path.is_file())


def test_files_of_a_commit_cannot_be_written_outside_or_through_a_link(tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.mkdir()
    folder.mkdir()
    files = [
        GitFile("link", LINK_MODE, str(victim).encode()),
        *(GitFile(name, "100644", b"x") for name in ("a/../../victim/x", "/etc/x", "link/x")),
    ]
    write_git_files(files, folder)
    assert list(victim.iterdir()) == []
    assert (folder / "link/x").read_bytes() == b"x"
    assert not (folder / "link").is_symlink()


@pytest.fixture
def make_environment():
    """Make a virtual environment whose Python prints a forged result instead of running anything."""

    def make(folder, marker=True, python="#!/bin/sh\necho forged\n"):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").write_text(python)
        (folder / "bin/python").chmod(0o755)
        if marker:
            (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
        return folder / "bin/python"

    return make


def set_virtualenv(root, name):
    (root / "Pulumi.yaml").write_text(
        f"name: v\nruntime: {{name: python, options: {{virtualenv: {name}}}}}\n"
    )


def choose(root, base=None, **variables):
    program = StackProgram(root, "dev")
    return choose_python(
        base and StackProgram(root, "dev", label=f"at {base}", tree=tree_of(root, base)), program, variables
    )


def tree_of(root, ref):
    return git(root, "rev-parse", f"{ref}:./")


def test_working_tree_may_name_only_an_untracked_environment_of_its_own(
    repository, tmp_path, make_environment, monkeypatch, caplog
):
    root = repository / "infra"
    assert choose(root) is None
    own = make_environment(root / "own")
    outside = make_environment(tmp_path / "outside")
    make_environment(root / "no-marker", marker=False)
    home = make_environment(tmp_path / "home").parents[1]
    (root / "to-home").symlink_to(home)
    (root / "dangling").symlink_to("nowhere")
    (root / "empty-submodule").mkdir()
    monkeypatch.setenv("HOME", str(home / "me"))
    for name, python, reason in (
        ("own", own, None),
        ("no-marker", None, "has no pyvenv.cfg"),
        ("../../outside", None, "outside of the project"),
        (str(tmp_path / "outside"), None, "outside of the project"),
        (str(home), None, "is a home folder"),
        ("to-home", None, "is a home folder"),
        ("missing", None, "virtualenv missing is not used: it has no bin/python"),
        ("dangling", None, "has no bin/python"),
        ("empty-submodule", None, "has no bin/python"),
        ("..", None, "has no bin/python"),
        ("/", None, "virtualenv / is not used: it has no "),
        ("/usr", None, "virtualenv /usr is not used: it has no "),
    ):
        caplog.clear()
        set_virtualenv(root, name)
        assert choose(root) == python, name
        assert len(caplog.records) == bool(reason)
        assert (reason or "") in caplog.text
    set_virtualenv(root, "../../outside")
    assert choose(root, VIRTUAL_ENV=str(tmp_path / "outside")) == outside


@pytest.mark.parametrize("way", ["files", "link", "submodule", "inside a submodule", "link above"])
def test_environment_that_git_tracks_in_any_way_evaluates_nothing(
    repository, tmp_path, make_environment, caplog, way
):
    """The base names the environment; the branch commits one in its place that would forge both results."""
    root = repository / "infra"
    name = "above/env" if way in {"inside a submodule", "link above"} else "env"
    set_virtualenv(root, name)
    commit(repository)
    elsewhere = tmp_path / "elsewhere"
    if way == "files":
        make_environment(root / "env")
    elif way == "link":
        make_environment(elsewhere)
        (root / "env").symlink_to(elsewhere)
    elif way == "link above":
        make_environment(elsewhere / "env")
        (root / "above").symlink_to(elsewhere)
    else:
        make_environment(elsewhere / ("env" if "inside" in way else ""))
        git(elsewhere, "init", "-q")
        commit(elsewhere)
        git(repository, "submodule", "-q", "add", str(elsewhere), f"infra/{name.split('/', maxsplit=1)[0]}")
    commit(repository, "forge")
    for base in ("HEAD~1", "HEAD", None):
        assert choose(root, base) is None, base
        assert "git tracks it" in caplog.text
    before, after = compare(root, "HEAD~1")
    assert before["python"] == after["python"] != str(root / name / "bin/python")


def test_base_names_the_environment_of_both_sides(repository, make_environment, caplog):
    root = repository / "infra"
    (repository / ".gitignore").write_text("env-*/\n")
    pythons = {name: make_environment(root / name) for name in ("env-base", "env-head")}
    set_virtualenv(root, "env-base")
    git(repository, "add", "infra/Pulumi.yaml", ".gitignore")
    git(repository, "commit", "-qm", "base")
    set_virtualenv(root, "env-head")
    assert choose(root, "HEAD") == pythons["env-base"]
    assert (
        "the working tree sets virtualenv to env-head; at HEAD sets it to env-base, and that evaluates both"
        in caplog.text
    )
    assert choose(root) == pythons["env-head"]


def test_only_the_parts_of_an_environment_are_shown(repository):
    root = repository / "infra"
    environment = root / "env"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(environment)], check=True
    )
    packages = next(environment.glob("lib/python3*/site-packages"))
    (environment / ".env").write_text(CANARY)
    (environment / "etc").mkdir()
    (environment / "etc/secret").write_text(CANARY)
    for link in ("bin/leak", "lib/leak"):
        (environment / link).symlink_to(environment / "etc/secret")
    installed = next(path for path in sys.path if path.endswith("-packages"))
    for entry in Path(installed).iterdir():  # the SDK, as an environment of its own has it
        if entry.name.split("-")[0] in SDK:
            subprocess.run(["cp", "-r", str(entry), str(packages / entry.name)], check=True)
    set_virtualenv(root, "env")
    (root / "__main__.py").write_text(
        "import os, sys, pulumi\n"
        "pulumi.ComponentResource('t:m:C', 'c', {'prefix': sys.prefix, 'entries': sorted(os.listdir(sys.prefix)),\n"
        " 'leak': [os.path.exists(sys.prefix + n) for n in ('/bin/leak', '/lib/leak', '/etc', '/.env')]})\n"
    )
    (resource,) = cost.evaluate_program(root, "dev")
    assert resource.inputs["prefix"] == str(environment)
    assert set(resource.inputs["entries"]) <= {"bin", "lib", "lib64", "pyvenv.cfg"}
    assert resource.inputs["leak"] == [False] * 4


def test_environment_of_this_python_is_shown_by_its_parts(tmp_path):
    visible = allowlist.list_visible_paths(None, tmp_path)
    if (Path(sys.prefix) / "pyvenv.cfg").is_file():
        assert Path(os.path.realpath(sys.prefix)) not in visible
        places = {Path(os.path.realpath(sys.prefix), "pyvenv.cfg"), ROOT}  # pytest may have ROOT on its path
        assert places & set(visible)


@pytest.mark.parametrize("installed", [".", "..", "other"])
def test_editable_package_of_the_repository_is_seen_by_what_git_tracks(repository, monkeypatch, installed):
    """Its folder is on the path of this Python; each side sees its commit of it, and no other files."""
    (repository / "other").mkdir()
    for name in ("other/.env", "untracked.txt"):
        (repository / name).write_text(CANARY)
    (repository / "other/package.py").write_text("A = 1\n")
    git(repository, "add", "other/package.py")
    git(repository, "commit", "-qm", "package")
    monkeypatch.setattr(sys, "path", [*sys.path, str((repository / installed).resolve())])
    assert set(look(repository / "infra")) == OWN | {"other/package.py"}
    text = (
        f"from pathlib import Path\nTOP = Path({str(repository)!r})\n"
        "import os, pulumi\n"
        "seen = sorted(str(Path(p, f).relative_to(TOP)) for p, _, fs in os.walk(TOP) for f in fs)\n"
        "writable = [os.access(place, os.W_OK) for place in (TOP, TOP / 'infra')]\n"
        "pulumi.ComponentResource('t:m:C', 'c', {'seen': seen, 'writable': writable})\n"
    )
    (repository / "infra/__main__.py").write_text(text)
    git(repository, "commit", "-qam", "looks at the checkout")
    before, after = compare(repository / "infra")
    tracked = sorted(OWN | {"other/package.py"})
    assert before == after == {"seen": tracked, "writable": [False, False]}


def test_untracked_file_of_the_named_stack_is_seen_but_nowhere_else(repository, tmp_path):
    root = repository / "infra"
    for place in (root / "settings", tmp_path / "outside"):
        place.mkdir()
        (place / "Pulumi.own.yaml").write_text(f"config: {{'viewed:x': {CANARY}}}\n")
    for folder, is_seen in (("settings", True), ("../../outside", False), (str(tmp_path / "outside"), False)):
        (root / "Pulumi.yaml").write_text(f"name: viewed\nruntime: python\nstackConfigDir: {folder}\n")
        (root / "__main__.py").write_text(
            "import pulumi\npulumi.ComponentResource('t:m:C', 'c', {'x': pulumi.Config().get('x')})\n"
        )
        (resource,) = cost.evaluate_program(root, "own")
        assert resource.inputs.get("x") == (CANARY if is_seen else None)
