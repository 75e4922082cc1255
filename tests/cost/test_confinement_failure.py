"""Test that nothing of a program runs where its confinement fails or is not to be had, whatever a branch commits."""

from __future__ import annotations

import errno
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from denied_calls import NUMBERS, run_where_denied
from gpufleet import cost
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.evaluation import start_program_evaluation
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.errors import EnvironmentFault, InputError

CANARY = "canary-51c7"
UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) != 0)"
CAN_CONFINE = sys.platform == "linux" and not subprocess.call([sys.executable, "-c", UNSHARE])
pytestmark = [
    pytest.mark.skipif(not CAN_CONFINE, reason="this kernel allows no namespaces"),
    pytest.mark.skipif(platform.machine() not in NUMBERS, reason="system calls of another machine"),
]
# Reads and writes what it must not, and says in its resource what it could.
ATTACK = """
import os, pulumi
from pathlib import Path
home, done = Path({home!r}), []
try:
    done.append((home / ".aws/credentials").read_text())
except OSError as error:
    done.append(type(error).__name__)
try:
    (home / "marker").write_text("written")
except OSError as error:
    done.append(type(error).__name__)
for process in ("self", os.getppid(), 1):
    try:
        done.append(Path(f"/proc/{{process}}/environ").read_bytes().replace(bytes(1), b" ").decode())
    except OSError as error:
        done.append(type(error).__name__)
Path({trace!r}).mkdir(exist_ok=True) if os.access(os.path.dirname({trace!r}), os.W_OK) else None
pulumi.ComponentResource("t:m:C", "c", {{"done": done}})
"""


def git(root, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "-C", str(root), *author, *arguments], check=True, capture_output=True)


@pytest.fixture
def home(monkeypatch, tmp_path):
    """Give a home folder with a key, and a CI job's token in the environment."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws/credentials").write_text(CANARY)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CI_JOB_TOKEN", CANARY)
    return home


@pytest.fixture
def root(tmp_path, home):
    """Make a repository with a program that attacks; ``trace`` next to it says that it has run unconfined."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "Pulumi.yaml").write_text("name: hostile\nruntime: python\n")
    (root / "Pulumi.dev.yaml").write_text("config: {}\n")
    (root / "__main__.py").write_text(ATTACK.format(home=str(home), trace=str(tmp_path / "trace")))
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def estimate(root, clean_env, home):
    """Run the command as typed, where the kernel refuses some system calls."""

    def run(*denied, options=()):
        arguments = ["-m", "gpufleet", "cost", "estimate", "-s", "dev", "--format", "json", *options]
        environment = clean_env | {"HOME": str(home), "CI_JOB_TOKEN": CANARY}
        return run_where_denied(denied, arguments, cwd=root, env=environment)

    return run


def assert_nothing_ran(tmp_path, home):
    assert not (tmp_path / "trace").exists()
    assert not (home / "marker").exists()


def evaluate_attack(root):
    (resource,) = cost.evaluate_program(root, "dev")
    return resource.inputs["done"]


# The kernel may refuse these without a loss: /proc then stays empty, or there were no privileges to drop. What it drops
# one by one is dropped as a whole as well.
HARMLESS = {"mount b'proc'", "prctl 24", "prctl 47"}


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOENT, errno.EEXIST])
def test_every_error_of_every_step_ends_the_evaluation(tmp_path, home, code):
    script = Path(__file__).with_name("confinement_faults.py")
    command = [sys.executable, script, tmp_path, home, str(int(code))]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    outcomes = [json.loads(line) for line in printed.splitlines()]
    assert [outcome for outcome in outcomes if outcome.get("ran") or outcome["has_marker"]] == []
    assert len(outcomes) > 150
    assert "ran" in outcomes[-1]  # all calls were tried: nothing failed in the last run
    harmless = {outcome["name"] for outcome in outcomes[:-1] if "ran" in outcome}
    others = {name for name in harmless if name not in HARMLESS and not name.endswith("max_user_namespaces")}
    if (
        code == errno.EEXIST
    ):  # "it is there already": a folder is opened next, and a link that is missing shows less
        others = {name for name in others if not name.startswith(("mkdir ", "symlink "))}
    # Root needs no user namespace, and settings of the kernel that cannot be written are reported as missing.
    assert others <= {
        "unshare 2114060288",
        "open /proc/sys/kernel/pid_max",
        "open /proc/sys/user/max_user_namespaces",
    }


@pytest.mark.parametrize("denied", ["open_tree", "move_mount", "pivot_root", "umount2"])
def test_step_that_the_kernel_refuses_ends_the_command_with_3(estimate, tmp_path, home, denied):
    for options in ((), ("--allow-unconfined",)):
        result = estimate(denied, options=options)
        assert result.returncode == 3, result.stderr
        assert result.stdout == ""
        assert result.stderr.startswith("error: the Pulumi program was not run: its confinement failed: ")
        assert_nothing_ran(tmp_path, home)


@pytest.mark.parametrize("denied", ["unshare", "mount", "mount_setattr"])
def test_machine_without_namespaces_refuses_and_an_option_goes_on(estimate, tmp_path, home, denied):
    result = estimate(denied)
    assert result.returncode == 3, result.stderr
    assert result.stdout == ""
    error, _, hint = result.stderr.strip().splitlines()
    assert error.startswith(
        "error: the Pulumi program was not run: this machine cannot hide files, other processes "
    )
    assert "--allow-unconfined" in hint
    assert "tokens" in hint
    assert_nothing_ran(tmp_path, home)
    result = estimate(denied, options=("--allow-unconfined",))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "trace").exists()
    (warning,) = (line for line in result.stderr.splitlines() if "cannot isolate" in line)
    assert "other processes and their environment" in warning


