"""Shared libraries by their C prototypes: one table of text, compared with the vendor's headers by the tests."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Iterable, Mapping  # noqa: UP035 - Python 3.9 runs this

SCALARS: dict[str, Any] = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "size_t": ctypes.c_size_t,
    "unsigned char": ctypes.c_ubyte,
    "void": None,
}
# Where drivers and toolkits are that the loader's own search path does not list.
FOLDERS = (
    "usr/lib/*-linux-gnu",
    "usr/lib64",
    "usr/local/nvidia/lib64",
    "usr/local/cuda*/lib64",
    "usr/local/cuda*/targets/*/lib",
    "usr/lib/wsl/lib",
)


class LibraryError(RuntimeError):
    """A library or a function in it is missing, or a call failed; ``code`` is the vendor's."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


def parse_prototypes(table: str, types: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return argument types by function name from lines such as ``cuInit(unsigned int)``.

    A pointer is passed as an address, whatever it points to.
    """
    known = {**SCALARS, **types}
    functions: dict[str, list[Any]] = {}
    for line in filter(None, (line.strip() for line in table.splitlines())):
        name, _, rest = line.rstrip(")").partition("(")
        words = [word.strip() for word in rest.split(",")]
        functions[name] = [
            ctypes.c_void_p if word.endswith("*") else known[word] for word in words if word != "void"
        ]
    return functions


def find_library(names: Iterable[str], folders: Iterable[str] = FOLDERS) -> ctypes.CDLL:
    """Load the first of a library's names that there is, from the loader's path or from folders (patterns)."""
    errors = []
    for name in names:
        paths = [path for folder in folders for path in sorted(Path("/").glob(f"{folder}/{name}"))]
        for candidate in [name, *map(str, paths)]:
            try:
                return ctypes.CDLL(candidate)
            except OSError as error:
                if Path(candidate).is_absolute():
                    errors.append(str(error))
    raise LibraryError("; ".join(errors) or f"{next(iter(names))} is not installed")


class Library:
    """A loaded library: ``call`` raises for every result but 0, ``try_call`` returns the result code."""

    def __init__(self, library: ctypes.CDLL, prototypes: Mapping[str, list[Any]]) -> None:
        self.library, self.prototypes = library, prototypes
        self.functions: dict[str, Any] = {}

    def describe_error(self, code: int) -> str:
        """Return a result code as text; a library with names for its codes gives them."""
        return f"error {code}"

    def try_call(self, name: str, *arguments: Any) -> int | None:
        """Call a function and return its result code, or None when this version does not have it."""
        function = self.functions.get(name)
        if function is None:
            try:
                function = getattr(self.library, name)
            except AttributeError:
                return None
            function.argtypes, function.restype = self.prototypes[name], ctypes.c_int
            self.functions[name] = function
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed."""
        code = self.try_call(name, *arguments)
        if code is None:
            raise LibraryError(f"the installed version has no {name}")
        if code:
            raise LibraryError(f"{name}: {self.describe_error(code)}", code)

    def read_number(self, name: str, kind: Any, *arguments: Any) -> int:
        """Call a function whose first argument takes a number; return that number."""
        value = kind()
        self.call(name, ctypes.addressof(value), *arguments)
        return int(value.value or 0)

    def read_text(self, name: str, *arguments: Any, size: int = 96) -> str:
        """Call a function that fills a buffer given as ``BUFFER, size`` after ``arguments``; return the text."""
        buffer = ctypes.create_string_buffer(size)
        self.call(name, *arguments, ctypes.addressof(buffer), size)
        return buffer.value.decode("utf-8", "replace")
