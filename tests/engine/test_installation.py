"""Test which engine is used: a suitable one on PATH, else the built one, never the project's launcher."""

from __future__ import annotations

import json

import pytest

from gpufleet.engine import (
    LAUNCHER_MARK,
    VERSION,
    find_installed_pulumi_engine,
    find_pulumi_engine,
    installation,
)

PROGRAMS = ("pulumi", installation.LANGUAGE_HOST, installation.LANGUAGE_EXEC)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("gpufleet.paths.user_cache_folder", lambda: tmp_path / "cache")


def make_engine(folder, version=VERSION, programs=PROGRAMS):
    """Put fake programs into a folder: a `pulumi` that only prints its version."""
    folder.mkdir(parents=True)
    for name in programs:
        (folder / name).write_text(f"#!/bin/sh\necho v{version}\n")
        (folder / name).chmod(0o755)
    return folder


def make_built(record=None):
    make_engine(installation.pulumi_engine_cache_folder() / "bin")
    facts = {"version": VERSION, "recipe": installation.compute_engine_build_digest()} | (record or {})
    (installation.pulumi_engine_cache_folder() / "built.json").write_text(json.dumps(facts))


def test_empty_path_contains_no_engine(tmp_path):
    assert find_pulumi_engine(str(tmp_path)) is None
    assert find_pulumi_engine("") is None


def test_suitable_engine_on_path_is_used(tmp_path):
    folder = make_engine(tmp_path / "bin", "3.272.0")
    make_built()
    engine = find_pulumi_engine(str(folder))
    assert (engine.origin, engine.version, engine.bin_dir) == ("installed", "3.272.0", folder)


@pytest.mark.parametrize(
    ("version", "programs", "defect"),
    [
        ("3.99.0", PROGRAMS, f"3.99.0 is older than {VERSION}"),
        (VERSION, PROGRAMS[:1], "Python language host is missing"),
        ("dev", PROGRAMS, "does not answer"),
    ],
)
def test_unusable_engine_is_skipped_with_a_reason(tmp_path, version, programs, defect):
    folder = make_engine(tmp_path / "bin", version, programs)
    make_built()
    assert defect in find_installed_pulumi_engine(str(folder)).defect
    assert find_pulumi_engine(str(folder)).origin == "built"


def test_launcher_is_not_an_engine(tmp_path):
    folder = make_engine(tmp_path / "bin")
    (folder / LAUNCHER_MARK).touch()
    assert find_installed_pulumi_engine(str(folder)) is None


def test_cached_build_on_path_is_not_an_installed_engine():
    make_built()
    assert find_pulumi_engine(str(installation.pulumi_engine_cache_folder() / "bin")).origin == "built"


@pytest.mark.parametrize("record", [{"recipe": "of another version"}, {"recipe": None}])
def test_build_by_another_recipe_is_not_used(record):
    make_built(record)
    assert find_pulumi_engine("") is None


def test_build_with_a_missing_program_is_not_used():
    make_built()
    (installation.pulumi_engine_cache_folder() / "bin" / installation.LANGUAGE_EXEC).unlink()
    assert find_pulumi_engine("") is None


def test_version_is_read_without_an_update_check(tmp_path):
    program = tmp_path / "pulumi"
    program.write_text(
        '#!/bin/sh\n[ "$*" = version ] && [ "$PULUMI_SKIP_UPDATE_CHECK" = true ] && echo v3.258.1-x.2\n'
    )
    program.chmod(0o755)
    assert installation.read_pulumi_version(program) == "3.258.1-x.2"
    program.write_text("#!/bin/sh\necho v3.258.1\nexit 1\n")
    assert installation.read_pulumi_version(program) is None
    assert installation.read_pulumi_version(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [("3.99.0", "3.258.0"), ("3.258.0-alpha.9", "3.258.1"), ("2.999.999", "3.0.0")],
)
def test_versions_are_compared_by_number(one, other):
    assert installation._parse_version(one) < installation._parse_version(other)


def test_language_host_may_be_in_another_folder_of_path(tmp_path):
    alone = make_engine(tmp_path / "alone", programs=PROGRAMS[:1])
    rest = make_engine(tmp_path / "rest", programs=PROGRAMS[1:])
    assert find_installed_pulumi_engine(f"{alone}:{rest}").defect is None
    (rest / PROGRAMS[2]).unlink()
    assert (
        find_installed_pulumi_engine(f"{alone}:{rest}").defect
        == f"its Python language host is missing ({PROGRAMS[2]})"
    )


@pytest.mark.parametrize("text", ["{", "[]", "7"])
def test_damaged_build_record_is_ignored(text):
    make_built()
    (installation.pulumi_engine_cache_folder() / "built.json").write_text(text)
    assert find_pulumi_engine("") is None


def test_every_recipe_file_changes_the_digest(tmp_path, monkeypatch):
    import shutil

    copy = tmp_path / "data"
    shutil.copytree(installation.engine_go_modules_folder(), copy)
    before = installation.compute_engine_build_digest()
    monkeypatch.setattr(installation, "engine_go_modules_folder", lambda: copy)
    assert installation.compute_engine_build_digest() == before
    assert len(before) == 16
    seen = {before}
    for name in ("pulumi/go.mod", "pulumi/go.sum", "language/go.mod", "language/go.sum"):
        with (copy / name).open("a") as file:
            file.write("\n")
        seen.add(installation.compute_engine_build_digest())
    assert len(seen) == 5
