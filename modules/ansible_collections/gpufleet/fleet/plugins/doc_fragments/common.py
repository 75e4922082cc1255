# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation that several modules share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = """
author: gpufleet contributors (@gpufleet)
attributes:
  check_mode: {description: Whether the module can run in check mode., support: full}
"""

    # Modules that an action plugin replaces.
    CONTROLLER = """
author: gpufleet contributors (@gpufleet)
notes:
  - Runs on the controller and changes nothing.
attributes:
  check_mode: {description: Whether the module can run in check mode., support: full}
"""
