# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Add package repositories, each with a signing key that is verified by its fingerprint."""

from __future__ import annotations

DOCUMENTATION = """
module: repositories
short_description: Add package repositories, each with a signing key that is verified by its fingerprint
description:
  - Fetches each repository's key and compares its fingerprint with the expected ones. If one key is missing or differs,
    the task fails and no file is changed.
  - "The host then trusts exactly the expected keys, and only for this repository: the key file contains no other key.
    On Debian and Ubuntu it is the repository's C(Signed-By); on RHEL and its likes it is the repository's C(gpgkey)."
  - On Debian and Ubuntu it writes a C(.sources) file, and a preference file if the repository has a pin. It removes
    entries of the same repository from other files, because apt refuses a repository with two different keys.
  - On RHEL and its likes the action plugin adds the repository with M(ansible.builtin.yum_repository). It also enables
    the prerequisites and the module streams, as the vendors document it.
options:
  repositories:
    description: The repositories, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of its files., type: str, required: true}
      uri: {description: Address., type: str, required: true}
      suite: {description: Suite of apt; C(/) for a repository without suites., type: str, default: ""}
      components: {description: Components of apt., type: list, elements: str, default: []}
      architectures: {description: "apt's architectures; empty: all of the host.", type: list, elements: str,
                      default: []}
      key:
        description: Its signing key.
        type: dict
        required: true
        suboptions:
          url: {description: Address of the key. Not used if I(key_folder) is set., type: str, default: ""}
          fingerprints: {description: Fingerprints of primary keys that may sign., type: list, elements: str,
                         required: true}
          content: {description: The key itself; the action plugin reads it from I(key_folder)., type: str}
      pin:
        description: Preference of apt for the repository's packages.
        type: dict
        suboptions:
          packages: {description: Packages., type: str, default: "*"}
          release: {description: "Release in apt_preferences(5), such as C(o=repo.radeon.com).", type: str,
                    required: true}
          priority: {description: C(Pin-Priority)., type: int, required: true}
      signs_packages: {description: "dnf: whether the packages are signed.", type: bool, default: true}
      signs_metadata: {description: "dnf: whether the metadata is signed.", type: bool, default: false}
      priority: {description: "dnf: priority; a lower number wins.", type: int}
  prerequisites:
    description: >-
      What a host with dnf needs first. C(epel) and C(crb) (CodeReady Builder) are enabled; C(versionlock) is a plugin
      of dnf that is installed. apt ignores them.
    type: list
    elements: str
    choices: [epel, crb, versionlock]
    default: []
  streams:
    description: "dnf's module streams to enable, such as C(nvidia-driver:580-open). apt ignores them."
    type: list
    elements: str
    default: []
  key_folder:
    description: >-
      Folder on the controller with the keys as files, for hosts without access to the addresses of the keys. The names
      of the files do not matter: the fingerprint selects the file.
    type: path
    default: ""
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Add the repository of NVIDIA's container toolkit
  gpufleet.fleet.repositories:
    repositories:
      - name: nvidia-container-toolkit
        uri: https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)
        suite: /
        key:
          url: https://nvidia.github.io/libnvidia-container/gpgkey
          fingerprints: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]
"""

RETURN = """
changed_paths: {description: Files that were written or removed., returned: always, type: list, elements: str}
taken_over: {description: Files that named one of the repositories before., returned: always, type: list, elements: str}
package_manager: {description: C(apt) or C(dnf)., returned: always, type: str}
dnf: {description: "os-release, repositories and streams, for the action plugin.", returned: with dnf, type: dict}
key_paths: {description: Name of a repository to the file of its key., returned: always, type: dict}
"""

