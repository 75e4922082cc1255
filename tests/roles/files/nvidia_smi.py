#!/usr/bin/python3
"""FAKE nvidia-smi: answers only what the roles nvidia_mig and gpu_settings ask, in NVIDIA's words.

Sources: MIG user guide (v580); nvidia-smi(1) 565.57 with its exit statuses; public records of `nvidia-smi -pl`, `-lgc`,
`-lmc`, `-ac` and `-e`, also of the refusals, of which the real program ends some with status 0.

State is in $NVIDIA_SMI_STATE or /etc/gpufleet-rehearsal/mig.json: {"gpus": [{"mode", "instances"}], "calls": [],
"no_reset": bool, "apps": [], "no_driver": bool, "is_595": bool}. Branch 595 has no application clocks. A GPU can also
have "virtual" (vGPU: no power limit, no clocks) and "volta" (no locked memory clocks). The fake knows no placements:
what does not fit is refused before, by gpufleet.drivers.mig.
"""

import json
import os
import sys
from pathlib import Path

FILE = Path(os.environ.get("NVIDIA_SMI_STATE", "/etc/gpufleet-rehearsal/mig.json"))
state = json.loads(FILE.read_text())
gpus, arguments = state["gpus"], sys.argv[1:]
state.setdefault("calls", []).append(" ".join(arguments))
CLOCKS = {2619: (1980, 1410, 345), 1593: (1980, 1410, 345)}  # memory: graphics, shortened
LIMITS = (200, 700)
WARNING = "Treating as warning and moving on."
MODES = {"0": "Default", "2": "Prohibited", "3": "Exclusive_Process"}


def chosen():
    return [(number, gpus[number]) for number in chosen_numbers()]


def chosen_numbers():
    return [int(arguments[arguments.index("-i") + 1])] if "-i" in arguments else range(len(gpus))


def bus(number):
    return f"00000000:{number + 1:02X}:00.0"


def fields(number, gpu):
    """Return what --query-gpu can ask."""
    values = {
        "index": number,
        "uuid": f"GPU-fake-{number}",
        "name": "NVIDIA H100XM-80C" if gpu.get("virtual") else "NVIDIA H100 80GB HBM3",
        "driver_version": "580.95.05",
        "mig.mode.current": gpu.get("mode"),
        "mig.mode.pending": gpu.get("pending", gpu.get("mode")),
        "compute_mode": gpu.get("compute_mode", "Default"),
        "ecc.mode.current": gpu.get("ecc", "Enabled"),
        "ecc.mode.pending": gpu.get("ecc_pending", gpu.get("ecc", "Enabled")),
        "power.limit": f"{gpu.get('power_limit', 700):.2f}",
        "power.default_limit": "700.00",
        "power.min_limit": f"{LIMITS[0]:.2f}",
        "power.max_limit": f"{LIMITS[1]:.2f}",
        "clocks.applications.memory": gpu.get("applications", [2619, 1980])[0],
        "clocks.applications.graphics": gpu.get("applications", [2619, 1980])[1],
        "clocks.default_applications.memory": 2619,
        "clocks.default_applications.graphics": 1980,
    }
    if gpu.get("virtual"):
        refused = [name for name in values if name.startswith(("power.", "clocks.", "ecc."))]
        values.update(dict.fromkeys(refused, "[N/A]"))
    if state.get("is_595"):
        deprecated = [name for name in values if "applications" in name]
        values.update(dict.fromkeys(deprecated, "[Requested functionality has been deprecated]"))
    return values


def query_gpu():
    names = arguments[0].partition("=")[2].split(",")
    for number, gpu in enumerate(gpus):
        known = fields(number, gpu)
        for name in names:
            if name not in known:
                print(f'Field "{name}" is not a valid field to query.')
                return 2
        print(", ".join(str(known[name]) for name in names))
    return 0


def query_clocks():
    for number, gpu in enumerate(gpus):
        if gpu.get("virtual"):
            print(f"GPU-fake-{number}, [N/A], [N/A]")
            continue
        for memory, all_graphics in CLOCKS.items():
            for graphics in all_graphics:
                print(f"GPU-fake-{number}, {memory}, {graphics}")
    return 0


def set_power_limit(value):
    for number, gpu in chosen():
        if gpu.get("virtual"):
            print(f"Changing power management limit is not supported for GPU: {bus(number)}.\n{WARNING}")
        elif not LIMITS[0] <= float(value) <= LIMITS[1]:
            limits = f"{LIMITS[0]:.2f} W and {LIMITS[1]:.2f} W"
            print(
                f"Provided power limit {float(value):.2f} W is not a valid power limit which should be between"
                f" {limits} for GPU {bus(number)}\nTerminating early due to previous errors."
            )
            return 2
        else:
            old = gpu.get("power_limit", 700)
            gpu["power_limit"] = float(value)
            print(f"Power limit for GPU {bus(number)} was set to {float(value):.2f} W from {old:.2f} W.")
    print("All done.")
    return 0


