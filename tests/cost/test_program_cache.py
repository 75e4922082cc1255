"""Test that a program's kept graph is used while nothing it was made from has changed, and never after."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program import allowlist, graph_cache
from gpufleet.cost.inputs.program.evaluation import start_git_ref_comparison, start_program_evaluation
from gpufleet.cost.inputs.program.evaluation_child import EvaluationChild
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.errors import InputError

PROGRAMS = Path(__file__).resolve().parents[1] / "cases" / "programs"
PROGRAM = """\
import sys
from pathlib import Path
import pulumi
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import shared
config = pulumi.Config()
inputs = {"count": shared.COUNT, "size": config.get("size"), "key": config.get_secret("key")}
pulumi.ComponentResource("t:m:C", "c", inputs)
pulumi.ComponentResource("t:m:C", "d", {"password": pulumi.Output.secret("a plain password")})
"""
# Without these namespaces a program can read anything, and its graph is not kept.
UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) != 0)"
CAN_CONFINE = sys.platform == "linux" and not subprocess.call([sys.executable, "-c", UNSHARE])
pytestmark = pytest.mark.skipif(not CAN_CONFINE, reason="this kernel allows no namespaces")


def git(root, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "-C", str(root), *author, *arguments], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Switch the cache on, in a folder of the test's own."""
    monkeypatch.delenv("GPUFLEET_PROGRAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/gpufleet/programs"


@pytest.fixture
def runs(monkeypatch):
    """Record which programs were run: their labels, by evaluation."""
    runs, run = [], EvaluationChild.run

    def record(child, evaluations):
        runs.append([each.program.label or "head" for each in evaluations])
        return run(child, evaluations)

    monkeypatch.setattr(EvaluationChild, "run", record)
    return runs


@pytest.fixture
def root(tmp_path):
    """Make a repository with a project in a folder, which imports a module outside of that folder."""
    root = tmp_path / "repository/infra"
    root.mkdir(parents=True)
    (root.parent / "shared.py").write_text("COUNT = 1\n")
    (root.parent / ".gitignore").write_text("*.ignored\n")
    (root / "Pulumi.yaml").write_text("name: kept\nruntime: python\n")
    (root / "Pulumi.dev.yaml").write_text("config:\n  kept:size: small\n")
    (root / "__main__.py").write_text(PROGRAM)
    git(root.parent, "init", "-q")
    git(root.parent, "add", ".")
    git(root.parent, "commit", "-qm", "first")
    return root


def evaluate(root, **options):
    """Return the inputs of the working tree's component ``c``."""
    resources = cost.evaluate_program(root, "dev", **options)
    return next(resource.inputs for resource in resources if resource.name == "c")


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_clean_checkout_is_run_once(root, runs):
    first = cost.evaluate_program(root, "dev")
    assert cost.evaluate_program(root, "dev") == first
    assert runs == [["head"]]


def test_child_without_a_program_to_run_is_stopped_at_once(root, monkeypatch):
    children, start = [], subprocess.Popen

    def record(arguments, **options):
        process = start(arguments, **options)
        if "pass_fds" in options:
            children.append(process)
        return process

    cost.evaluate_program(root, "dev")
    monkeypatch.setattr(subprocess, "Popen", record)
    with start_program_evaluation([StackProgram(root, "dev")]) as run:
        assert children[0].returncode is not None
        assert [resource.name for resource in run()[0]] == ["c", "d"]


def test_base_is_run_once_while_the_head_changes(root, runs):
    rewrite(
        root / "__main__.py",
        "import shared",
        "sys.modules['shared'] = type('shared', (), {'COUNT': 1})\nimport shared",
    )
    git(root, "commit", "-qam", "a project that needs no other folder")
    for count in (2, 3):
        rewrite(root / "Pulumi.dev.yaml", "kept:size:", f"kept:other{count}: 1\n  kept:size:")
        with start_git_ref_comparison(root, "dev", "HEAD") as run:
            before, after = run()
        assert before == after
    assert runs == [["at HEAD", "head"], ["head"]]
    git(root, "commit", "-qam", "two settings")
    for _ in range(2):
        with start_git_ref_comparison(root, "dev", "HEAD~1") as run:
            assert run() == [before, after]
    assert runs[2:] == [["head"]]


@pytest.mark.parametrize(
    ("file", "change", "expected"),
    [
        ("infra/__main__.py", ('"count": shared', '"count": 6 + shared'), ("count", 7)),
        ("infra/Pulumi.dev.yaml", ("small", "large"), ("size", "large")),
        ("shared.py", ("1", "2"), ("count", 2)),
    ],
)
def test_changed_file_is_evaluated_committed_or_not(root, runs, file, change, expected):
    key, value = expected
    assert evaluate(root)[key] != value
    assert evaluate(root)[key] != value
    rewrite(root.parent / file, *change)
    for _ in range(2):
        assert evaluate(root)[key] == value
    git(root, "commit", "-qam", "changed")
    for _ in range(2):
        assert evaluate(root)[key] == value
    assert len(runs) == 4  # once clean, twice dirty, once clean


def test_untracked_and_ignored_files_are_neither_seen_nor_part_of_the_key(root, runs):
    count = "len(list(Path('.').glob('*.ignored'))) + len(list(Path('.').glob('*.txt')))"
    rewrite(root / "__main__.py", '"count": shared.COUNT', f'"count": {count}')
    git(root, "commit", "-qam", "counts files")
    (root / "a.ignored").write_text("abc")
    (root / "a.txt").write_text("")
    assert [evaluate(root)["count"] for _ in range(2)] == [0, 0]
    assert len(runs) == 1
    git(root, "add", "a.txt")
    assert [evaluate(root)["count"] for _ in range(2)] == [1, 1]
    assert len(runs) == 3


def test_file_that_git_was_told_not_to_compare_is_evaluated(root):
    evaluate(root)
    git(root.parent, "update-index", "--assume-unchanged", "shared.py")
    (root.parent / "shared.py").write_text("COUNT = 5\n")
    assert evaluate(root)["count"] == 5


def test_own_stack_file_variables_and_stack_are_part_of_the_key(root, runs, tmp_path, monkeypatch):
    evaluate(root)
    own = tmp_path / "own.yaml"
    for size in ("medium", "huge"):
        own.write_text(f"config:\n  kept:size: {size}\n")
        assert evaluate(root, config_file=own)["size"] == size
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    evaluate(root)
    monkeypatch.setenv("HIDDEN_FROM_PROGRAMS", "1")
    evaluate(root)
    assert len(runs) == 4
    with pytest.raises(InputError, match="not found"):
        cost.evaluate_program(root, "other")


def test_changed_packages_are_evaluated(root, runs, tmp_path, monkeypatch):
    site = tmp_path / "python/site-packages"
    package = site / "some_sdk-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "RECORD").write_text("some_sdk.py,sha256=a,1\n")
    installed = allowlist.find_interpreter_paths()
    monkeypatch.setattr(allowlist, "find_interpreter_paths", lambda: [*installed, site])
    evaluate(root)
    evaluate(root)
    assert len(runs) == 1
    package.rename(site / "some_sdk-1.1.dist-info")
    evaluate(root)
    assert len(runs) == 2
    (site / "some_sdk-1.1.dist-info/RECORD").write_text("some_sdk.py,sha256=b,1\n")
    evaluate(root)
    assert len(runs) == 3
    (site / "unrecorded.py").write_text("A = 1\n")
    evaluate(root)
    (site / "unrecorded.py").write_text("A = 2\n")
    evaluate(root)
    assert len(runs) == 5
    editable = tmp_path / "editable"
    editable.mkdir()
    (editable / "module.py").write_text("A = 1\n")
    os.mkfifo(editable / "pipe")  # is not waited for
    monkeypatch.setattr(allowlist, "find_interpreter_paths", lambda: [*installed, site, editable])
    evaluate(root)
    (editable / "module.py").write_text("A = 2\n")
    evaluate(root)
    assert len(runs) == 7


def test_next_day_is_evaluated(root, runs, monkeypatch):
    evaluate(root)
    monkeypatch.setattr(time, "strftime", lambda _: "2031-01-01 +0000")
    evaluate(root)
    assert len(runs) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content.replace(b"small", b"large"),
        lambda content: b"\xff" * len(content),
        lambda content: content.partition(b"\n")[0] + b"\n" + b"[" * 100_000,
    ],
    ids=["empty", "cut", "altered", "binary", "nested"],
)
def test_damaged_file_is_evaluated_and_replaced(root, runs, cache, damage):
    first = cost.evaluate_program(root, "dev")
    (file,) = cache.iterdir()
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert cost.evaluate_program(root, "dev") == first
    assert len(runs) == 2
    assert file.read_bytes() == content


