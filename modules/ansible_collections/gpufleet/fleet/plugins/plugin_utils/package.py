# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Python package gpufleet, which plugins adapt: it may be missing on a controller that only has the collection."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ansible.errors import AnsibleError

_import_errors: list[ImportError] = []


@contextmanager
def defer_import_errors() -> Iterator[None]:
    """Import the package inside. If it is missing, the plugin still loads, so that ansible-doc can show it."""
    try:
        yield
    except ImportError as error:
        _import_errors.append(error)


def require_gpufleet() -> None:
    """Raise AnsibleError, in one line with the remedy, if an import failed. Every plugin calls it before its work."""
    if _import_errors:
        raise AnsibleError(
            "The collection gpufleet.fleet needs the Python package gpufleet on the controller: "
            f"{sys.executable} -m pip install 'gpufleet[registry]' ({_import_errors[0]})"
        )
