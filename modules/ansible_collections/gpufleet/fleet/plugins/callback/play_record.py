# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record which hosts each play selects and which of them finish it, as events of ansible-runner."""

from __future__ import annotations

DOCUMENTATION = """
name: play_record
type: aggregate
short_description: Record which hosts finish each play
description:
  - Ansible's statistics do not tell a host that finished a play from one that a failing batch left behind.
    This plugin adds two events to those of ansible-runner, C(gpufleet_play_selected) with the hosts of a play, and
    C(gpufleet_batch_ended) with those that finished a batch of it and those that did not.
  - Ansible prints a module's warnings as they are. Control sequences in them, which ansible-runner could take for the
    marks of an event, are made visible.
  - C(gpufleet configure) and C(gpufleet nodes ingest) count a host as done only by these. Without ansible-runner the
    plugin does nothing.
requirements: [to be listed in C(callbacks_enabled)]
author: gpufleet contributors (@gpufleet)
"""

import functools  # noqa: E402 - Ansible wants its documentation above the imports
import re  # noqa: E402
import sys  # noqa: E402
import uuid  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from typing import Any  # noqa: E402

from ansible.executor.task_result import CallbackTaskResult  # noqa: E402
from ansible.inventory.host import Host  # noqa: E402
from ansible.playbook import Playbook  # noqa: E402
from ansible.playbook.play import Play  # noqa: E402
from ansible.playbook.task import Task  # noqa: E402
from ansible.plugins.callback import CallbackBase  # noqa: E402
from ansible.utils.display import Display  # noqa: E402

RUNNER_DISPLAY = "ansible.plugins.callback.awx_display"  # ansible-runner's own callback, loaded only by it
NOT_A_COLOUR = re.compile(r"\x1b(?!\[[0-9;]*m)")


@dataclass
class _Batch:
    """A batch that runs. Ansible adds to ``removed`` each host on which it ends the play early, for any reason."""

    play_id: str
    hosts: list[str]
    removed: list[str]
    ended: set[str] = field(default_factory=set)  # by their own `meta: end_host`: done
    end_mark: tuple[int, str] | None = None  # length and last name of ``removed`` when an end_host began

    def mark_end_host(self) -> None:
        """Remember where Ansible is about to add the host of an ``end_host``."""
        self.end_mark = len(self.removed), self.removed[-1] if self.removed else ""

    def settle_end_host(self) -> None:
        """Find the host that an ``end_host`` ended: the first that was added since, unless it had failed before."""
        if self.end_mark is None:
            return
        (length, last), self.end_mark = self.end_mark, None
        is_unmoved = not length or (len(self.removed) >= length and self.removed[length - 1] == last)
        if is_unmoved and len(self.removed) > length and self.removed[length] not in self.removed[:length]:
            self.ended.add(self.removed[length])


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpufleet.fleet.play_record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._play_count = 0
        self._play_id = ""
        self._batch: _Batch | None = None
        _show_control_sequences()

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        self._play_count, self._play_id = len(playbook.get_plays()), ""

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Begin a batch: Ansible starts a play once for each, with the inventory limited to the batch."""
        self._end_batch()
        inventory = play.get_variable_manager()._inventory  # noqa: SLF001 - Ansible gives callbacks no other way
        play_id = play._uuid.partition("_")[0]  # noqa: SLF001 - as above; ansible-runner numbers the batches
        if play_id != self._play_id:
            self._play_id = play_id
            selected = inventory.get_hosts(play.hosts, ignore_restrictions=True)
            _emit_runner_event(
                "gpufleet_play_selected",
                play_id=play_id,
                play_count=self._play_count,
                selected=[host.name for host in selected],
                has_handlers=bool(play.handlers),
            )
        hosts = [host.name for host in inventory.get_hosts(play.hosts, order=play.order)]
        self._batch = _Batch(play_id, hosts, play._removed_hosts)  # noqa: SLF001 - as above

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:  # noqa: ARG002 - Ansible's signature
        self._settle_end_host()
        if self._batch and task._get_meta() == "end_host":  # noqa: SLF001 - as above
            self._batch.mark_end_host()

    v2_playbook_on_handler_task_start = v2_playbook_on_task_start

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        if self._batch and result.task._get_meta():  # noqa: SLF001 - as above
            self._batch.end_mark = None  # its condition was false
        self._settle_end_host()

    def v2_runner_on_start(self, host: Host, task: Task) -> None:  # noqa: ARG002 - as above
        self._settle_end_host()

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:  # noqa: ARG002 - as above
        self._settle_end_host()

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:  # noqa: ARG002 - as above
        self._settle_end_host()

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:  # noqa: ARG002 - as above
        self._settle_end_host()

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002 - as above
        self._end_batch()

    def _settle_end_host(self) -> None:
        if self._batch:
            self._batch.settle_end_host()

    def _end_batch(self) -> None:
        """Record the batch that has ended: nothing tells a callback so but what begins next."""
        self._settle_end_host()
        batch, self._batch = self._batch, None
        if batch is None:
            return
        left = set(batch.removed) - batch.ended
        _emit_runner_event(
            "gpufleet_batch_ended",
            play_id=batch.play_id,
            finished=[name for name in batch.hosts if name not in left],
            stopped=[name for name in batch.hosts if name in left],
        )


def _emit_runner_event(event: str, **data: Any) -> None:
    """Add an event to those of ansible-runner, in the way of its own callback.

    It is an event of its own and not a text: what a host sends can be printed, but does not become one.
    """
    context = getattr(sys.modules.get(RUNNER_DISPLAY), "event_context", None)
    if context is None or not hasattr(context, "cache"):
        return
    fields = {"event": event, "uuid": str(uuid.uuid4()), **data}
    with context.display_lock, context.set_local(**fields):
        context.dump_begin(sys.stdout)
        context.dump_end(sys.stdout)


def _show_control_sequences() -> None:
    """Let Ansible print no control sequence but colours: its output is where ansible-runner finds events.

    A host could write an event, also about other hosts, into a warning of its module.
    """
    original = Display.display

    @functools.wraps(original)
    def display(self: Display, msg: str, *args: Any, **kwargs: Any) -> None:
        original(self, NOT_A_COLOUR.sub("^[", msg), *args, **kwargs)

    Display.display = display