@pytest.mark.parametrize("body", [b"[1]", b'{"resources": [{"urn": 5}]}', b'{"resources": NaN}'])
def test_forged_file_with_a_right_digest_is_evaluated(root, runs, cache, body):
    first = cost.evaluate_program(root, "dev")
    (file,) = cache.iterdir()
    file.write_bytes(graph_cache._make_header(file.name, body) + b"\n" + body)
    assert cost.evaluate_program(root, "dev") == first
    assert len(runs) == 2


def test_file_that_others_can_write_a_link_and_a_shared_folder_are_not_read(root, runs, cache):
    evaluate(root)
    (file,) = cache.iterdir()
    file.chmod(0o666)
    evaluate(root)
    assert len(runs) == 2
    elsewhere = file.rename(cache.parent / "elsewhere")
    file.symlink_to(elsewhere)
    evaluate(root)
    assert len(runs) == 3
    cache.chmod(0o777)
    evaluate(root)
    assert len(runs) == 4
    assert cache.stat().st_mode & 0o777 == 0o700  # storing made it private again


def test_kept_file_is_private_and_contains_no_secret(root, cache):
    evaluate(root)
    rewrite(root / "Pulumi.dev.yaml", "kept:size", "kept:key: {secure: v1:abcdef:a-cipher}\n  kept:size")
    git(root, "commit", "-qam", "a secret")
    evaluated = cost.evaluate_program(root, "dev")
    assert cost.evaluate_program(root, "dev") == evaluated
    assert [resource.inputs["password"] for resource in evaluated if resource.name == "d"] == [cost_secret()]
    assert cache.stat().st_mode & 0o777 == 0o700
    for file in cache.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert b"a plain password" not in file.read_bytes()
        assert b"a-cipher" not in file.read_bytes()


