"""An SSH server on loopback with host keys of the test's choice; it accepts one key and gives a recorded answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import paramiko

ANSWER = (Path(__file__).resolve().parent / "cases/remote/probe-rehearsed-blade.txt").read_bytes()


class FakeSshServer(paramiko.ServerInterface):
    """An SSH server that accepts one key and gives a recorded answer to any command."""

    def __init__(self, key, answer):
        self.key, self.answer = key, answer

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL if key == self.key else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        # The answer is written before this returns, and the channel stays open: the library confirms the request
        # only afterwards, and a channel that closes before its confirmation is a refused one.
        channel.sendall(self.answer)
        channel.send_exit_status(0)
        channel.shutdown_write()
        return True


@contextlib.contextmanager
def listening(serve):
    """Listen on a loopback port and serve each connection in a thread; give the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    serve(listener.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(host_keys, accepted_key, answer=ANSWER):
    """Serve SSH with these host keys; give the port."""
    transports = []

    def serve(connection):
        transport = paramiko.Transport(connection)
        for key in host_keys:
            transport.add_server_key(key)
        # Not in the listener's thread: a client that refuses the host key would end it.
        transport.start_server(server=FakeSshServer(accepted_key, answer), event=threading.Event())
        transports.append(transport)

    try:
        with listening(serve) as port:
            yield port
    finally:
        for transport in transports:
            transport.close()
