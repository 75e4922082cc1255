# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refuse to evaluate a value while Ansible makes variables of nodes' facts. See plugin_utils/fact_injection.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.fact_injection import refuse_fact_injection

Value = TypeVar("Value")


def require_no_fact_injection(value: Value) -> Value:
    """Return the value; raise AnsibleError if facts of nodes become variables."""
    refuse_fact_injection()
    return value


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"without_fact_injection": require_no_fact_injection}
