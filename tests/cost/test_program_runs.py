"""Test how often a program is run when it fails, and that its evaluation needs no git and survives circular links."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program import cache_key, graph_cache
from gpufleet.cost.inputs.program.cache_key import Installation, make_cache_key
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

PROGRAM = "import pulumi\npulumi.ComponentResource('t:m:C', 'c', {'size': 'small'})\n"
# Without these namespaces a program can read anything, and its graph is not kept.
UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) != 0)"
CAN_CONFINE = sys.platform == "linux" and not subprocess.call([sys.executable, "-c", UNSHARE])
confined = pytest.mark.skipif(not CAN_CONFINE, reason="this kernel allows no namespaces")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Switch the cache on, in a folder of the test's own."""
    monkeypatch.delenv("GPUFLEET_PROGRAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/gpufleet/programs"


def git(root, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "-C", str(root), *author, *arguments], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path):
    """Make a project in a folder without a repository."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "Pulumi.yaml").write_text("name: runs\nruntime: python\n")
    (root / "Pulumi.dev.yaml").write_text("config: {}\n")
    (root / "__main__.py").write_text(PROGRAM)
    return root


def commit(root):
    git(root, "init", "-q")
    git(root, "add", "-f", ".")
    git(root, "commit", "-qm", "first")


def evaluate_names(root, **options):
    return [resource.name for resource in cost.evaluate_program(root, "dev", **options)]


def make_key(root):
    return make_cache_key(StackProgram(root, "dev"), Installation(None, dict(os.environ)))


def test_program_outside_of_a_repository_is_evaluated_without_git(root, monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert shutil.which("git") is None
    assert evaluate_names(root) == ["c"]


@confined
def test_program_of_a_repository_is_not_evaluated_if_git_cannot_list_its_files(root, monkeypatch, tmp_path):
    commit(root)
    (root / ".git/index").write_bytes(b"damaged")
    with pytest.raises(EnvironmentFault, match=r"git ls-files failed in .*index"):
        evaluate_names(root)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(EnvironmentFault, match="git is not installed"):
        evaluate_names(root)


def test_program_is_evaluated_if_git_takes_too_long(root, monkeypatch):
    commit(root)

    def time_out(*_):
        raise EnvironmentFault("git status did not answer within 60 s")

    monkeypatch.setattr(cache_key, "run_git", time_out)
    assert make_key(root) is None
    assert evaluate_names(root) == ["c"]


@pytest.mark.parametrize("name", ["loop", ".env"])
def test_committed_circular_link_is_no_obstacle(root, name):
    (root / name).symlink_to(name)
    commit(root)
    assert make_key(root)
    assert evaluate_names(root) == ["c"]


def test_ignored_circular_link_is_no_obstacle(root):
    (root / ".gitignore").write_text("*.ignored\n")
    commit(root)
    (root / "loop.ignored").symlink_to("loop.ignored")
    assert make_key(root)
    assert evaluate_names(root) == ["c"]


def test_circular_link_as_stack_file_is_one_error(root):
    (root / "own.yaml").symlink_to("own.yaml")
    with pytest.raises(GpufleetError, match=r"own\.yaml"):
        evaluate_names(root, config_file=root / "own.yaml")


def test_link_outside_of_the_repository_has_no_key(root):
    (root / "outside").symlink_to("../other")
    commit(root)
    assert make_key(root) is None


def test_failing_trusted_program_is_run_once(root, tmp_path):
    effects = tmp_path / "effects"
    (root / "__main__.py").write_text(
        f"with open({str(effects)!r}, 'a') as file:\n    print('one', file=file)\nraise RuntimeError('broken')\n"
    )
    with pytest.raises(InputError, match="broken"):
        evaluate_names(root, trusted=True)
    assert effects.read_text() == "one\n"


@confined
def test_failing_confined_program_reports_its_second_run_once(root):
    (root / "__main__.py").write_text(
        "from pathlib import Path\n"
        "file = Path.home() / 'count'\n"
        "count = int(file.read_text()) + 1 if file.exists() else 1\n"
        "file.write_text(str(count))\n"
        "print(f'printed {count}')\n"
        "raise RuntimeError(f'failed in run {count}')\n"
    )
    command = [sys.executable, "-m", "gpufleet", "cost", "estimate", "-s", "dev"]
    completed = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert completed.stderr == (
        "error: __main__.py:6: the Pulumi program failed: RuntimeError: failed in run 2;"
        " if `pulumi preview` succeeds, docs/cost.md says what a confined program cannot do\n"
    )


@pytest.mark.parametrize("word", ["off", "OFF", "0", "false", "False", "no", " off "])
def test_word_switches_the_cache_off(monkeypatch, word):
    monkeypatch.setenv("GPUFLEET_PROGRAM_CACHE", word)
    assert not graph_cache.is_enabled()


@pytest.mark.parametrize("word", ["", "on", "ON", "1", "true", "yes"])
def test_word_leaves_the_cache_on(monkeypatch, word):
    monkeypatch.setenv("GPUFLEET_PROGRAM_CACHE", word)
    assert graph_cache.is_enabled()


@pytest.mark.parametrize("word", ["never", "2", "off\nx", "x" * 5000])
def test_unknown_word_is_one_error_line(monkeypatch, word):
    monkeypatch.setenv("GPUFLEET_PROGRAM_CACHE", word)
    with pytest.raises(InputError, match="is not a switch") as caught:
        graph_cache.is_enabled()
    message = str(caught.value)
    assert message.startswith("GPUFLEET_PROGRAM_CACHE: ")
    assert message.endswith("use off, 0, false, no or on, 1, true, yes")
    assert message.isprintable()
    assert len(message) < 200
