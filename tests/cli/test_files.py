"""Test that commands neither read nor write through a symlink planted by a pull request."""

from __future__ import annotations

import json
import os

import pytest

from gpufleet import boundary
from gpufleet.errors import InputError
from gpufleet.operations.configure import read_extra_vars

SECRET = "the-token-of-this-job"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Give a checkout as the current folder, with a secret next to it."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    return tmp_path / "checkout"


@pytest.mark.parametrize("place", ["cost.md", "out/secret"])
def test_comment_file_is_not_read_through_a_symlink(checkout, gpufleet, place):
    (checkout / "cost.md").symlink_to("../secret")
    (checkout / "out").symlink_to("..")
    result = gpufleet("cost", "comment", "--file", place, cwd=checkout)
    assert result.returncode == 2
    assert "is a symbolic link or contains one in its path" in result.stderr
    assert SECRET not in result.stdout + result.stderr


@pytest.mark.parametrize("place", ["cost.md", "out/secret"])
def test_output_is_not_written_through_a_symlink(checkout, place):
    (checkout / "cost.md").symlink_to("../secret")
    (checkout / "out").symlink_to("..")
    for path in (boundary.write_text, lambda path, _text: boundary.refuse_symlinks(path)):
        with pytest.raises(InputError, match="contains one in its path"):
            path(checkout / place, "x")
    assert (checkout.parent / "secret").read_text() == SECRET


def test_symlinked_parent_folder_is_accepted(checkout, monkeypatch):
    (checkout.parent / "elsewhere").symlink_to(checkout)
    monkeypatch.chdir(checkout.parent / "elsewhere")
    boundary.write_text(checkout.parent / "elsewhere" / "a.md", "x")
    assert (checkout / "a.md").read_text() == "x"


def test_written_file_has_the_umask_or_the_given_mode(checkout):
    before = os.umask(0o027)
    try:
        boundary.write_text(checkout / "a", "x")
        boundary.write_text(checkout / "b", "x", mode=0o600)
    finally:
        os.umask(before)
    assert [(checkout / name).stat().st_mode & 0o777 for name in "ab"] == [0o640, 0o600]


@pytest.mark.parametrize("text", ["token: s3cret\nsize: 3\n", json.dumps({"token": "s3cret", "size": 3})])
def test_extra_variables_are_read_from_a_file(checkout, text):
    (checkout / "vars.yml").write_text(text)
    assert read_extra_vars([f"@{checkout}/vars.yml", "size=4"]) == {"token": "s3cret", "size": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [("- a\n", "is not a mapping"), ("a: [", "is not valid YAML"), (None, "cannot be read")],
)
def test_invalid_variables_file_is_reported_in_one_line(checkout, text, message):
    if text is not None:
        (checkout / "vars.yml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_extra_vars(["@vars.yml"])
