"""Test files in the module `resources` as Ansible runs it."""

from __future__ import annotations

import getpass
import json
import stat

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.fleet.plugins.modules import resources

ACCEPT, REFUSE = ["true"], ["sh", "-c", "echo no such word >&2; exit 1"]


@pytest.fixture
def run(capsys):
    def call(*entries, check=False):
        owner = {"owner": getpass.getuser()}
        arguments = {"files": [owner | entry for entry in entries], "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            resources.main()
        return json.loads(capsys.readouterr().out)

    return call


def test_file_is_written_once(run, tmp_path):
    entry = {"path": str(tmp_path / "a"), "content": "x\n", "mode": "0640"}
    assert run(entry)["changed_paths"] == [entry["path"]]
    assert (tmp_path / "a").read_text() == "x\n"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert run(entry)["changed"] is False


def test_wrong_mode_is_corrected(run, tmp_path):
    (tmp_path / "a").write_text("x\n")
    (tmp_path / "a").chmod(0o666)
    assert run({"path": str(tmp_path / "a"), "content": "x\n"})["changed"]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_check_mode_reports_the_change_and_writes_nothing(run, tmp_path):
    result = run({"path": str(tmp_path / "a"), "content": "x\n"}, check=True)
    assert result["changed"]
    assert result["diff"][0]["after"] == "x\n"
    assert list(tmp_path.iterdir()) == []


def test_one_refused_file_leaves_all_files_unchanged(run, tmp_path):
    (tmp_path / "b").write_text("old\n")
    first = {"path": str(tmp_path / "a"), "content": "x\n", "validate": ACCEPT}
    result = run(first, {"path": str(tmp_path / "b"), "content": "new\n", "validate": REFUSE})
    assert result["msg"] == f"{tmp_path}/b was not changed: no such word"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b": "old\n"}


def test_validator_gets_the_new_content(run, tmp_path):
    check = ["grep", "-q", "^good$", "{}"]
    assert "failed" not in run({"path": str(tmp_path / "a"), "content": "good\n", "validate": check})
    assert run({"path": str(tmp_path / "a"), "content": "bad\n", "validate": check})["failed"]


def test_lines_are_added_and_removed_and_others_kept(run, tmp_path):
    (tmp_path / "hosts").write_text("127.0.1.1 old\n# mine\n10.0.0.1 db\n")
    entry = {
        "path": str(tmp_path / "hosts"),
        "state": "lines",
        "lines": ["127.0.1.1 new"],
        "remove": ["^127\\.0\\.1\\."],
    }
    assert run(entry)["changed"]
    assert (tmp_path / "hosts").read_text() == "# mine\n10.0.0.1 db\n127.0.1.1 new\n"
    assert not run(entry)["changed"]


def test_missing_file_is_created_with_its_lines(run, tmp_path):
    run({"path": str(tmp_path / "hosts"), "state": "lines", "lines": ["a"]})
    assert (tmp_path / "hosts").read_text() == "a\n"


def test_required_line_is_not_removed_by_a_pattern(run, tmp_path):
    run({"path": str(tmp_path / "k"), "state": "lines", "lines": ["key1"], "remove": ["key"]})
    assert (tmp_path / "k").read_text() == "key1\n"


def test_links_directories_and_removals_are_applied(run, tmp_path):
    (tmp_path / "zone").write_text("")
    (tmp_path / "gone").write_text("")
    entries = (
        {"path": str(tmp_path / "link"), "state": "link", "target": str(tmp_path / "zone")},
        {"path": str(tmp_path / "d/e"), "state": "directory", "mode": "0700"},
        {"path": str(tmp_path / "gone"), "state": "absent"},
    )
    assert len(run(*entries)["changed_paths"]) == 3
    assert (tmp_path / "link").readlink() == tmp_path / "zone"
    assert stat.S_IMODE((tmp_path / "d/e").stat().st_mode) == 0o700
    assert not (tmp_path / "gone").exists()
    assert not run(*entries)["changed"]


def test_dangling_link_is_refused(run, tmp_path):
    result = run({"path": str(tmp_path / "link"), "state": "link", "target": "/no/such/zone"})
    assert result["msg"].endswith("/no/such/zone does not exist")


def test_failed_write_names_file_and_reason_and_leaves_no_temporary_file(run, tmp_path):
    result = run(
        {"path": str(tmp_path / "a"), "content": "1"}, {"path": str(tmp_path / "no/b"), "content": "2"}
    )
    assert (
        result["msg"]
        == f"cannot write {tmp_path}/no/b: No such file or directory; replaced before it: {tmp_path}/a"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_unknown_owner_is_reported(run, tmp_path):
    result = run({"path": str(tmp_path / "a"), "content": "", "owner": "nobody-here"})
    assert "nobody-here" in result["msg"]
