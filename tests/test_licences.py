"""Test that every file has a licence, that it is the one that Ansible needs there, and that the wheel says both.

It checks what `reuse lint` checks: a licence and a copyright for each file, a text for each licence, and no other text.
"""

from __future__ import annotations

import ast
import email
import fnmatch
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
FLEET = ROOT / "modules/ansible_collections/gpufleet/fleet"
APACHE, GPL = "Apache-2.0", "GPL-3.0-or-later"
# Ansible imports these into its own process; ansible-test demands the GPL of modules.
GPL_FOLDERS = {
    "action", "callback", "doc_fragments", "filter", "inventory", "modules", "plugin_utils", "shell"
}  # fmt: skip
HEADER = re.compile(r"^# SPDX-License-Identifier: (.+)$", re.MULTILINE)
COPYRIGHT = re.compile(r"^# SPDX-FileCopyrightText: \S", re.MULTILINE)


def list_tracked_files():
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in lines if (ROOT / name).is_file()]


def read_licence_table():
    """Return the patterns of REUSE.toml with copyright and licence, in its order: the last that matches counts."""
    table = tomllib.loads((ROOT / "REUSE.toml").read_text())
    rows = []
    for each in table["annotations"]:
        paths = each["path"] if isinstance(each["path"], list) else [each["path"]]
        assert each["SPDX-FileCopyrightText"]
        rows += [(path, each["SPDX-License-Identifier"]) for path in paths]
    return rows


def find_licence(name, rows):
    """Return a file's licence: that of its header, else that of the table."""
    path = ROOT / name
    headers = HEADER.findall(path.read_text()) if path.suffix == ".py" and FLEET in path.parents else []
    assert len(headers) <= 1, name
    return (
        headers[0]
        if headers
        else next(licence for row, licence in reversed(rows) if fnmatch.fnmatch(name, row))
    )


def test_every_file_has_a_licence_and_every_licence_its_text():
    rows, names = read_licence_table(), list_tracked_files()
    licences = {find_licence(name, rows) for name in names}
    assert licences == {APACHE, GPL, "MIT"}
    assert {path.stem for path in (ROOT / "LICENSES").iterdir()} == licences
    for row, _ in rows:
        assert fnmatch.filter(names, row), f"{row} names no file"


PLUGIN_FILES = sorted((FLEET / "plugins").rglob("*.py"))


@pytest.mark.parametrize(
    "folder", sorted({path.relative_to(FLEET / "plugins").parts[0] for path in PLUGIN_FILES})
)
def test_code_that_ansible_imports_is_under_the_gpl_and_no_other(folder):
    expected = GPL if folder in GPL_FOLDERS else APACHE
    assert folder in {*GPL_FOLDERS, "module_utils"}
    for path in (FLEET / "plugins" / folder).rglob("*.py"):
        text = path.read_text()
        assert HEADER.findall(text) == [expected], path
        assert COPYRIGHT.search(text), path
        assert ("GNU General Public License v3.0+" in text) == (expected == GPL), (
            path
        )  # what validate-modules reads


def list_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_apache_code_imports_nothing_of_ansible_that_is_under_the_gpl():
    """ansible.module_utils.basic has the BSD licence; the package starts Ansible as a program."""
    for path in (FLEET / "plugins/module_utils").rglob("*.py"):
        imports = [name for name in list_imports(path) if name.split(".")[0] == "ansible"]
        assert set(imports) <= {"ansible.module_utils.basic"}, path
    for path in (ROOT / "modules/gpufleet").rglob("*.py"):
        roots = {name.split(".")[0] for name in list_imports(path)}
        assert not roots & {"ansible", "ansible_collections"}, path


def test_only_the_collection_has_code_under_the_gpl():
    rows = read_licence_table()
    gpl = [name for name in list_tracked_files() if find_licence(name, rows) == GPL]
    assert {(ROOT / name).relative_to(FLEET / "plugins").parts[0] for name in gpl} == GPL_FOLDERS


def test_collection_names_both_licences_and_has_their_texts():
    galaxy = YAML(typ="safe").load((FLEET / "galaxy.yml").read_text())
    assert set(galaxy["license"]) == {APACHE, GPL}
    for licence in (APACHE, GPL):
        text = (ROOT / f"LICENSES/{licence}.txt").read_text()
        assert (FLEET / f"LICENSES/{licence}.txt").read_text() == text
    assert "Version 3, 29 June 2007" in (ROOT / f"LICENSES/{GPL}.txt").read_text()
    assert "Version 2.0, January 2004" in (ROOT / f"LICENSES/{APACHE}.txt").read_text()


def test_test_data_of_others_has_the_licence_that_its_index_names():
    rows = read_licence_table()
    for index in (ROOT / "tests/cases/burnin/recorded").glob("*/index.yaml"):
        document = YAML(typ="safe").load(index.read_text())
        for case in document if isinstance(document, list) else document.get("cases", []):
            if isinstance(case, dict) and "licence" in case:
                name = (index.parent / case["file"]).relative_to(ROOT).as_posix()
                assert find_licence(name, rows) == case["licence"], name
    for program in (ROOT / "tests/cases/public_programs").glob("*.yaml"):
        name = program.relative_to(ROOT).as_posix()
        match = re.search(r"^licence: (\S+)$", program.read_text(), re.MULTILINE)
        assert match is None or find_licence(name, rows) == match[1], name


def test_wheel_states_both_licences_and_has_their_texts(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        message = email.message_from_bytes(archive.read(metadata))
        assert message["License-Expression"] == f"{APACHE} AND {GPL}"
        folder = metadata.removesuffix("METADATA")
        files = message.get_all("License-File")
        assert files == [f"LICENSES/{APACHE}.txt", f"LICENSES/{GPL}.txt"]
        for file in files:
            assert archive.read(f"{folder}licenses/{file}") == (ROOT / file).read_bytes()
        licences = {
            name: HEADER.findall(archive.read(name).decode()) for name in names if name.endswith(".py")
        }
    gpl = {name for name, found in licences.items() if found == [GPL]}
    assert all(found in ([], [APACHE], [GPL]) for found in licences.values())
    assert {name.split("/")[4] for name in gpl} == GPL_FOLDERS
    assert all(name.startswith("ansible_collections/gpufleet/fleet/plugins/") for name in gpl)
    assert f"ansible_collections/gpufleet/fleet/LICENSES/{GPL}.txt" in names
