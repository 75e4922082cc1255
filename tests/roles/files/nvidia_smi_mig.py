#!/usr/bin/python3
"""FAKE nvidia-smi for MIG: answers only what gpufleet-mig asks, in the words of NVIDIA's MIG user guide (v580).

State lies in $NVIDIA_SMI_STATE or /etc/gpufleet-rehearsal/mig.json: {"gpus": [{"mode", "instances"}], "calls": [],
"no_reset": bool, "apps": []}. It knows no placements: what does not fit is refused before, by gpufleet.drivers.mig.
"""

import json
import os
import sys
from pathlib import Path

FILE = Path(os.environ.get("NVIDIA_SMI_STATE", "/etc/gpufleet-rehearsal/mig.json"))
state = json.loads(FILE.read_text())
gpus, arguments = state["gpus"], sys.argv[1:]
state.setdefault("calls", []).append(" ".join(arguments))


def chosen():
    return [gpus[int(arguments[arguments.index("-i") + 1])]] if "-i" in arguments else gpus


def answer():
    if arguments[0] == "--version":
        print("NVIDIA-SMI version  : 580.95.05 (FAKE)")
    elif arguments[0].startswith("--query-gpu=driver_version"):
        print(*["580.95.05"] * len(gpus), sep="\n")
    elif arguments[0].startswith("--query-gpu=index,mig"):
        for number, gpu in enumerate(gpus):
            print(f"{number}, {gpu['mode']}, {gpu.get('pending', gpu['mode'])}")
    elif arguments[0].startswith("--query-gpu=index,uuid"):
        print(*(f"{number}, GPU-fake-{number}" for number in range(len(gpus))), sep="\n")
    elif arguments[0].startswith("--query-compute-apps"):
        print(*state.get("apps", []), sep="\n")
    elif "-mig" in arguments:
        goal = "Enabled" if arguments[-1] == "1" else "Disabled"
        for gpu in chosen():
            gpu.update(
                {"pending": goal}
                if state.get("no_reset")
                else {"mode": goal, "pending": goal, "instances": []}
            )
        if state.get("no_reset"):
            print("Warning: MIG mode is in pending enable state for GPU 00000000:00:03.0:Not Supported")
            print(
                "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU 00000000:00:03.0"
            )
        else:
            print(f"{goal} MIG Mode for GPU 00000000:36:00.0")
        print("All done.")
    elif arguments[0] == "--gpu-reset":
        print("Resetting GPU 00000000:00:03.0 is not supported.")
        return 3
    elif "-lgi" in arguments:
        print("| GPU instances:                                     |")
        for number, gpu in enumerate(gpus):
            for place, name in enumerate(gpu["instances"]):
                print(f"|   {number}  MIG {name}       9        {place}          {place}:1     |")
    elif "-dci" in arguments or "-dgi" in arguments:
        for gpu in chosen():
            gpu["instances"] = [] if "-dgi" in arguments else gpu["instances"]
    elif "-cgi" in arguments:
        for gpu in chosen():
            gpu["instances"] += arguments[arguments.index("-cgi") + 1].split(",")
    else:
        print(f"FAKE nvidia-smi knows no {' '.join(arguments)}", file=sys.stderr)
        return 2
    return 0


status = answer()
FILE.write_text(json.dumps(state))
sys.exit(status)
