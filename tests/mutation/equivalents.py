"""Mutants that no test can detect, each with its reason: the list in equivalents.yaml."""

from __future__ import annotations

from functools import lru_cache

import yaml
from rooms import ROOT
from sampling import Mutant

LIST = ROOT / "tests/mutation/equivalents.yaml"


@lru_cache(maxsize=1)
def _entries() -> dict[tuple[str, str], str]:
    entries = yaml.safe_load(LIST.read_text()) or []
    return {(entry["file"], entry["becomes"]): entry["reason"] for entry in entries}


def reason(mutant: Mutant) -> str | None:
    """Return why the mutant is the same program for its users; None where it is not listed."""
    _, after = mutant.changed_lines((ROOT / mutant.file).read_text())
    return _entries().get((mutant.file, after))
