"""The control service of a Receptor mesh: which nodes it has, and the units of work that run on them.

Every call opens its own connection, so that threads share nothing. All work is signed and goes through TLS to the
node: Receptor refuses a node that does not verify signatures or offers no TLS.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.extra import explain_missing_packages

WORK_TYPE = "ansible-runner"  # as AWX names it
TLS_CLIENT = "tlsclient"  # the name of the tls-client section in the controller's configuration
FINAL_STATES = ("Succeeded", "Failed", "Canceled")
CREATED = re.compile(r"Work unit created with ID (\w+)\. Send stdin data and EOF\.")
DETAIL_LIMIT = 300
ANSWER_SECONDS = 120.0  # for one answer of the control service; the start of a unit waits for its node


@dataclass(frozen=True)
class UnitStatus:
    """The state of a unit of work, with what Receptor reports about it."""

    state: str
    detail: str

    @property
    def is_final(self) -> bool:
        """True if the unit has ended."""
        return self.state in FINAL_STATES


@dataclass(frozen=True)
class MeshControl:
    """The Unix socket of the control service on this machine."""

    socket_path: Path

    def list_reachable_nodes(self) -> frozenset[str]:
        """Return the nodes that this one has a route to, and itself."""
        with self._connect() as control:
            status = control.simple_command("status")
        routes = status.get("RoutingTable") or {}
        return frozenset({*map(str, routes), str(status.get("NodeID") or "")})

    def submit_unit(
        self, node: str, payload: BinaryIO, parameters: str, on_created: Callable[[str], None]
    ) -> None:
        """Submit a unit of work; ``on_created`` gets its name before anything can fail on the node."""
        with self._connect(on_created) as control:
            control.submit_work(
                WORK_TYPE, payload, node=node, tlsclient=TLS_CLIENT, signwork=True, params={"params": parameters}
            )  # fmt: skip

    def open_unit_results(self, unit: str) -> tuple[socket.socket, BinaryIO]:
        """Return the stream of a unit's output and its socket, which another thread may shut down."""
        with self._connect() as control:
            connection, results = control.get_work_results(unit, return_socket=True, return_sockfile=True)
        connection.settimeout(None)  # a task may be silent for long
        return connection, results

    def read_unit_status(self, unit: str) -> UnitStatus:
        """Return the state of a unit."""
        with self._connect() as control:
            status = control.simple_command(f"work status {unit}")
        detail = make_printable(str(status.get("Detail") or ""), DETAIL_LIMIT)
        return UnitStatus(str(status.get("StateName") or ""), detail)

    def cancel_unit(self, unit: str) -> None:
        """Cancel a unit; if its node is lost, Receptor cancels it when the node is back."""
        with suppress(EnvironmentFault), self._connect() as control:
            control.simple_command(f"work cancel {unit}")

    def release_unit(self, unit: str) -> None:
        """Delete a unit here and on its node; if that is lost, Receptor deletes it when the node is back."""
        with suppress(EnvironmentFault), self._connect() as control:
            control.simple_command(f"work release {unit}")

    @contextmanager
    def _connect(self, on_created: Callable[[str], None] | None = None) -> Iterator[Any]:
        """Yield a connection; raise EnvironmentFault for anything that goes wrong with it."""
        with explain_missing_packages():
            from receptorctl.socket_interface import ReceptorControl

        class Control(ReceptorControl):  # type: ignore[misc] # untyped
            """Reports a unit's name also where its submission then fails: it must be released."""

            def handshake(self) -> None:
                self._socket.settimeout(ANSWER_SECONDS)
                super().handshake()

            def readstr(self) -> str:
                line = str(super().readstr())
                if on_created and (created := CREATED.fullmatch(line)):
                    on_created(created[1])
                return line

        control = Control(str(self.socket_path))
        try:
            yield control
        except (RuntimeError, ValueError, OSError) as error:
            reason = make_printable(str(error) or type(error).__name__, DETAIL_LIMIT)
            raise EnvironmentFault(f"mesh {self.socket_path}: {reason}") from error
        finally:
            with suppress(OSError):
                control.close()


def open_mesh_control(socket_path: str) -> MeshControl:
    """Return the control service; raise InputError if the path is not a Unix socket."""
    path = Path(socket_path.removeprefix("unix:")).expanduser()
    if not path.is_socket():
        raise InputError(
            f"{make_printable(path)} is not a socket", key="--mesh",
            remedy="give the socket of receptor's control-service, e.g. /run/receptor/control.sock",
        )  # fmt: skip
    return MeshControl(path)
