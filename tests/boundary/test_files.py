"""Test reading of outside files: only regular files, completely, and within their limits."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from gpufleet.boundary import DocumentLimits, read_bytes, read_text, read_text_stream
from gpufleet.errors import InputError

TEN = DocumentLimits(bytes=10)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f"
    path.write_text("0123456789")
    return path


def test_file_of_exactly_the_size_limit_is_read(file):
    assert read_bytes(file, TEN) == b"0123456789"
    assert read_text(file, TEN) == "0123456789"
    file.write_text("0123456789a")
    with pytest.raises(InputError, match=r"f: is too large: 11 bytes; the limit is 10 bytes$"):
        read_bytes(file, TEN)


def test_file_with_reported_size_zero_is_read_up_to_the_limit(tmp_path):
    content = read_bytes(Path("/proc/self/status"))
    assert content.startswith(b"Name:")
    with pytest.raises(InputError, match="is too large: 11 bytes"):
        read_bytes(Path("/proc/self/status"), TEN)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_pipes_folders_and_devices_are_refused_without_reading(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(InputError, match=r"x: is not a regular file; give a file$|Is a directory"):
        read_bytes(tmp_path / "x")
    with pytest.raises(InputError, match=r"^/dev/zero: is not a regular file"):
        read_bytes(Path("/dev/zero"))


def test_missing_file_is_reported_in_one_line_with_the_callers_name_for_it(tmp_path):
    with pytest.raises(InputError, match=r"none: cannot be read: No such file or directory$"):
        read_bytes(tmp_path / "none")
    with pytest.raises(InputError, match=r"^--file: cannot be read: No such file or directory$"):
        read_text(tmp_path / "none", where="--file")
    with pytest.raises(InputError, match=r"cannot be read: .*null"):
        read_bytes(tmp_path / "a\x00b")


def test_symlink_is_followed_unless_forbidden(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read_text(link) == "0123456789"
    with pytest.raises(InputError, match=r"link: cannot be read: Too many levels of symbolic links$"):
        read_text(link, follow_symlinks=False)
    with pytest.raises(InputError, match="Too many levels of symbolic links"):
        read_bytes(link, follow_symlinks=False)


def test_stream_is_read_to_its_end_or_its_limit():
    assert read_text_stream(io.BytesIO(b"0123456789"), "-", TEN) == "0123456789"
    with pytest.raises(InputError, match=r"^-: is too large: 11 bytes"):
        read_text_stream(io.BytesIO(b"0" * 100), "-", TEN)


def test_pipe_opened_by_the_shell_is_read_like_a_file():
    reader, writer = os.pipe()
    os.write(writer, b"12345")
    os.close(writer)
    assert read_bytes(Path(f"/dev/fd/{reader}"), TEN) == b"12345"
    os.close(reader)
    reader, writer = os.pipe()
    os.write(writer, b"x" * (TEN.bytes + 1))
    os.close(writer)
    with pytest.raises(InputError, match=r"is too large"):
        read_bytes(Path(f"/dev/fd/{reader}"), TEN)
    os.close(reader)
