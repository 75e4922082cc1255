"""Test that no secret of an input is in the output of the job, and that the search finds secrets."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from urllib.parse import quote

import pytest

from canary.job import Job, database, find_hits, secret_config, small_job
from canary.search import Search, make_secret
from canary.watcher import Watcher

SECRET = make_secret("test")
WRITTEN = {
    "plain": f"a {SECRET} b".encode(),
    "url": quote(f"x={SECRET}", safe="").encode(),
    "json": json.dumps({"a": f"b{SECRET}"}).encode(),
    "hex": f"z{SECRET}".encode().hex().encode(),
    **{f"base64 at {lead}": base64.b64encode(b"u" * lead + SECRET.encode() + b"tail") for lead in range(4)},
}


@pytest.mark.parametrize("form", WRITTEN)
def test_secret_is_found_in_every_encoding(form):
    assert Search({"it": SECRET}).names(WRITTEN[form]) == ["it"]


def test_secret_is_found_in_file_contents_and_names(tmp_path):
    (tmp_path / "log").write_bytes(WRITTEN["json"])
    (tmp_path / "abc-secret").touch()
    places = {hit.place for hit in Search({"it": SECRET, "other": "abc-secret"}).files([tmp_path])}
    assert places == {str(tmp_path / "log"), f"the name {tmp_path / 'abc-secret'}"}


def test_excluded_input_file_is_not_searched(tmp_path):
    (tmp_path / "key").write_text(SECRET)
    assert list(Search({"it": SECRET}).files([tmp_path], excluded=[tmp_path / "key"])) == []


def test_command_lines_and_environments_of_child_processes_are_searched():
    search = Search({"argument": "secret-argument-1", "variable": "secret-variable-1"})
    script = "import sys; sys.stdin.read()"
    with Watcher(search) as watcher:
        process = subprocess.Popen(
            [sys.executable, "-c", script, "cost/inputs/program/child.py", "secret-argument-1"], stdin=subprocess.PIPE,
            env=os.environ | {"TOKEN": "secret-variable-1"},
        )  # fmt: skip
        while len(watcher.hits) < 2 and watcher.samples < 5000:
            pass
        process.communicate()
    assert {hit.secret for hit in watcher.hits} == {"argument", "variable"}


@pytest.mark.hosts
@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="hosts need root on Linux")
def test_job_leaves_no_secret_anywhere(tmp_path):
    job = Job(tmp_path / "job")
    try:
        hits, watcher = find_hits(job, small_job, secret_config, database)
    finally:
        job.close()
    assert [str(hit) for hit in hits] == []
    assert watcher.strangers == {"a host or sandbox", "cost/inputs/program/child.py"}, "some were never seen"
    assert len(job.secrets) >= 14
