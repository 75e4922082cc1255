"""XML from outside: no entities, no external documents, bounded size."""

from __future__ import annotations

from xml.etree.ElementTree import Element, ParseError

import defusedxml
import defusedxml.ElementTree

from gpufleet.boundary.limit import NODE_REPORT, DocumentLimits
from gpufleet.boundary.text import build_size_limit_error, make_printable
from gpufleet.errors import InputError


def decode_xml(text: str, where: str, limits: DocumentLimits = NODE_REPORT) -> Element:
    """Return the root element; a document that declares entities, or is nested too deep, is an InputError."""
    if len(text) > limits.bytes:
        raise build_size_limit_error(len(text), where, limits)
    if text.count("<") + text.count("=") > limits.values:  # starts of elements and of attributes' values
        raise InputError(f"contains more than {limits.values:,} values", where=where)
    try:
        root: Element = defusedxml.ElementTree.fromstring(text)
    except (ParseError, ValueError, LookupError, defusedxml.DefusedXmlException) as error:
        raise InputError(f"is not XML: {make_printable(error, 120)}", where=where) from None
    _check_depth(root, where, limits)
    return root


def _check_depth(root: Element, where: str, limits: DocumentLimits) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > limits.depth:
            raise InputError(f"is nested deeper than {limits.depth} levels", where=where)
        level = [child for element in level for child in element]
