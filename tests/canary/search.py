"""Search for secrets in all encodings in which a program may write them."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

LARGEST = 64 << 20  # no file that a job leaves is larger


@dataclass(frozen=True)
class Hit:
    """A secret, by the name of its input, and where it was found."""

    secret: str
    place: str

    def __str__(self) -> str:
        return f"{self.secret} in {self.place}"


def make_secret(name: str) -> str:
    """Return a secret that differs from its URL and JSON encodings."""
    return f'canary/{name}"{secrets.token_hex(12)}+&='


def encodings_of(secret: str) -> list[bytes]:
    """Return the secret plain, in base64 at each offset, URL-encoded, JSON-escaped and in hexadecimal."""
    data = secret.encode()
    encodings = {
        data,
        quote(secret, safe="").encode(),
        quote(secret).encode(),
        json.dumps(secret)[1:-1].encode(),
    }
    encodings |= {data.hex().encode(), base64.urlsafe_b64encode(data).rstrip(b"=")[:-2]}
    for lead in range(3):
        # The first and last characters depend on the bytes next to the secret.
        text = base64.b64encode(b"\0" * lead + data)
        encodings.add(text[(lead * 8 + 5) // 6 : -4])
    return sorted(encodings)


class Search:
    """Looks for several secrets at once."""

    def __init__(self, planted: Mapping[str, str]) -> None:
        self.forms = {name: encodings_of(secret) for name, secret in planted.items()}

    def names(self, data: bytes) -> list[str]:
        """Return the names of the secrets that stand in some bytes."""
        return [name for name, forms in self.forms.items() if any(form in data for form in forms)]

    def files(self, folders: Iterable[Path], *, excluded: Iterable[Path] = ()) -> Iterator[Hit]:
        """Yield the secrets in all files of folders, in their contents or their names."""
        left_out = {path.resolve() for path in excluded}
        for folder in folders:
            for path in folder.rglob("*"):
                yield from (Hit(name, f"the name {path}") for name in self.names(str(path).encode()))
                if path.is_file() and not path.is_symlink() and path.resolve() not in left_out:
                    data = b""
                    with suppress(FileNotFoundError):  # a host that runs meanwhile removes files
                        data = path.read_bytes()[:LARGEST]
                    yield from (Hit(name, str(path)) for name in self.names(data))
