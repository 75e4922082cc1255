# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Apply a firewall and confirm it over a connection that did not exist before. See the module of this name."""

from __future__ import annotations

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.confirmed_change import ConfirmedChangeAction


class ActionModule(ConfirmedChangeAction):
    module = "gpufleet.fleet.firewall"