def lock_clocks(kind, value):
    title, short = ("GPU", "gpu") if kind == "graphics" else ("Memory", "mem")
    for number, gpu in chosen():
        if gpu.get("virtual") or (kind == "memory" and gpu.get("volta")):
            print(f"Setting locked {title} clocks is not supported for GPU {bus(number)}.\n{WARNING}")
        else:
            least, _, most = value.partition(",")
            gpu[f"locked_{kind}"] = [int(least), int(most)]
            print(
                f'{title} clocks set to "({short}ClkMin {least}, {short}ClkMax {most})" for GPU {bus(number)}'
            )
    print("All done.")
    return 0


def set_applications(value):
    memory, graphics = map(int, value.split(","))
    for number, gpu in chosen():
        if graphics not in CLOCKS.get(memory, ()):
            print(f'Specified clock combination "(MEM {memory}, SM {graphics})" is not supported for GPU')
            return 2
        gpu["applications"] = [memory, graphics]
        print(f'Applications clocks set to "(MEM {memory}, SM {graphics})" for GPU {bus(number)}')
    print("All done.")
    return 0


def set_ecc(value):
    goal = "Enabled" if value == "1" else "Disabled"
    for number, gpu in chosen():
        gpu["ecc_pending"] = goal
        print(f"{goal} ECC support for GPU {bus(number)}.")
    print("All done.\nReboot required.")
    return 0


def set_compute_mode(value):
    for number, gpu in chosen():
        gpu["compute_mode"] = MODES[value]
        print(f"Set compute mode to {MODES[value].upper()} for GPU {bus(number)}.")
    print("All done.")
    return 0


def reset(key):
    for _, gpu in chosen():
        gpu.pop(key, None)
    print("All done.")
    return 0


def set_mig_mode():
    goal = "Enabled" if arguments[-1] == "1" else "Disabled"
    for _, gpu in chosen():
        gpu.update(
            {"pending": goal} if state.get("no_reset") else {"mode": goal, "pending": goal, "instances": []}
        )
    if state.get("no_reset"):
        print("Warning: MIG mode is in pending enable state for GPU 00000000:00:03.0:Not Supported")
        print(
            "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU 00000000:00:03.0"
        )
    else:
        print(f"{goal} MIG Mode for GPU 00000000:36:00.0")
    print("All done.")
    return 0


def change_instances():
    if "-lgi" in arguments:
        print("| GPU instances:                                     |")
        for number, gpu in enumerate(gpus):
            for place, name in enumerate(gpu["instances"]):
                print(f"|   {number}  MIG {name}       9        {place}          {place}:1     |")
    elif "-dci" in arguments or "-dgi" in arguments:
        for _, gpu in chosen():
            gpu["instances"] = [] if "-dgi" in arguments else gpu["instances"]
    else:
        for _, gpu in chosen():
            gpu["instances"] += arguments[arguments.index("-cgi") + 1].split(",")
    return 0


SETTERS = {
    "-pl": set_power_limit,
    "-lgc": lambda value: lock_clocks("graphics", value),
    "-lmc": lambda value: lock_clocks("memory", value),
    "-ac": set_applications,
    "-e": set_ecc,
    "-c": set_compute_mode,
}
RESETS = {"-rgc": "locked_graphics", "-rmc": "locked_memory", "-rac": "applications"}


def answer():
    if state.get("no_driver"):
        print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        return 9
    if arguments[0] == "--version":
        print("NVIDIA-SMI version  : 580.95.05 (FAKE)")
        return 0
    if arguments[0].startswith("--query-gpu="):
        return query_gpu()
    if arguments[0].startswith("--query-supported-clocks="):
        return query_clocks()
    if arguments[0].startswith("--query-compute-apps"):
        print(*state.get("apps", []), sep="\n")
        return 0
    if "-mig" in arguments:
        return set_mig_mode()
    if arguments[0] == "--gpu-reset":
        print("Resetting GPU 00000000:00:03.0 is not supported.")
        return 3
    if arguments[0] == "mig":
        return change_instances()
    if arguments[0] == "-i" and arguments[2] in SETTERS:
        return SETTERS[arguments[2]](arguments[3])
    if arguments[0] == "-i" and arguments[2] in RESETS:
        return reset(RESETS[arguments[2]])
    print(f"FAKE nvidia-smi knows no {' '.join(arguments)}", file=sys.stderr)
    return 2


status = answer()
FILE.write_text(json.dumps(state))
sys.exit(status)
