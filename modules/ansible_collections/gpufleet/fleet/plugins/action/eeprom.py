# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Take the module of this name to the host by the courier, which spares the host AnsiballZ's start."""

from __future__ import annotations

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.courier import CourierAction


class ActionModule(CourierAction):
    pass
