"""The rehearsal's SSH keys: one for the operator, one per host, and the known-hosts file that ties them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

KEY_NAME = "id_ed25519"


def ensure_key(path: Path, comment: str) -> str:
    """Make an ed25519 key pair at a path unless it is there; return the public line."""
    public = path.with_name(f"{path.name}.pub")
    if not (path.exists() and public.exists()):
        private_text, public_text = _generate(comment)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(private_text)
        public.write_text(public_text)
    return public.read_text().strip()


def known_hosts(keys: Mapping[str, str]) -> str:
    """Return a known-hosts text: for each address the public key that its host has."""
    return "".join(f"{address} {' '.join(key.split()[:2])}\n" for address, key in keys.items())


def _generate(comment: str) -> tuple[bytes, str]:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return private, f"{public.decode()} {comment}\n"
