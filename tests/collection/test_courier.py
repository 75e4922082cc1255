"""The courier: what it packs, what its starter does on a host, and what it makes of an answer."""

from __future__ import annotations

import json
import stat
import subprocess
import sys

import pytest

from ansible_collections.gpufleet.fleet.plugins.modules import files, probe, resources, sysctl
from ansible_collections.gpufleet.fleet.plugins.plugin_utils import courier, courier_start

MODULES = {"files": files, "probe": probe, "resources": resources, "sysctl": sysctl}


def start(tmp_path, name, params, check=False, home=None):
    """Run the program as a host's Python would, with its folder in the test's own."""
    given = json.dumps({"params": params, "check_mode": check, "diff": False})
    text = (
        courier.program(name, given).decode().replace('"/run/gpufleet"', repr(str(home or tmp_path / "home")))
    )
    return subprocess.run(
        [sys.executable, "-I", "-"], input=text, capture_output=True, text=True, check=False, cwd="/"
    )


def answer(done):
    return courier.outcome("it", {"stdout": done.stdout, "stderr": done.stderr, "rc": done.returncode})


@pytest.fixture
def entry(tmp_path):
    """Give a file's checked arguments, as the courier sends them."""
    wanted = {"files": [{"path": str(tmp_path / "a"), "content": "x\n", "owner": "root"}]}
    return courier.ArgumentSpecValidator(courier.unexpanded(files.SPEC)).validate(wanted).validated_parameters


@pytest.mark.parametrize("name", MODULES)
def test_every_module_of_the_courier_says_its_options_and_packs_what_it_imports(name):
    assert MODULES[name].SPEC
    digest, bundle = courier.bundled(name)
    assert (len(digest), courier.bundled(name)) == (16, (digest, bundle))
    assert len(bundle) < 40_000


def test_what_is_imported_by_what_is_imported_comes_along():
    assert {"packages", "dpkg", "locks", "apt_words", "tools"} <= courier.closure(
        (courier.PLUGINS / "modules/resources.py").read_text()
    )


def test_sources_are_unpacked_once_and_keep_their_bytecode(tmp_path, entry):
    (tmp_path / "home").mkdir(mode=0o700)
    assert answer(start(tmp_path, "files", entry))["changed"]
    (folder,) = (tmp_path / "home/code").iterdir()
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*.pyc")}
    assert any("module_utils" in str(path) for path in kept)
    assert answer(start(tmp_path, "files", entry))["changed"] is False
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.pyc")} == kept
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_older_sources_go(tmp_path, entry):
    (tmp_path / "home/code/files-0000").mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    (tmp_path / "home/code").chmod(0o700)
    start(tmp_path, "files", entry)
    assert [path.name for path in (tmp_path / "home/code").iterdir()] == [
        f"files-{courier.bundled('files')[0]}"
    ]


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path, entry):
    digest, _ = courier.bundled("files")
    planted = tmp_path / "home/code" / f"files-{digest}" / "ansible"
    planted.mkdir(parents=True)
    (planted / "__init__.py").write_text("raise SystemExit('planted')")
    (tmp_path / "home").chmod(0o777)
    assert answer(start(tmp_path, "files", entry))["changed"]
    assert not courier_start.is_ours(str(tmp_path / "home"))


def test_without_a_place_to_keep_anything_it_works_all_the_same(tmp_path, entry):
    assert answer(start(tmp_path, "files", entry, home="/proc/no-such"))["changed"]


def test_check_mode_reaches_the_module(tmp_path, entry):
    assert answer(start(tmp_path, "files", entry, check=True))["changed"]
    assert not (tmp_path / "a").exists()


def test_a_failure_is_the_module_s_own_line(tmp_path, entry):
    entry["files"][0]["path"] = "/no/such/place"
    told = answer(start(tmp_path, "files", entry))
    assert (told["failed"], told["msg"]) == (True, "cannot write /no/such/place: No such file or directory")


def test_a_host_that_breaks_off_is_told_with_its_last_words():
    done = {"stdout": "", "stderr": "Traceback…\nMemoryError: no\n", "rc": 1}
    assert courier.outcome("files", done)["msg"] == "files broke off (status 1): MemoryError: no"


def test_a_banner_before_the_answer_is_passed_over():
    done = {"stdout": f'Welcome!\n{courier.MARK}{{"changed": true}}\n', "rc": 0}
    assert courier.outcome("files", done) == {"changed": True}


@pytest.mark.parametrize("pipelining", ["1", "0"])
def test_both_ways_give_the_same(play, tmp_path, pipelining):
    wrong = {
        "gpufleet.fleet.files": {"files": [{"path": "/a", "content": "x", "contnt": "x"}]},
        "ignore_errors": True,
    }
    right = {"gpufleet.fleet.files": {"files": [{"path": str(tmp_path / "by-play"), "content": "x\n"}]}}
    done = play(wrong, right, right, ANSIBLE_PIPELINING=pipelining)
    assert "Supported parameters" in done.stdout
    assert "changed=1" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "by-play").read_text() == "x\n"
