"""Fields of `nvidia-smi -q -x`: a text that is N/A, an error or missing is never a number."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from gpufleet.burnin.evidence import NOT_APPLICABLE, Reading

ABSENT_TEXTS = frozenset({"", "N/A", "[N/A]", "Not Supported", "[Not Supported]", "Not Found"})
# What drivers from 570 on print for gpu_reset_status (NVML_ERROR_DEPRECATED).
DEPRECATED = "Requested functionality has been deprecated"


def read_text(element: Element, path: str) -> str:
    """Return an element's text; empty when it is missing or N/A."""
    value = (element.findtext(path) or "").strip()
    return "" if value in ABSENT_TEXTS else value


def read_number(element: Element, path: str) -> float | None:
    """Return the number of ``16x``, ``81559 MiB``, ``-2 C`` or ``3.0``; None for anything else."""
    match = re.fullmatch(r"(-?\d{1,12}(?:\.\d{1,6})?)(?:\s*[A-Za-z]{1,3})?", read_text(element, path))
    return float(match[1]) if match else None


def read_flag(element: Element, path: str) -> bool | None:
    """Return Yes/Active as True, No/Not Active as False."""
    return {"Yes": True, "Active": True, "No": False, "Not Active": False}.get(read_text(element, path))


def quote_field(gpu: Element, path: str) -> str:
    """Return the reason why a field is unknown."""
    found = gpu.find(path)
    text = "is missing" if found is None else f"is {(found.text or '').strip()[:40]!r}"
    return f"{path.rpartition('/')[2]} {text} on {gpu.get('id') or 'a GPU'}"


def is_absent(gpu: Element, path: str) -> bool:
    """Return whether a field is missing or N/A, and not an error's text."""
    element = gpu.find(path)
    text = "" if element is None else (element.text or "").strip()
    return element is None or (not len(element) and (text in ABSENT_TEXTS or text.strip("[]") == DEPRECATED))


def read_required_flag(gpu: Element, path: str, *, is_required: bool) -> Reading:
    """Return a flag as 0 or 1; an absent one does not apply unless this card must have it."""
    state = read_flag(gpu, path)
    if state is not None:
        return float(state)
    if not is_required and is_absent(gpu, path):
        return NOT_APPLICABLE
    return quote_field(gpu, path)