import re  # noqa: E402 - Ansible wants its documentation above the imports
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible.module_utils.urls import fetch_url  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import (  # noqa: E402
    apt_sources,
    files,
    packages,
    signing_key,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (  # noqa: E402
    HostError,
    first_nonempty_line,
    parse_os_release,
    run_program,
)

APT = Path("/etc/apt")
MODULES = Path("/etc/dnf/modules.d")
RPM_KEYS = Path("/etc/pki/rpm-gpg")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
TEXTS = {"type": "list", "elements": "str", "default": []}
KEY = {
    "url": {"type": "str", "default": ""},
    "fingerprints": {"type": "list", "elements": "str", "required": True, "no_log": False},
    "content": {"type": "str", "no_log": False},
}
PIN = {
    "packages": {"type": "str", "default": "*"},
    "release": {"type": "str", "required": True},
    "priority": {"type": "int", "required": True},
}
REPOSITORY = {
    "name": {"type": "str", "required": True},
    "uri": {"type": "str", "required": True},
    "suite": {"type": "str", "default": ""},
    "components": TEXTS,
    "architectures": TEXTS,
    "key": {"type": "dict", "required": True, "options": KEY, "no_log": False},
    "pin": {"type": "dict", "options": PIN},
    "signs_packages": {"type": "bool", "default": True},
    "signs_metadata": {"type": "bool", "default": False},
    "priority": {"type": "int"},
}
SPEC = {
    "repositories": {"type": "list", "elements": "dict", "required": True, "options": REPOSITORY},
    "prerequisites": {**TEXTS, "choices": ["epel", "crb", "versionlock"]},
    "streams": TEXTS,
    "key_folder": {"type": "path", "default": "", "no_log": False},
}


def key_path(manager: str, name: str) -> Path:
    """Return the path of a repository's key."""
    return APT / "keyrings" / f"{name}.asc" if manager == "apt" else RPM_KEYS / f"RPM-GPG-KEY-{name}"


def read_verified_key(module: AnsibleModule, repository: dict[str, Any], path: Path) -> str:
    """Return a repository's key; raise HostError unless it has an expected fingerprint."""
    key, name = repository["key"], repository["name"]
    expected = [signing_key.normalize_fingerprint(fingerprint) for fingerprint in key["fingerprints"]]
    if not expected:
        raise HostError(
            f"repository {name}: no fingerprint was given, so its key {key['url']} cannot be verified"
        )
    if key["content"] is not None:
        return signing_key.select_signing_keys(key["content"].encode(), expected, f"repository {name}")
    if path.is_file():
        present = path.read_bytes()
        if set(signing_key.list_key_fingerprints(present, str(path))) <= set(expected):
            return present.decode("ascii")
    return signing_key.select_signing_keys(
        fetch_key(module, key["url"], expected), expected, f"repository {name}: {key['url']}"
    )


def fetch_key(module: AnsibleModule, url: str, expected: list[str]) -> bytes:
    """Return what is at a key's address; raise HostError with the remedy if nothing can be read."""
    remedy = (
        f"save the key {expected[0]} in a folder on the controller and set gpufleet_key_folder"
        " (one role alone: its own ..._key_folder)"
    )
    if not url.startswith("https://"):
        raise HostError(f"{url or 'a key without an address'}: a key is fetched over https:// only; {remedy}")
    response, info = fetch_url(module, url, timeout=60)
    if response is None or info["status"] != 200:  # noqa: PLR2004
        raise HostError(f"cannot fetch the signing key {url}: {info['msg']}; {remedy}")
    data: bytes = response.read(signing_key.MAX_KEY_BYTES + 1)
    return data


def file_entry(path: Path, state: str, content: str | None = None) -> files.FileEntry:
    """Return one entry for module_utils.files."""
    return {
        "path": str(path), "state": state, "content": content, "lines": None, "remove": None, "target": None,
        "mode": None, "owner": "root", "group": None, "validate": None,
    }  # fmt: skip


def apt_entries(repository: dict[str, Any], path: Path) -> list[files.FileEntry]:
    """Return the source file of a repository, and its preference file if it has a pin."""
    source = APT / "sources.list.d" / f"{repository['name']}.sources"
    entries = [file_entry(source, "file", apt_sources.deb822_source_text(repository, str(path)))]
    pin = repository["pin"]
    if pin:
        # apt skips preference files with a dot in the name.
        name = f"{repository['name'].replace('.', '-')}-pin-{pin['priority']}"
        entries.append(file_entry(APT / "preferences.d" / name, "file", apt_sources.pin_text(pin)))
    return entries


def takeover_entries(repositories: list[dict[str, Any]]) -> list[files.FileEntry]:
    """Return the changes that remove the repositories from other source files."""
    own_files = {f"{repository['name']}.sources" for repository in repositories}
    architecture = run_program(["dpkg", "--print-architecture"])[1].strip()
    entries = []
    folder = APT / "sources.list.d"
    for path in [APT / "sources.list", *sorted([*folder.glob("*.list"), *folder.glob("*.sources")])]:
        if path.name in own_files or not path.is_file():
            continue
        before = after = path.read_text(encoding="utf-8", errors="surrogateescape")
        for repository in repositories:
            after = apt_sources.remove_repository(
                after, path.suffix == ".sources", repository["uri"], repository["suite"] or "/", architecture
            )
        if after != before:
            is_empty = not apt_sources.has_entries(after) and path.parent == folder
            entries.append(file_entry(path, "absent" if is_empty else "file", after))
    return entries


def requested_entries(
    module: AnsibleModule, manager: str
) -> tuple[list[files.FileEntry], list[files.FileEntry]]:
    """Return the files of all repositories, and those that another file named before; every key is verified."""
    repositories = module.params["repositories"]
    entries: list[files.FileEntry] = []
    for repository in repositories:
        if not NAME.fullmatch(repository["name"]):
            raise HostError(f"{repository['name']!r} is not a file name for a repository")
        path = key_path(manager, repository["name"])
        entries += [
            file_entry(path.parent, "directory"),
            file_entry(path, "file", read_verified_key(module, repository, path)),
        ]
        entries += apt_entries(repository, path) if manager == "apt" else []
    return entries, takeover_entries(repositories) if manager == "apt" else []


def read_dnf_host() -> dict[str, Any]:
    """Return os-release, the host's repositories (True: enabled) and its enabled module streams."""
    release = parse_os_release(Path("/etc/os-release").read_text("utf-8"))
    repositories = {}
    for state in ("disabled", "enabled"):
        status, out, err = run_program(["dnf", "-q", "repolist", f"--{state}"])
        if status != 0:
            raise HostError(f"dnf cannot list its repositories: {first_nonempty_line(err, out)}")
        # A heading, then one repository a line.
        repositories.update(
            {line.split()[0]: state == "enabled" for line in out.splitlines()[1:] if line.strip()}
        )
    streams = {}
    for path in MODULES.glob("*.module"):
        fields = dict(line.split("=", 1) for line in path.read_text("utf-8").splitlines() if "=" in line)
        if fields.get("state") == "enabled":
            streams[path.stem] = fields.get("stream", "")
    return {
        "os_id": release.get("ID", ""),
        "os_version": release.get("VERSION_ID", ""),
        "repositories": repositories,
        "streams": streams,
    }


def add_repositories(module: AnsibleModule) -> dict[str, Any]:
    """Write what differs; return Ansible's result."""
    manager = packages.find_package_manager_name()
    entries, older = requested_entries(module, manager)
    changes = files.plan_file_changes([*older, *entries])
    if not module.check_mode:
        files.apply_file_changes(changes)
    names = [repository["name"] for repository in module.params["repositories"]]
    needs_dnf = manager == "dnf" and (module.params["prerequisites"] or module.params["streams"])
    return {
        **({"dnf": read_dnf_host()} if needs_dnf else {}),
        "changed": bool(changes),
        "changed_paths": [str(change.path) for change in changes],
        "taken_over": [entry["path"] for entry in older],
        "package_manager": manager,
        "key_paths": {name: str(key_path(manager, name)) for name in names},
        "diff": [change.build_diff() for change in changes],
    }


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(**add_repositories(module))
    except HostError as error:
        module.fail_json(msg=error.msg, **error.result)


if __name__ == "__main__":
    main()
