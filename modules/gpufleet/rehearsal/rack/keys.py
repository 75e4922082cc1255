"""The rehearsal's SSH keys: one for the operator, one per host, and the known-hosts file with the hosts' keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

KEY_NAME = "id_ed25519"


def ensure_ssh_key(path: Path, comment: str) -> str:
    """Create an ed25519 key pair at a path if it does not exist; return the public key line."""
    public = path.with_name(f"{path.name}.pub")
    if not (path.exists() and public.exists()):
        private_text, public_text = _generate_key(comment)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(private_text)
        public.write_text(public_text)
    return public.read_text().strip()


def format_known_hosts(keys_by_address: Mapping[str, str]) -> str:
    """Return the text of a known-hosts file from address -> public key."""
    return "".join(f"{address} {' '.join(key.split()[:2])}\n" for address, key in keys_by_address.items())


def _generate_key(comment: str) -> tuple[bytes, str]:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return private, f"{public.decode()} {comment}\n"
