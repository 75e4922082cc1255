"""Try mutants: a mutated file in the sandbox, the chosen tests, and what came of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sampling import Mutant
from sandbox import Sandbox
from selection import Selection

SERVER = Path(__file__).with_name("trial_server.py")
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


class Server:
    """The process in the sandbox that runs tests for us."""

    def __init__(self, copy: Sandbox) -> None:
        self.copy = copy
        self.log = copy.root.parent / "last-run.txt"
        self.process = subprocess.Popen(
            [copy.python, SERVER], cwd=copy.root, env=copy.clean_environment(), text=True,
            start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def request(self, **request) -> dict:
        self.process.stdin.write(json.dumps({"log": str(self.log), **request}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("mutants: the process that runs the tests has ended")
        return json.loads(answer)

    def close(self) -> None:
        """End the process and the tests that it runs."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


@dataclass(frozen=True)
class Trial:
    mutant: Mutant
    outcome: str
    noticed_by: str
    tried: int
    seconds: float


class Trials:
    """Tries mutants one after the other."""

    def __init__(self, copy: Sandbox, server: Server, selection: Selection) -> None:
        self.copy, self.server, self.selection = copy, server, selection
        self.sound: set[str] = set()
        self.unsound: set[str] = set()

    def run(self, mutant: Mutant) -> Trial:
        """Try one mutant. A test counts only if it passes in the same selection on the code as it is."""
        source = (self.copy.root / mutant.file).read_text()
        changed = mutant.apply(source)
        spent = 0.0
        while True:
            tests = [test for test in self.selection.tests(mutant) if test not in self.unsound]
            if not tests:
                return Trial(mutant, SURVIVED, "", 0, spent)
            limit = 30 + 6 * sum(self.selection.coverage.seconds[test] for test in tests)
            with self.copy.apply_mutant(mutant.file, changed or source):
                answer = self.server.request(tests=tests, timeout=limit)
            spent += answer["seconds"]
            if answer["code"] == 0:
                return Trial(mutant, SURVIVED, "", len(tests), spent)
            if answer["code"] is None:
                return Trial(mutant, TIMEOUT, "", len(tests), spent)
            failed = answer["failed"]
            if failed not in tests or self._is_sound(failed, tests):
                return Trial(mutant, KILLED, failed, len(tests), spent)

    def _is_sound(self, failed: str, tests: list[str]) -> bool:
        if failed not in self.sound:
            upto = tests[: tests.index(failed) + 1]
            answer = self.server.request(tests=upto, timeout=600)
            if answer["code"] != 0:
                self.unsound.add(answer["failed"] or failed)
                return False
            self.sound.update(upto)
        return True