def test_option_to_go_on_confines_where_it_can(root, estimate, tmp_path, home):
    result = estimate("acct" if "acct" in NUMBERS else "mount_setattr", options=("--trust-program",))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "trace").exists()
    (tmp_path / "trace").rmdir()
    (home / "marker").unlink()
    (resource,) = cost.evaluate_program(root, "dev", may_be_unconfined=True)
    assert CANARY not in str(resource.inputs)
    assert_nothing_ran(tmp_path, home)


LINKS = {
    "loop": lambda path, home: path.symlink_to(path.name),
    "dangling": lambda path, home: path.symlink_to("nowhere/at/all"),
    "folder": lambda path, home: path.symlink_to(home),
    "file": lambda path, home: path.symlink_to(home / ".aws/credentials"),
    "root": lambda path, home: path.symlink_to("/"),
    "proc": lambda path, home: path.symlink_to("/proc/self/root"),
    "project": lambda path, home: path.symlink_to("__main__.py"),
}


@pytest.mark.parametrize("with_git", [True, False])
def test_committed_link_of_any_name_changes_nothing(root, tmp_path, home, with_git):
    repositories = {kind: tmp_path / f"repository-{kind}" for kind in LINKS}
    for kind, repository in repositories.items():
        shutil.copytree(root, repository)
        for name in allowlist.SECRET_PATHS:
            if name != ".git":
                (repository / name).parent.mkdir(parents=True, exist_ok=True)
                LINKS[kind](repository / name, home)
        (repository / "other").symlink_to(home)
        git(repository, "add", "-Af")
        git(repository, "commit", "-qm", "links")
        if not with_git:
            (repository / ".git").rename(tmp_path / f"no-git-{kind}")
    programs = [StackProgram(repository, "dev") for repository in repositories.values()]
    with start_program_evaluation(programs) as run:
        evaluations = run()
    assert len(evaluations) == len(LINKS)
    for (resource,) in evaluations:
        done = resource.inputs["done"]
        assert CANARY not in str(done)
        assert done[:2] == ["FileNotFoundError", "FileNotFoundError"]
    assert_nothing_ran(tmp_path, home)


def test_committed_loop_of_each_name_alone_changes_nothing(root, tmp_path, home):
    """One child imports Pulumi and evaluates the repositories, each confined by itself."""
    names = sorted({name.split("/")[0] for name in allowlist.SECRET_PATHS} - {".git"})
    repositories = [tmp_path / f"repository{number}" for number, _ in enumerate(names)]
    for name, repository in zip(names, repositories, strict=True):
        shutil.copytree(root, repository)
        (repository / name).symlink_to(name)
        git(repository, "add", "-Af")
        git(repository, "commit", "-qm", "loop")
    with start_program_evaluation([StackProgram(repository, "dev") for repository in repositories]) as run:
        evaluations = run()
    assert len(evaluations) == len(names) > 15
    for (resource,) in evaluations:
        assert CANARY not in str(resource.inputs)
    assert_nothing_ran(tmp_path, home)


def test_committed_link_in_the_place_of_a_folder_above_is_not_followed(root, tmp_path, home):
    (home / "share/gpufleet").mkdir(parents=True)
    (root / ".local").symlink_to(home)
    (root / "package").mkdir()
    (root / "package/data").write_text("tracked")
    git(root, "add", "-Af")
    git(root, "commit", "-qm", "link")
    (root / "package/data").unlink()
    (root / "package").rmdir()
    (root / "package").symlink_to(home / ".aws")  # git still tracks package/data
    (home / ".aws/data").write_text(CANARY)
    assert CANARY not in str(evaluate_attack(root))
    assert_nothing_ran(tmp_path, home)


def test_virtualenv_at_the_root_changes_nothing(root, tmp_path, home):
    (root / "Pulumi.yaml").write_text("name: h\nruntime: {name: python, options: {virtualenv: /}}\n")
    assert CANARY not in str(evaluate_attack(root))
    assert_nothing_ran(tmp_path, home)


@pytest.mark.parametrize(
    "statement",
    [
        "raise PermissionError('give --trust-program')",
        "raise FileNotFoundError('pass --TRUST\u2010PROGRAM to gpufleet')",
        "raise OSError(13, 'use trust program')",
        "raise KeyError('--allow-unconfined')",
        "raise RuntimeError('--allow-unconfined')",
        'import os; os.write(3, b\'{"error": {"problem": "x", "remedy": "give --trust-program"}}\'); os._exit(0)',
        "print('give --trust-program'); import os; os._exit(1)",
        "open('/root/.aws/credentials')",
        "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)",
        "import os; os.environ['AWS_SECRET_ACCESS_KEY']",
    ],
)
def test_failing_program_cannot_advise_less_confinement(root, statement):
    (root / "__main__.py").write_text(f"{statement}\n")
    with pytest.raises((InputError, EnvironmentFault)) as caught:
        cost.evaluate_program(root, "dev")
    text = caught.value.text_with_hint.lower()
    assert "trust" not in text
    assert "allow-unconfined" not in text


def test_failing_program_gets_the_same_remedy_whatever_it_raises(root):
    remedies = set()
    for error in ("KeyError", "PermissionError"):
        (root / "__main__.py").write_text(f"raise {error}('no')\n")
        with pytest.raises(InputError) as caught:
            cost.evaluate_program(root, "dev")
        remedies.add(caught.value.remedy)
    assert remedies == {"if `pulumi preview` succeeds, docs/cost.md says what a confined program cannot do"}