def cost_secret():
    from gpufleet.engine import SECRET

    return SECRET


def test_folder_is_bounded_by_age_number_and_size(cache, monkeypatch):
    cache.mkdir(parents=True, mode=0o700)
    old = cache / "old"
    old.write_bytes(b"")
    os.utime(old, (1, 1))
    monkeypatch.setattr(graph_cache, "FOLDER_FILES", 3)
    for number in range(5):
        graph_cache.store_graph(f"key{number}", [])
        os.utime(cache / f"key{number}", (time.time() - 1000 + number,) * 2)
    graph_cache.store_graph("newest", [])
    assert {path.name for path in cache.iterdir()} == {"newest", "key4", "key3"}
    monkeypatch.setattr(graph_cache, "FOLDER_BYTES", 300)
    graph_cache.store_graph("last", [])
    assert {path.name for path in cache.iterdir()} <= {"last", "newest"}
    monkeypatch.setattr(graph_cache, "FILE_BYTES", 1000)
    graph_cache.store_graph("large", [{"text": "x" * 1000}])
    assert not (cache / "large").exists()


def test_concurrent_runs_write_one_whole_file(cache):
    records = [{"urn": "x" * 100_000}]
    graph_cache.store_graph("key", records)
    seen = []

    def work():
        for _ in range(20):
            graph_cache.store_graph("key", records)
            seen.append(graph_cache.load_graph("key"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert {json.loads(content)["resources"][0]["urn"] for content in seen} == {"x" * 100_000}
    assert [path.name for path in cache.iterdir()] == ["key"]


def test_file_changed_while_the_program_runs_is_not_kept(root, cache, monkeypatch):
    run = EvaluationChild.run

    def change_a_file(*arguments):
        (root.parent / "shared.py").write_text("COUNT = 9\n")
        return run(*arguments)

    monkeypatch.setattr(EvaluationChild, "run", change_a_file)
    assert evaluate(root)["count"] == 1  # as it was when its files were copied
    assert not cache.exists()


def test_trusted_unconfined_and_failing_programs_are_not_kept(root, cache, monkeypatch):
    evaluate(root, trusted=True)
    rewrite(root / "__main__.py", "import shared", "import shared, absent")
    git(root, "commit", "-qam", "fails")
    for _ in range(2):
        with pytest.raises(InputError, match="absent"):
            evaluate(root)
    assert not cache.exists()


def test_switched_off_or_unwritable_cache_keeps_nothing(root, runs, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUFLEET_PROGRAM_CACHE", "off")
    evaluate(root)
    assert not cache.exists()
    monkeypatch.delenv("GPUFLEET_PROGRAM_CACHE")
    (tmp_path / "cache").write_text("a file")
    for _ in range(2):
        assert evaluate(root)["size"] == "small"
    assert len(runs) == 3


@pytest.mark.parametrize("name", ["small-site", "two-networks", "gke-gpu-pool"])
def test_kept_graph_equals_the_evaluated_one(name, tmp_path, runs):
    root = tmp_path / "repository"
    shutil.copytree(PROGRAMS / name, root, ignore=shutil.ignore_patterns("__pycache__"))
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    with start_git_ref_comparison(root, "dev", "HEAD") as run:
        evaluated = run()
    with start_git_ref_comparison(root, "dev", "HEAD") as run:
        assert run() == evaluated
    assert runs == [["at HEAD", "head"]]
    assert cost.price_resources(evaluated[0]) == cost.price_resources(evaluated[1])


def test_command_prints_the_same_from_kept_graphs(root, cache):
    command = [
        sys.executable,
        "-m",
        "gpufleet",
        "cost",
        "diff",
        "--base",
        "HEAD",
        "-s",
        "dev",
        "--format",
        "json",
    ]
    git(root.parent, "mv", "shared.py", "infra/shared.py")
    git(root, "commit", "-qam", "one folder")
    printed = [subprocess.run(command, cwd=root, check=True, capture_output=True).stdout for _ in range(2)]
    assert printed[0] == printed[1]
    assert len(list(cache.iterdir())) == 2
