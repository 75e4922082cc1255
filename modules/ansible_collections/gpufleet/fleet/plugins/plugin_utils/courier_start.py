# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
# os is there already; importing pathlib would be a third of this program's time.
# ruff: noqa: PTH102, PTH103, PTH104, PTH112, PTH120, PTH123, PTH208
"""Start a module of ours on the host: its sources are unpacked once, with bytecode, and used until the next start."""

import os
import stat
import sys

HOME = "/run/gpufleet"


def is_ours(path):
    """Say whether a folder is our own and nobody else can write to it."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def unpack(bundle, folder):
    """Unpack the sources: JSON, path to text."""
    import base64
    import json
    import zlib

    for path, text in json.loads(zlib.decompress(base64.b64decode(bundle))).items():
        os.makedirs(os.path.dirname(folder + "/" + path), exist_ok=True)
        with open(folder + "/" + path, "w", encoding="utf-8") as file:
            file.write(text)


def kept(name, digest, bundle):
    """Return the folder with the sources, kept for the next call; None where this login may keep none."""
    import shutil

    for folder in (HOME, HOME + "/code"):
        if not os.path.isdir(folder):
            try:
                os.mkdir(folder, 0o700)
            except OSError:
                return None
        if not is_ours(folder):
            return None
    folder = HOME + "/code/" + name + "-" + digest
    fresh = HOME + "/code/." + name + "-" + str(os.getpid())
    try:
        os.mkdir(fresh, 0o700)
        unpack(bundle, fresh)
        os.rename(fresh, folder)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        return folder if is_ours(folder) else None
    for other in os.listdir(HOME + "/code"):
        if other.startswith(name + "-") and other != name + "-" + digest:
            shutil.rmtree(HOME + "/code/" + other, ignore_errors=True)
    return folder


def start(name, digest, bundle, given):
    """Run the module's ``main``; it prints its result."""
    folder, passing = HOME + "/code/" + name + "-" + digest, None
    if not (is_ours(HOME) and is_ours(HOME + "/code") and is_ours(folder)):
        folder = kept(name, digest, bundle)
    if folder is None:
        import tempfile

        passing = tempfile.TemporaryDirectory(prefix="gpufleet-")
        folder = passing.name
        unpack(bundle, folder)
    sys.path[:] = [folder] + [path for path in sys.path if path not in ("", ".")]
    sys.dont_write_bytecode = False
    import importlib
    import json

    importlib.import_module("ansible.module_utils.basic").AnsibleModule.given = json.loads(given)
    try:
        importlib.import_module("ansible_collections.gpufleet.fleet.plugins.modules." + name).main()
    finally:
        if passing is not None:
            passing.cleanup()
