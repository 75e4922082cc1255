"""One `go build` with progress: how many packages of how many, and for how long."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpufleet.errors import EnvironmentFault

REPORT_INTERVAL_SECONDS = 5.0
# Without inlining the compiler needs two thirds of the processor time (100 and 64 s for gRPC and the S3 client,
# Go 1.26); the engine waits for providers, not for its own calls.
COMPILER_FLAGS = "all=-l"
CHECKSUM_HINT = (
    "a module differs from its checksum in gpufleet: check `go env GOPROXY`,"
    " run `go clean -modcache`, then `gpufleet doctor --fix` again"
)
DOWNLOAD_HINT = (
    "the build needs the Go module proxy: check the network and `go env GOPROXY`, then run"
    " `gpufleet doctor --fix` again (it resumes where it stopped), or install Pulumi itself"
)


@dataclass
class GoBuild:
    """Builds programs of the module in ``folder``, whose go.sum fixes every byte that comes in."""

    command: Path
    folder: Path
    name: str
    report: Callable[[str], None]
    start_time: float = field(default_factory=time.monotonic)
    last_report_time: float = 0.0

    def build_package(self, package: str, target: Path, linker_flags: str) -> None:
        """Download, compile and link ``package`` into ``target``."""
        modules = len((self.folder / "go.sum").read_text().splitlines()) // 2
        stale = "{{if .Stale}}{{.ImportPath}}{{end}}"
        listing = self._run_go(
            ["list", "-mod=readonly", "-deps", "-f", stale, package],
            lambda count, latest: f"downloading module {count} of at most {modules}: {latest.split()[-2]}",
            counted="go: downloading",
        )
        total = len(listing.split())
        self._report(f"{total} packages to compile")
        self._run_go(
            [
                *("build", "-v", "-mod=readonly", "-o", str(target)),
                *("-ldflags", linker_flags, "-gcflags", COMPILER_FLAGS, package),
            ],
            lambda count, latest: f"compiled {count} of {total} packages: {latest}",
        )
        self._report(f"linked, {target.stat().st_size / 1e6:.0f} MB")

    def find_go_module_folder(self, module: str) -> Path:
        """Return where Go keeps a module's source."""
        return Path(self._run_go(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]).strip())

    def _run_go(
        self, arguments: Sequence[str], progress: Callable[[int, str], str] | None = None, counted: str = ""
    ) -> str:
        """Run one go command; return its output, and report the progress at intervals."""
        with tempfile.TemporaryFile("w+") as output:
            code, tail = self._run_with_progress(arguments, output.fileno(), progress, counted)
            if code:
                raise self._build_fault(list(tail))
            output.seek(0)
            return output.read()

    def _run_with_progress(
        self, arguments: Sequence[str], output: int, progress: Callable[[int, str], str] | None, counted: str
    ) -> tuple[int, deque[str]]:
        # GOWORK and GOTOOLCHAIN: a workspace or a toolchain of the user's must not change what is built.
        environment = {**os.environ, "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
        process = subprocess.Popen(
            [str(self.command), *arguments],
            cwd=self.folder, env=environment, stdout=output, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        tail: deque[str] = deque(maxlen=20)
        count = 0
        with process:
            for line in process.stderr or ():
                tail.append(line.rstrip())
                count += line.startswith(counted)
                if progress and line.startswith(counted):
                    self._report_at_intervals(progress(count, line.strip()))
        return process.returncode, tail

    def _report_at_intervals(self, text: str) -> None:
        if time.monotonic() - self.last_report_time >= REPORT_INTERVAL_SECONDS:
            self._report(text)

    def _report(self, text: str) -> None:
        self.last_report_time = time.monotonic()
        seconds = int(self.last_report_time - self.start_time)
        self.report(f"{self.name}: {text}, {seconds // 60} min {seconds % 60:02} s")

    def _build_fault(self, tail: list[str]) -> EnvironmentFault:
        lines = [line for line in tail if line and not line.startswith("go: downloading")] or [
            "no reason given"
        ]
        checksum_error = next(
            (line for line in lines if "verifying" in line or "checksum mismatch" in line), None
        )
        return EnvironmentFault(
            f"cannot build {self.name}: {checksum_error or lines[-1]}",
            hint=CHECKSUM_HINT if checksum_error else DOWNLOAD_HINT,
        )
