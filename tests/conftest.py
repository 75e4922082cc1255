"""Shared fixtures: separate projects, and the command line as a separate process."""

from __future__ import annotations

import compileall
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
# The maintainers' tools, without the checkout on the path: a program under test would see all of it as a package.
_tools = importlib.util.spec_from_file_location("tools", ROOT / "tools" / "__init__.py")
sys.modules["tools"] = importlib.util.module_from_spec(_tools)
_tools.loader.exec_module(sys.modules["tools"])
os.environ["GPUFLEET_PRICES"] = "embedded"  # not what the developer has imported
# A shell without job control starts a command in the background with interrupts ignored, and its children inherit that:
# the tests that interrupt a process would wait for it in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["GPUFLEET_PROGRAM_CACHE"] = "off"  # a program is run, except in the tests of the cache
# Every run of the suite tries the same inputs, so that a change is what makes it fail; HYPOTHESIS_PROFILE=random tries
# others each time, as `make fuzz` does with its seeds.
# No test may fail because the machine is busy: no deadlines, no check of how long inputs take to draw.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True)
settings.register_profile("random", UNTIMED, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
PROJECT_PARTS = ("Pulumi.yaml", "stacks", "inventory", "playbooks", "docs/examples", ".ci")


def pytest_addoption(parser):
    help_ = "write the records that golden tests compare with, instead of comparing"
    parser.addoption("--regenerate", action="store_true", help=help_)
    parser.addoption("--all-packages", action="store_true", help="run the long tests of tests/packages too")


def pytest_terminal_summary(terminalreporter):
    """Add what was skipped to the list of the test command, which has two lanes (.ci/tests)."""
    if path := os.environ.get("GPUFLEET_SKIPPED_TESTS"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(
                f"{line}\n" for line in list_skipped_tests(terminalreporter.stats.get("skipped", []))
            )


def pytest_itemcollected(item):
    """Refuse a test on booted hosts that the test command cannot find: it looks for the marker in the files."""
    if item.get_closest_marker("hosts") and "pytest.mark" + ".hosts" not in item.path.read_text():
        raise pytest.UsageError(f"{item.nodeid}: write its marker as pytest.mark" + ".hosts in this file")


def list_skipped_tests(reports):
    """Return one line for each file and reason, without the line numbers that change."""
    return [f"{report.nodeid.partition('::')[0]}: {skip_reason(report)}" for report in reports]


def skip_reason(report):
    """Return a skipped test's reason; an expected failure has it elsewhere."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
    return " ".join(str(reason).removeprefix("Skipped: ").split())


@pytest.fixture
def golden(request):
    """Compare a text with its record in the repository, or write the record with ``--regenerate``."""

    def compare(path, text):
        if request.config.getoption("--regenerate"):
            path.write_text(text)
        assert path.is_file(), f"{path.name} is missing; write it with --regenerate"
        assert text.splitlines() == path.read_text().splitlines()

    return compare


@pytest.fixture(scope="session")
def repo_root():
    """Return this checkout; tests read it and never write to it."""
    return ROOT


def make_project(target):
    """Copy what makes a gpufleet project to ``target`` and commit it there, so that git refs work."""
    for part in PROJECT_PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__", ".ansible"))
        elif source.exists():
            shutil.copy(source, target / part)
    (target / "modules").mkdir(exist_ok=True)
    # With its bytecode: a program that runs in a copy would compile the package once more.
    compileall.compile_dir(ROOT / "modules/gpufleet", quiet=1)
    shutil.copytree(ROOT / "modules/gpufleet", target / "modules/gpufleet")
    (target / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    (target / ".venv").symlink_to(Path(sys.executable).parents[1])
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", str(target)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "start"], check=True)
    subprocess.run([*git, "gc", "--quiet"], check=True)  # one file to copy in place of a thousand
    return target


@pytest.fixture(scope="session")
def project_template(tmp_path_factory):
    """Create the project template once, and verify at the end that no test wrote into it."""
    template = make_project(tmp_path_factory.mktemp("template"))
    yield template
    status = ["git", "-C", str(template), "status", "--porcelain"]
    changed = subprocess.run(status, check=True, capture_output=True, text=True).stdout
    assert not changed, f"a test wrote into files that all projects share: unlink them first\n{changed}"


def copy_project(template, target):
    """Copy a project: what tests edit as files of their own, the package and git's objects as hard links."""

    def copy(source, destination):
        part = Path(source).relative_to(template).as_posix()
        if part.startswith(("modules/", ".git/objects/")):
            os.link(source, destination)
        else:
            shutil.copy2(source, destination)

    shutil.copytree(template, target, symlinks=True, copy_function=copy)
    return target


@pytest.fixture
def project(tmp_path, project_template):
    """Give a project of the test's own: a git repository with the shipped stacks, racks and playbooks."""
    return copy_project(project_template, tmp_path / "project")


@pytest.fixture(scope="session")
def shared_project(tmp_path_factory, project_template):
    """Return one project per session, for tests that need an engine or hosts and revert their edits."""
    return copy_project(project_template, tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Return the wheel of a copy of the tracked files, as a build in a clean clone makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "pyproject.toml", "README.md", "LICENSES", "modules"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            source,
        ],
        check=True,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def clean_env():
    """Return an environment with this Python and nothing from the environment of the user."""
    inherited = ("HOME", "LANG", "USER", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE", "GOPROXY", "GOFLAGS")
    env = {name: os.environ[name] for name in inherited if name in os.environ}
    scripts = str(Path(sys.executable).parent)
    return env | {
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "VIRTUAL_ENV": str(Path(scripts).parent),
    }


@pytest.fixture(scope="session")
def gpufleet(clean_env):
    """Run ``gpufleet`` as its own process; returns the finished process with text output."""
    # Not above: test_lanes.py and test_skipped.py copy this file without its neighbours.
    from command_server import CommandServer

    server = CommandServer(clean_env)

    def run(*arguments, cwd, env=None, stdin=None, timeout=600):
        return server.run(arguments, cwd, clean_env | (env or {}), stdin, timeout)

    yield run
    server.stop()
