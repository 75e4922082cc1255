"""Writes a rack's first boot to disk: cloud-init seeds, firmware settings, host keys known before anybody asks.

A host key that the node makes itself reaches us over the very network that it is to protect. So the controller makes
it, keeps it (a second export gives the same one) and puts its public half into known_hosts; the node gets the
private half with its seed and removes that copy once sshd has it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpufleet import fleet, paths
from gpufleet.boundary import convert_full_disk, sync_to_disk
from gpufleet.errors import InputError
from gpufleet.fleet import Rack, RackNode
from gpufleet.nodes import first_boot
from gpufleet.remote import parse_host_patterns

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class FirstBootExportRequest:
    """What to export where; ``nodes`` are names or ranges, none means all of the rack."""

    rack: str
    nodes: tuple[str, ...] = ()
    out: Path | None = None
    known_hosts: Path | None = None


@dataclass(frozen=True)
class FirstBootExportResult:
    folder: Path
    export: first_boot.RackFirstBootFiles
    known_hosts: Path | None = None
    user: str = "root"
    logins: tuple[str, ...] = ()

    def format_summary_lines(self) -> list[str]:
        """Return what was written, and what a person does next."""
        names = ", ".join(seed.node.name for seed in self.export.seeds)
        text_lines = [f"{self.folder}: {names}", f"may log in as {self.user}: {', '.join(self.logins)}"]
        text_lines += [f"not written: {note}" for note in self.export.notes]
        if self.known_hosts:
            text_lines.append(f"{self.known_hosts}: {len(self.export.known_hosts_lines())} lines")
        elif self.export.known_hosts_lines():
            text_lines.append(
                f"host keys: {self.folder / 'known_hosts'} (--known-hosts FILE puts them where ssh looks)"
            )
        text_lines.append(
            "user-data holds each node's private host key: write it to that node's disk and nowhere else"
        )
        return text_lines


def export_first_boot(request: FirstBootExportRequest, root: Path | None = None) -> FirstBootExportResult:
    """Export the first boot of a rack's nodes."""
    root = root or paths.find_project_root()
    rack = load_project_rack(root, request.rack)
    nodes = select_rack_nodes(rack, request.nodes)
    key_folder = paths.state_home(root) / "ssh" / "host_keys" / rack.name
    pregenerated = rack.boot is not None and rack.boot.host_keys == "pregenerated"
    keys = list_login_public_keys(rack, root)
    export_files = first_boot.build_first_boot_files(
        rack, nodes, keys, lambda node: ensure_ssh_host_key(key_folder, node) if pregenerated else None
    )
    folder = request.out or paths.state_home(root) / "export" / rack.name
    with raise_write_errors_as_input_errors("--output", folder):
        replace_export_folder(folder, export_files.files_by_path())
    if request.known_hosts and export_files.known_hosts_lines():
        with raise_write_errors_as_input_errors("--known-hosts", request.known_hosts):
            update_known_hosts(request.known_hosts, export_files.known_hosts_lines())
    user = rack.boot.user if rack.boot else "root"
    written_known_hosts = request.known_hosts if export_files.known_hosts_lines() else None
    return FirstBootExportResult(
        folder, export_files, written_known_hosts, user, tuple(map(public_key_label, keys))
    )


@contextmanager
def raise_write_errors_as_input_errors(option: str, path: Path) -> Iterator[None]:
    """Raise InputError with the path and the reason if nothing could be written, EnvironmentFault on a full disk."""
    try:
        with convert_full_disk(str(path)):
            yield
    except OSError as error:
        problem = f"{path} can't be written: {(error.strerror or str(error)).lower()}"
        raise InputError(problem, where=option, remedy="choose another folder") from error


def load_project_rack(root: Path, rack_name: str) -> Rack:
    """Return a rack of the project by its name."""
    path = root / "inventory" / f"{rack_name}.yaml"
    if Path(rack_name).name != rack_name or not path.is_file():
        rack_names = ", ".join(sorted(file.stem for file in (root / "inventory").glob("*.yaml")))
        raise InputError(
            f"inventory/{rack_name}.yaml not found", where="--rack", remedy=f"racks: {rack_names or 'none'}"
        )
    return fleet.load_rack(path, root)


def select_rack_nodes(rack: Rack, names: Sequence[str]) -> list[RackNode]:
    """Return the nodes meant, all without names; InputError for a name that the rack does not have."""
    if not names:
        return list(rack.nodes)
    pattern = parse_host_patterns(names, "--node")
    if unknown_names := pattern.names - {node.name for node in rack.nodes}:
        raise InputError(f"rack {rack.name} has no {', '.join(sorted(unknown_names))}", where="--node")
    selected = pattern.combine(lambda name: {name})
    return [node for node in rack.nodes if node.name in selected]


def list_login_public_keys(rack: Rack, root: Path) -> list[str]:
    """Return the keys that may log in: the rack's own and those of the stack that it names."""
    if rack.boot is None:
        return []  # the export says that the section is missing
    ssh = rack.boot.ssh
    stack_keys = fleet.load_fleet(ssh.stack, root).ssh.authorized_keys if ssh.stack else ()
    keys = list(dict.fromkeys([*ssh.authorized_keys, *stack_keys]))
    if not keys:
        remedy = f"give stack {ssh.stack} ssh.authorized_keys, or boot.ssh.authorized_keys"
        raise InputError(
            "no SSH key may log in to the nodes",
            where=f"inventory/{rack.name}.yaml",
            key="boot.ssh",
            remedy=remedy,
        )
    return keys


def public_key_label(public_key: str) -> str:
    """Return a public key as people know it: its comment, or its type and end."""
    kind, body, *comment = public_key.split(None, 2)
    return comment[0] if comment else f"{kind} …{body[-8:]}"


def ensure_ssh_host_key(folder: Path, node: RackNode) -> first_boot.SshHostKey:
    """Return the node's host key, made once and kept."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = folder / node.name
    if path.is_file():
        key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    else:
        key = Ed25519PrivateKey.generate()
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
        secret = key.private_bytes(encoding, form, serialization.NoEncryption())
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file_atomically(path, secret.decode(), 0o600)
    encoding, public = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    text = key.public_key().public_bytes(encoding, public).decode()
    return first_boot.SshHostKey(path.read_text(), f"{text} {node.name}")


def write_file_atomically(path: Path, text: str, mode: int) -> None:
    """Write a file whole or not at all, also in a power loss, with its mode from its first byte on."""
    with convert_full_disk(str(path)):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                os.fchmod(handle, mode)
                file.write(text)
            sync_to_disk(Path(name))
            Path(name).replace(path)
            sync_to_disk(path.parent)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def replace_export_folder(folder: Path, files: dict[str, str]) -> None:
    """Replace an earlier export by these files, completely or not at all; a foreign folder is refused."""
    if folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir()):
        raise InputError(
            "the folder is not empty and is not an earlier export",
            where=str(folder),
            remedy="choose another --output",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    old = fresh.with_name(fresh.name + ".old")
    try:
        for name, text in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file_atomically(path, text, 0o600 if path.name in first_boot.SECRET else 0o644)
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def update_known_hosts(path: Path, lines: list[str]) -> None:
    """Replace the lines of these hosts in a known_hosts file; other lines stay as they are."""
    hosts = {line.split()[0] for line in lines}
    current_lines = path.read_text().splitlines() if path.is_file() else []
    remaining = [line for line in current_lines if not line.split() or line.split()[0] not in hosts]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_file_atomically(path, "\n".join([*remaining, *lines]) + "\n", 0o600)
