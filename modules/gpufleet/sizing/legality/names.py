"""Names that mean several parts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.sizing.legality.rule import Case, rule

SEVERAL = {
    "rtx6000": "a 24 GB Turing card (Quadro RTX 6000), a 48 GB Ada card and a 96 GB Blackwell card (RTX PRO 6000)",
    "nvidiartx6000": "a 24 GB Turing card (Quadro RTX 6000), a 48 GB Ada card and a 96 GB Blackwell card",
}


@rule(
    "ambiguous-name",
    reason="one name, several parts",
    source="research on planning documents, 2026-11: RTX 6000 of 24 GB (Turing) and of 48 GB (Ada)",
)
def ambiguous_name(case: Case) -> Iterator[str]:
    meant = SEVERAL.get(re.sub(r"[^a-z0-9]", "", case.asked.lower()))
    part = case.hardware.accelerator
    if meant:
        yield f"{case.asked!r} is the name of {meant}: answered for {part.name} with {part.memory_gib:g} GB"
