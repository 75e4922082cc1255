"""Test the export of a rack's first boot: complete or not at all, with stable keys and known_hosts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gpufleet import fleet
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.operations import export
from gpufleet.operations.export import FirstBootExportRequest


@pytest.fixture
def run_export(shared_project, tmp_path, monkeypatch):
    """Run an export in the project, with a state home of the test's own."""
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path / "home"))

    def go(*nodes, rack="blades-1", **more):
        return export.export_first_boot(FirstBootExportRequest(rack, nodes, **more), shared_project)

    return go


def test_every_node_of_the_rack_has_its_files(run_export):
    result = run_export()
    assert result.folder.parts[-2:] == ("export", "blades-1")
    assert sorted(path.name for path in (result.folder / "blade20").iterdir()) == [
        "boot.conf", "cmdline.append.txt", "config.append.txt", "meta-data", "network-config", "user-data",
    ]  # fmt: skip
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert len(manifest["nodes"]) == 20
    assert json.loads((result.folder / "addresses.json").read_text())["blades-1/20"] == "10.20.1.30"


def test_output_names_the_login_keys(run_export):
    """A key is shown by its comment, so an example key is noticed before twenty blades boot with it."""
    assert (
        "may log in as root: example-key-private-half-thrown-away"
        in run_export("blade01").format_summary_lines()
    )
    assert (
        export.public_key_label("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA12345678") == "ssh-ed25519 …12345678"
    )


def test_files_with_private_keys_are_readable_by_their_owner_only(run_export):
    folder = run_export("blade01").folder
    assert (folder / "blade01/user-data").stat().st_mode & 0o777 == 0o600
    key_file = next((folder.parents[1] / "ssh/host_keys/blades-1").iterdir())
    assert key_file.stat().st_mode & 0o777 == 0o600


def test_second_export_has_the_same_host_keys(run_export):
    before = (run_export("blade[01-02]").folder / "known_hosts").read_text()
    after = (run_export("blade[01-03]").folder / "known_hosts").read_text()
    assert after.startswith(before)


def test_known_hosts_keeps_entries_of_other_hosts(run_export, tmp_path):
    known = tmp_path / "ssh/known_hosts"
    known.parent.mkdir()
    known.write_text("10.20.1.11 ssh-ed25519 OLD\ngit.example.org ssh-ed25519 OTHER\n\n# a note\n")
    run_export("blade01", known_hosts=known)
    lines = known.read_text().splitlines()
    assert lines[:3] == ["git.example.org ssh-ed25519 OTHER", "", "# a note"]
    assert [line.split()[0] for line in lines[3:]] == ["10.20.1.11", "blade01"]
    assert "OLD" not in known.read_text()


def test_unrelated_folder_is_refused_and_unchanged(run_export, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years")
    with pytest.raises(
        InputError, match="the folder is not empty and is not an earlier export; choose another --output"
    ):
        run_export(out=tmp_path / "mine")
    assert (tmp_path / "mine/thesis.txt").read_text() == "years"


def test_failed_write_keeps_the_earlier_export(run_export, tmp_path, monkeypatch):
    out = tmp_path / "out"
    run_export("blade01", out=out)
    before = {path: path.read_text() for path in out.rglob("*") if path.is_file()}
    real = export.write_file_atomically

    def full(path, text, mode):
        if path.name == "manifest.json":
            raise OSError(28, "No space left on device")
        real(path, text, mode)

    monkeypatch.setattr(export, "write_file_atomically", full)
    with pytest.raises(EnvironmentFault, match="cannot be written: No space left on device"):
        run_export("blade02", out=out)
    assert {path: path.read_text() for path in out.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rack": "blades-9"}, "--rack: inventory/blades-9.yaml not found; racks: bench-1, blades-1"),
        ({"rack": "bench-1"}, "inventory/bench-1.yaml: boot: is missing"),
    ],
)
def test_invalid_rack_is_reported_in_one_line(run_export, options, message):
    with pytest.raises(InputError) as excinfo:
        run_export(**options)
    assert str(excinfo.value).startswith(message)


def test_node_of_another_rack_is_refused(run_export):
    with pytest.raises(InputError, match="--node: rack blades-1 has no bench01"):
        run_export("bench01")


@pytest.mark.parametrize(
    ("names", "selected"),
    [
        ((), ["blade07", "blade08", "blade09"]),
        (("blade[07-09]:!blade08",), ["blade07", "blade09"]),
        (("blade[07-08]", "!blade07"), ["blade08"]),
    ],
)
def test_exactly_the_named_nodes_are_exported(names, selected):
    rack = SimpleNamespace(name="r", nodes=[SimpleNamespace(name=f"blade0{slot}") for slot in (7, 8, 9)])
    assert [node.name for node in export.select_rack_nodes(rack, names)] == selected


@pytest.mark.parametrize(
    ("name", "error"), [("blade07:!blade07", CheckFailed), ("", InputError), ("!blade07", InputError)]
)
def test_names_of_no_node_never_mean_the_complete_rack(name, error):
    rack = SimpleNamespace(name="r", nodes=[SimpleNamespace(name="blade07")])
    with pytest.raises(error, match=r"^--node: "):
        export.select_rack_nodes(rack, (name,))


def test_rack_without_login_keys_is_refused_before_writing(shared_project, tmp_path, monkeypatch):
    rack = fleet.load_rack(shared_project / "inventory/blades-1.yaml", shared_project)
    bare = SimpleNamespace(ssh=fleet.SshAccess())
    monkeypatch.setattr(fleet, "load_fleet", lambda _stack, _root: bare)
    with pytest.raises(
        InputError,
        match=r"boot.ssh: no SSH key may log in to the nodes; give stack production ssh.authorized_keys",
    ):
        export.list_login_public_keys(rack, shared_project)


def test_unwritable_path_is_reported_in_one_line(run_export, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        InputError, match=r"--output: .*/file/deep/out can't be written: not a directory; choose another"
    ):
        run_export("blade01", out=tmp_path / "file/deep/out")
    with pytest.raises(
        InputError, match=r"--known-hosts: .*/file/deep/known can't be written: not a directory"
    ):
        run_export("blade01", known_hosts=tmp_path / "file/deep/known")
    with pytest.raises(InputError, match=r"inventory/\.\./blades-1\.yaml not found"):
        run_export("blade01", rack="../blades-1")
