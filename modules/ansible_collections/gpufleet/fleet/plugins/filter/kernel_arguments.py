# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which kernel arguments a host needs, which are not in force, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

KEYS = ("present", "absent")


def add_gigantic_page_arguments(present: Sequence[str], *, count: int) -> list[str]:
    """Return the arguments with those for pages of 1 GiB; raise AnsibleFilterError if both set the number of pages."""
    if not count:
        return list(present)
    # hugepages= belongs to the hugepagesz= before it (admin-guide/mm/hugetlbpage of the kernel).
    pages = [argument for argument in present if argument.partition("=")[0] in ("hugepagesz", "hugepages")]
    if pages:
        raise AnsibleFilterError(
            f"kernel_arguments_present has {' '.join(pages)}, and kernel_arguments_gigantic_pages is {count}:"
            " use one of the two"
        )
    return [*present, "hugepagesz=1G", f"hugepages={count}"]


def kernel_arguments_problem(inventory_value: Any, *, present: Any, absent: Any) -> str:
    """Return what is wrong with the inventory's gpufleet_kernel_arguments or the role's lists; empty if nothing is."""
    is_mapping = isinstance(inventory_value, Mapping)
    if not is_mapping or not set(inventory_value) <= set(KEYS):
        return (
            f"gpufleet_kernel_arguments is {inventory_value!r:.60}: must be a mapping with the lists present and"
            " absent, such as {present: [iommu=pt]}"
        )
    for name, value in (("present", present), ("absent", absent)):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return f"kernel arguments: {name} is {value!r:.60}: must be a list of texts, such as [iommu=pt]"
    return ""


def kernel_arguments_not_applied(set_result: Mapping[str, Any]) -> dict[str, str]:
    """Return each inactive argument with what it waits for; empty if the task did not run."""
    inactive = dict.fromkeys(set_result.get("inactive") or [], "in the boot loader; in force after a restart")
    return {**inactive, **(set_result.get("not_applied") or {})}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "kernel_arguments_not_applied": kernel_arguments_not_applied,
            "kernel_arguments_problem": kernel_arguments_problem,
            "with_gigantic_pages": add_gigantic_page_arguments,
        }
