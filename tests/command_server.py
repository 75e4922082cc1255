"""Run the command line in forks of a process that has imported it: importing takes longer than most commands do.

Each command is a process of its own, with its own environment, folder, streams and exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Python reads these when it starts.
READ_AT_START = ("PYTHON", "LANG", "LC_", "COVERAGE")
# What runs elsewhere, or takes long to import and is rarely needed.
NOT_IMPORTED = (
    "gpufleet.__main__", "gpufleet.burnin.agent", "gpufleet.burnin.checks", "gpufleet.catalog.prices.refresh",
    "gpufleet.cloud", "gpufleet.cost.inputs.program.child", "gpufleet.cost.inputs.program.monitor",
    "gpufleet.nodes.migrations", "gpufleet.rehearsal",
)  # fmt: skip
MEASURED = Path(
    sys.prefix, "current-test"
)  # tests/mutation measures what each process of a test runs, from its start
MESSAGE_BYTES = 1 << 20


class CommandServer:
    """The process that has imported the command line; it starts with the first command."""

    def __init__(self, environment):
        self.environment, self.process, self.socket = environment, None, None

    def run(self, arguments, cwd, env, stdin=None, timeout=600):
        """Run a command in an environment that may differ from the server's; return what ``subprocess.run`` would."""
        command = [sys.executable, "-m", "gpufleet", *map(str, arguments)]
        changed = {name for name in {*env, *self.environment} if env.get(name) != self.environment.get(name)}
        if MEASURED.exists() or any(name.startswith(READ_AT_START) for name in changed):
            return subprocess.run(
                command, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, timeout=timeout, check=False
            )  # fmt: skip
        self._start()
        ours, theirs = socket.socketpair()
        with (
            ours,
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write((stdin or "").encode())
            given.seek(0)
            request = {"arguments": command[3:], "cwd": str(cwd), "env": env}
            files = [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
            with theirs:
                socket.send_fds(self.socket, [json.dumps(request).encode()], files)
            code = self._await_exit_code(ours, command, timeout)
            return subprocess.CompletedProcess(command, code, *(read_text(file) for file in (out, err)))

    def stop(self):
        if self.process:
            self.socket.close()
            self.process.wait()

    def _start(self):
        if not self.process:
            self.socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable, __file__, str(theirs.fileno())],
                    env=self.environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                )  # fmt: skip

    def _await_exit_code(self, answers, command, timeout):
        deadline = time.monotonic() + timeout
        answers.settimeout(timeout)
        with answers.makefile() as lines:
            process = int(lines.readline())
            try:
                answers.settimeout(max(0.01, deadline - time.monotonic()))
                return os.waitstatus_to_exitcode(int(lines.readline()))
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout) from None


def read_text(file):
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def import_command_line():
    import gpufleet

    gc.disable()
    import_modules(gpufleet)
    gc.freeze()
    gc.enable()


def import_modules(package):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not module.name.startswith(NOT_IMPORTED):
            imported = importlib.import_module(module.name)
            if module.ispkg:
                import_modules(imported)


def serve(requests):
    """Fork for each request; return the request in the process that has to run it."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            requests.close()
            if (process := os.fork()) == 0:
                for descriptor, file in enumerate(files[:3]):
                    os.dup2(file, descriptor)
                for file in files:
                    os.close(file)
                return json.loads(message)
            os.write(files[3], f"{process}\n".encode())
            os.write(files[3], f"{os.waitpid(process, 0)[1]}\n".encode())
            os._exit(0)
        for file in files:
            os.close(file)
        while reap():
            pass


def reap():
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def main():
    requests = socket.socket(fileno=int(sys.argv[1]))
    import_command_line()
    request = serve(requests)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.path[0] = str(Path.cwd())
    sys.argv[:] = ["gpufleet", *request["arguments"]]
    runpy.run_module("gpufleet", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
