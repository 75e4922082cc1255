"""Building the engine: progress, faults, atomic and one at a time. A stand-in `go` does what Go would."""

from __future__ import annotations

import threading

import pytest

from gpufleet.engine import build, find, installation, toolchain
from gpufleet.errors import EnvironmentFault

# A stand-in for the go command: `list` names packages and modules, `build` writes the file after -o.
GO = """#!/bin/sh
case "$1" in
env) echo go1.26.8 ;;
list)
  case "$*" in
  *" -m "*) echo "{sdk}" ;;
  *) echo "go: downloading example.org/a v1.0.0" >&2; printf 'a\\nb\\nc\\n' ;;
  esac ;;
build)
  {build}
  for package in a b c; do echo "$package" >&2; done
  while [ "$1" != -o ]; do shift; done
  mkdir -p "$(dirname "$2")"
  printf '#!/bin/sh\\necho v3.258.0\\n' > "$2"; chmod 755 "$2" ;;
esac
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Give a machine with no engine, an empty cache, and a stand-in `go` whose build runs the given line."""
    monkeypatch.setattr("gpufleet.paths.user_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr("gpufleet.engine.gobuild.SECONDS_BETWEEN_LINES", 0.0)
    sdk = tmp_path / "sdk" / "python" / "cmd"
    sdk.mkdir(parents=True)
    (sdk / installation.LANGUAGE_EXEC).write_text("#!/bin/sh\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")

    def make(line=":"):
        (tools / "go").write_text(GO.format(sdk=tmp_path / "sdk", build=line))
        (tools / "go").chmod(0o755)

    make()
    return make


def test_the_engine_is_built_once(machine):
    said = []
    engine = build.ensure(said.append)
    assert engine == find()
    assert (engine.origin, engine.version) == ("built", installation.VERSION)
    assert sum("compiled 3 of 3 packages" in line for line in said) == 2  # the engine, its language host
    again = []
    assert build.ensure(again.append) == engine
    assert again == []


def test_a_build_leaves_no_workspace_behind(machine):
    build.ensure(lambda _line: None)
    assert sorted(path.name for path in installation.built_folder().parent.iterdir()) == [
        ".lock",
        installation.VERSION,
    ]


def test_leftovers_of_a_killed_build_are_removed(machine):
    leftover = installation.built_folder().parent / ".building-killed"
    leftover.mkdir(parents=True)
    build.ensure(lambda _line: None)
    assert not leftover.exists()


def test_a_failed_build_leaves_nothing_and_names_the_next_step(machine):
    machine("echo 'dial tcp: no route to host' >&2; exit 1")
    with pytest.raises(EnvironmentFault, match="no route to host") as caught:
        build.ensure(lambda _line: None)
    assert "gpufleet doctor --fix" in caught.value.hint
    assert find() is None
    assert [path.name for path in installation.built_folder().parent.iterdir()] == [".lock"]


def test_a_wrong_checksum_is_told_apart(machine):
    machine("echo 'verifying example.org/a@v1.0.0: checksum mismatch' >&2; exit 1")
    with pytest.raises(EnvironmentFault, match="checksum mismatch") as caught:
        build.ensure(lambda _line: None)
    assert "differs from the checksum" in caught.value.hint


def test_a_build_by_an_older_recipe_is_replaced(machine, monkeypatch):
    build.ensure(lambda _line: None)
    monkeypatch.setattr("gpufleet.engine.installation.recipe_digest", lambda: "new")
    monkeypatch.setattr("gpufleet.engine.build.recipe_digest", lambda: "new")
    assert find() is None
    assert build.ensure(lambda _line: None) == find()


def test_two_builds_at_once_build_once(machine, tmp_path):
    machine(f"echo x >> '{tmp_path}/builds'; sleep 0.3")
    said = []
    threads = [threading.Thread(target=build.ensure, args=(said.append,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "builds").read_text().count("x") == 2  # two programs, each built once
    assert any(line.startswith("waiting: another process") for line in said)


def test_an_old_go_is_not_taken(machine, tmp_path, monkeypatch):
    go = tmp_path / "tools" / "go"
    go.write_text(go.read_text().replace("go1.26.8", "go1.19.8"))
    assert toolchain.go_version(go) == (1, 19, 8)
    monkeypatch.setattr(toolchain, "_install", lambda command, _say: (tmp_path / "used").touch())
    assert toolchain.go(lambda _line: None) == toolchain.packaged_go()
    assert (tmp_path / "used").exists()


def test_a_toolchain_that_cannot_be_had_names_the_next_step(machine, tmp_path, monkeypatch):
    (tmp_path / "tools" / "go").unlink()
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(EnvironmentFault, match="no Go toolchain") as caught:
        toolchain.go(lambda _line: None)
    assert "install Go 1.26 or newer" in caught.value.hint


def test_the_recipe_names_no_addresses_and_pins_every_module():
    for module in ("pulumi", "language"):
        sums = (installation.recipe_folder() / module / "go.sum").read_text()
        assert "://" not in sums
        assert all(line.split()[2].startswith("h1:") for line in sums.splitlines())


def test_the_versions_told_are_those_of_the_recipe():
    engine = (installation.recipe_folder() / "pulumi" / "go.mod").read_text()
    host = (installation.recipe_folder() / "language" / "go.mod").read_text()
    assert f"github.com/pulumi/pulumi/pkg/v3 v{build.ENGINE.version}" in engine
    assert f"github.com/pulumi/pulumi/sdk/v3 v{build.ENGINE.version}" in engine
    assert f"github.com/pulumi/pulumi/sdk/v3 v{build.HOST.version}" in host
