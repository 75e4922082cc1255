"""Build Debian's NVIDIA modules for Debian's own kernel, to the end, with the roles that a real host gets.

    make dkms                    or   PYTHONPATH=tests python -m dkms.job [--home DIR]

Needs root on Linux, Debian's archive and 5 to 30 minutes of one processor; a GPU is not needed. The job boots a host
with a fake T4, installs the distribution's driver (play drivers, role nvidia_driver), then Debian's kernel and headers
(play upgrade_os, role os_upgrade), whose package hooks let dkms compile. It prints what dkms and modinfo say about the
result. Exit status 1: the modules are not there, or are not for this kernel.

A host of a rehearsal is a container. It has its host's kernel, so the new kernel is not booted.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HOST = "dkms01"
KERNEL_PACKAGES = ["linux-image-amd64", "linux-headers-amd64"]
DRIVERS = {"gpufleet_drivers_restart": False, "gpufleet_software": {"origin": "distribution"}}
UPGRADE = {
    "os_upgrade_in_container": True,
    "os_upgrade_kernel_packages": KERNEL_PACKAGES,
    "os_upgrade_restart": False,
    "os_upgrade_without_fallback": True,
}
QUESTIONS = (
    "dkms status",
    "dpkg-query -W linux-image-amd64 linux-headers-amd64 nvidia-kernel-dkms",
    "modinfo -k {kernel} nvidia-current | grep -E '^(filename|version|license|vermagic|signer|sig_hashalgo):'",
    "ls -l /lib/modules/{kernel}/updates/dkms",
    "cat /var/lib/gpufleet/kernels.json",
)


def load_lab() -> Any:
    """Load tests/roles/lab.py by its path: tests are not packages."""
    spec = importlib.util.spec_from_file_location("gpufleet_lab", ROOT / "tests/roles/lab.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpufleet_lab"] = module
    spec.loader.exec_module(module)
    return module


def run_play(lab: Any, name: str, variables: dict[str, Any]) -> dict[str, Any]:
    """Run a play; print how long it took; exit with its failure, else return the last kernel state that it read."""
    started = time.monotonic()
    run = lab.run(ROOT / f"playbooks/{name}.yml", limit=HOST, extra_vars=variables)
    print(f"play {name}: {time.monotonic() - started:.0f} s", flush=True)
    if failure := run.failure_text(HOST):
        sys.exit(f"play {name} failed: {failure}")
    states = [
        result.output["state"]
        for result in run.results_of(HOST, "ok")
        if "kernels" in result.output.get("state", {})
    ]
    return states[-1] if states else {}


def build_modules(lab: Any) -> int:
    """Run both plays, print the modules, and return the exit status."""
    lab.up({HOST: {"kind": "servers", "accelerators": [{"model": "T4", "count": 1}]}})
    run_play(lab, "drivers", DRIVERS)
    state = run_play(lab, "upgrade_os", UPGRADE)
    newest = state["kernels"][0]
    host = lab.host(HOST)
    for question in QUESTIONS:
        command = question.format(kernel=newest["release"])
        answer = host.run(command)
        print(f"\n$ {command}\n{answer.stdout}{answer.stderr}".rstrip(), flush=True)
    modules = {name: row["vermagic"] for name, row in newest["modules"].items() if name.startswith("nvidia")}
    is_built = bool(modules) and all(
        vermagic.startswith(newest["release"] + " ") for vermagic in modules.values()
    )
    print(
        f"\n{'built' if is_built else 'NOT built'} for {newest['release']}: {', '.join(modules) or 'no module'}"
    )
    return 0 if is_built else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--home", type=Path, help="folder of the rehearsed host (default: a temporary one)")
    options = parser.parse_args()
    module = load_lab()
    with tempfile.TemporaryDirectory(prefix="gpufleet-dkms-") as folder:
        lab = module.Lab(options.home or Path(folder))
        try:
            return build_modules(lab)
        finally:
            lab.down()


if __name__ == "__main__":
    sys.exit(main())
