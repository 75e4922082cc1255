"""INI files of other programs, such as ``ansible.cfg``: sections of plain texts, bounded size."""

from __future__ import annotations

from configparser import ConfigParser
from configparser import Error as ConfigError

from gpufleet.boundary.limit import OPERATOR_FILE, DocumentLimits
from gpufleet.boundary.text import build_size_limit_error, make_printable
from gpufleet.errors import InputError


def decode_ini(text: str, where: str, limits: DocumentLimits = OPERATOR_FILE) -> dict[str, dict[str, str]]:
    """Return the values of each section, as Ansible reads them: ``;`` starts a comment, ``%`` stays as it is."""
    if len(text) > limits.bytes:
        raise build_size_limit_error(len(text), where, limits)
    parser = ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
    try:
        parser.read_string(text)
    except ConfigError as error:
        raise InputError(f"is not an INI file: {make_printable(error, 120)}", where=where) from None
    return {section: dict(parser[section]) for section in parser.sections()}
