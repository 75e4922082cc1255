# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which packages upgrade a host's kernel, whether the new kernel may boot, and what is recorded. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.kernels import (
    BootLoader,
    Kernel,
    version_key,
)
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import APT_HEADER

APT = ("apt-get", "-y", "-q", "--allow-change-held-packages", "--no-install-recommends")
SIGNED_MODULES = "linux-modules-nvidia-"
DRIVER_DKMS = ("nvidia", "amdgpu")
NVIDIA_MODULES = ("nvidia", "nvidia-current")
# A kernel that has booted and was left is not tried again.
REJECTED_STATES = ("failed", "rolled_back")
APT_OUTPUT_LINES = re.compile(r"^(Error!|E: |dpkg: error|nvidia|.*: error:).*", re.MULTILINE)

UPCOMING_KERNEL = re.compile(
    r"^(?:Inst linux-image-(?:unsigned-)?|Installed: kernel-core-)(\d\S*)", re.MULTILINE
)


class KernelState(TypedDict):
    """The part of ``gpufleet.fleet.kernel_state``'s result that decides an upgrade."""

    running: str
    container: str | None
    secure_boot: bool
    package_manager: str
    kernels: list[Kernel]
    dkms: list[list[str]]
    packages: dict[str, str]
    unsound: list[str]
    held: list[str]
    installed: list[str]
    boot_loader: BootLoader


class UpgradeRecord(TypedDict, total=False):
    """What the role keeps in /var/lib/gpufleet/kernels.json."""

    state: str
    previous: str
    target: str
    reason: str
    packages: dict[str, str]


class UpgradeOutcome(TypedDict):
    """How far the role came: the newer installed kernel (empty: none), and whether the play restarts with it."""

    target: str
    restarts: bool
    check_mode: bool


def upgrade_not_applied(state: KernelState, *, in_container: bool) -> dict[str, str]:
    """Return why this host's kernel is not upgraded at all; empty if it is."""
    if state["container"] and not in_container:
        return {"kernel": f"a container runs the kernel of its host ({state['running']})"}
    return {}


def upgrade_refusal(
    state: KernelState, *, record: UpgradeRecord, names: list[str], without_fallback: bool
) -> str:
    """Return why the host must keep its kernel before anything changes; empty if nothing speaks against it."""
    if state["unsound"]:
        return f"dpkg has not finished {', '.join(state['unsound'])}; repair it first (dpkg --configure -a)"
    if not packages_to_upgrade(state, record=record, names=names, driver_packages={}):
        return (
            "no package follows the newest kernel (such as linux-image-amd64), so none can be upgraded;"
            " set os_upgrade_kernel_packages"
        )
    loader = state["boot_loader"]
    if not loader["can_boot_once"] and not without_fallback:
        return (
            f"{loader['reason']}; a kernel that does not start would need a person."
            " os_upgrade_without_fallback=true upgrades it all the same"
        )
    return ""


def packages_to_upgrade(
    state: KernelState, *, record: UpgradeRecord, names: list[str], driver_packages: Mapping[str, str]
) -> list[str]:
    """Return the packages that change together: the kernel's, and the whole driver if its modules are packages.

    A failed upgrade may have had to remove a kernel package; the record still has it. Modules that dkms builds do not
    need another driver version.
    """
    kernel_packages = set(names or [*state["packages"], *record.get("packages", {})])
    has_signed_modules = any(name.startswith(SIGNED_MODULES) for name in kernel_packages)
    return sorted(kernel_packages | (set(driver_packages) if has_signed_modules else set()))


def kernel_flavour(release: str) -> str:
    """Return a release without its numbers: ``-amd64`` of ``6.1.0-50-amd64``."""
    return re.sub(r"^[\d.+-]+", "", re.sub(r"_\d+", "", release))


def newest_kernel(state: KernelState, *, record: UpgradeRecord, try_again: bool) -> str:
    """Return the newest installed kernel of the running one's flavour if it is newer; empty if there is none."""
    rejected = record.get("target") if record.get("state") in REJECTED_STATES and not try_again else None
    running = state["running"]
    has_running = any(kernel["release"] == running for kernel in state["kernels"])
    newer = [
        kernel["release"]
        for kernel in state["kernels"]
        if kernel["release"] != rejected
        and (
            not has_running  # a container runs a kernel that it does not have
            or (
                kernel_flavour(kernel["release"]) == kernel_flavour(running)
                and version_key(kernel["release"]) > version_key(running)
            )
        )
    ]
    return max(newer, key=version_key, default="")


def upcoming_kernels(previews: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the releases of the kernels that the package manager would install, from its modules' check mode.

    The module apt returns the output of ``apt-get --simulate``, the module dnf a list (``Installed: PACKAGE``).
    """
    texts = [
        "\n".join([preview.get("stdout") or "", *(preview.get("results") or ())]) for preview in previews
    ]
    return [match[1] for text in texts for match in UPCOMING_KERNEL.finditer(text)]


def upgrade_summary(
    state: KernelState,
    *,
    record: UpgradeRecord,
    not_applied: Mapping[str, str],
    previews: list[dict[str, Any]],
    outcome: UpgradeOutcome,
) -> str:
    """Return, in one line, which kernel the host gets, would get in check mode, or keeps, and why."""
    running, target = state["running"], outcome["target"]
    if not_applied:
        return f"keeps its kernel: {'; '.join(not_applied.values())}"
    if outcome["check_mode"]:
        newest = max([*upcoming_kernels(previews), target], key=version_key)
        if newest:
            return f"would get kernel {newest}; runs {running}"
        if any(preview.get("changed") for preview in previews):
            return f"would get newer packages of its kernel; runs {running}"
    elif target:
        return (
            f"kernel {target}, was {running}"
            if outcome["restarts"]
            else f"kernel {target} boots at the next restart; runs {running}"
        )
    rejected = record.get("target") if record.get("state") in REJECTED_STATES else None
    if rejected and version_key(rejected) > version_key(running):
        return f"keeps kernel {running}: {rejected} did not pass; os_upgrade_again=true tries it again"
    return f"keeps kernel {running}: there is no newer one"


def _find_kernel(state: KernelState, release: str) -> Kernel | None:
    return next((kernel for kernel in state["kernels"] if kernel["release"] == release), None)


def _required_dkms_modules(state: KernelState) -> list[str]:
    """Return the names of modules that the new kernel must have: those of the running kernel, and drivers."""
    running = _find_kernel(state, state["running"])
    installed = {row["name"] for row in (running["dkms"] if running else []) if row["state"] == "installed"}
    drivers = {name for name, __ in state["dkms"] if name.startswith(DRIVER_DKMS)}
    return sorted(installed | drivers)


def needs_dkms_build(state: KernelState, *, target: str) -> bool:
    """True if dkms has a module for the target that is not installed, and headers to build it."""
    kernel = _find_kernel(state, target)
    if kernel is None or not kernel["headers"]:
        return False
    installed = {row["name"] for row in kernel["dkms"] if row["state"] == "installed"}
    return not installed.issuperset(_required_dkms_modules(state))


def kernel_problems(state: KernelState, *, target: str, user_space: str | None) -> list[str]:
    """Return why the host must not boot the target: missing headers, initramfs, or driver modules."""
    kernel = _find_kernel(state, target)
    if kernel is None:
        return [f"kernel {target} is not installed"]
    running = _find_kernel(state, state["running"])
    problems = []
    required = _required_dkms_modules(state)
    states = {row["name"]: row["state"] for row in kernel["dkms"]}
    if required and not kernel["headers"]:
        problems.append("its headers are not installed")
    problems += [
        f"dkms has not installed {name} ({states.get(name, 'not built')})"
        for name in required
        if states.get(name) != "installed"
    ]
    if running and running["initramfs"] and not kernel["initramfs"]:
        problems.append("it has no initramfs")
    before = running["modules"] if running else {}
    problems += [f"it has no module {name}" for name in before if name not in kernel["modules"]]
    if any(name.startswith("nvidia") for name in required) and not set(NVIDIA_MODULES) & set(
        kernel["modules"]
    ):
        problems.append("modinfo finds no module nvidia")
    return problems + _module_problems(kernel, user_space, secure_boot=state["secure_boot"])


def _module_problems(kernel: Kernel, user_space: str | None, *, secure_boot: bool) -> list[str]:
    problems = []
    for name, module in kernel["modules"].items():
        if module["vermagic"].split(" ")[0] != kernel["release"]:
            problems.append(f"module {name} is for kernel {module['vermagic'].split(' ')[0] or 'unknown'}")
        if name not in NVIDIA_MODULES:
            continue
        if user_space and module["version"] != user_space:
            problems.append(f"module {name} is {module['version']}, the libraries are {user_space}")
        if secure_boot and not module["signer"]:
            problems.append(f"module {name} is not signed, and secure boot is on")
    return problems


def apt_protection(releases: Iterable[str]) -> str:
    """Return the apt configuration that keeps the packages of these kernels from autoremove."""
    patterns = [f'  "^linux-.*-{re.escape(name)}$";' for name in sorted({name for name in releases if name})]
    return "".join(f"{line}\n" for line in [APT_HEADER, "APT::NeverAutoRemove {", *patterns, "};"])


def _new_releases(after: KernelState, before: KernelState) -> list[str]:
    old = {kernel["release"] for kernel in before["kernels"]}
    return [kernel["release"] for kernel in after["kernels"] if kernel["release"] not in old]


def _is_of_release(name: str, releases: Iterable[str]) -> bool:
    return any(name.endswith(f"-{release}") for release in releases)


def restore_command(after: KernelState, *, before: KernelState) -> list[str]:
    """Return the apt command that installs the earlier packages and removes those of the new kernel."""
    new = _new_releases(after, before)
    removed = [name for name in after["unsound"] if _is_of_release(name, new)]
    packages = [f"{name}={version}" for name, version in sorted(before["packages"].items())]
    return [*APT, "--allow-downgrades", "install", *packages, *(f"{name}-" for name in removed)]


def removal_command(after: KernelState, *, before: KernelState) -> list[str]:
    """Return the apt command that removes packages that dpkg did not finish; those of the old kernel stay."""
    new = _new_releases(after, before)
    names = [name for name in after["unsound"] if _is_of_release(name, new) or name in before["packages"]]
    return [*APT, "remove", *names]


def lost_holds(after: KernelState, *, before: KernelState) -> list[str]:
    """Return the packages that were held, are installed, and are not held any more."""
    return sorted({*before["held"]} & {*after["installed"]} - {*after["held"]})


def failure_summary(result: Mapping[str, Any]) -> str:
    """Return the lines of a failed transaction that name the cause, else its message."""
    text = f"{result.get('stdout') or ''}\n{result.get('stderr') or ''}"
    lines = [match.group(0).strip().rstrip(".:") for match in APT_OUTPUT_LINES.finditer(text)]
    return (
        "; ".join(list(dict.fromkeys(lines))[:2]) or str(result.get("msg", "no reason given")).splitlines()[0]
    )


def upgrade_record(
    state: KernelState, *, record: UpgradeRecord, outcome: str, previous: str, target: str, reason: str = ""
) -> str:
    """Return the text of the record. Kernel packages that a failed upgrade removed stay in it."""
    kept = record.get("packages", {}) if outcome == "refused" else {}
    entry: UpgradeRecord = {
        "state": outcome,
        "previous": previous,
        "target": target,
        "reason": reason,
        "packages": {**kept, **state["packages"]},
    }
    return json.dumps(entry, indent=1, sort_keys=True) + "\n"


def rollback_refusal(state: KernelState, *, record: UpgradeRecord) -> str:
    """Return why the earlier kernel cannot be booted; empty if it can."""
    previous = record.get("previous", "")
    if not previous:
        return "no earlier kernel is recorded; the play upgrade_os has not replaced one here"
    if previous == state["running"]:
        return f"kernel {previous} is running already"
    if _find_kernel(state, previous) is None:
        return f"kernel {previous} is no longer installed"
    loader = state["boot_loader"]
    return (
        ""
        if loader["name"] in ("grub", "grubby")
        else f"{loader['reason']}; choose {previous} at the console"
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "os_upgrade_not_applied": upgrade_not_applied,
            "os_upgrade_refusal": upgrade_refusal,
            "os_upgrade_packages": packages_to_upgrade,
            "os_upgrade_newest": newest_kernel,
            "os_upgrade_summary": upgrade_summary,
            "os_upgrade_needs_build": needs_dkms_build,
            "os_upgrade_problems": kernel_problems,
            "os_upgrade_apt_protection": apt_protection,
            "os_upgrade_restore": restore_command,
            "os_upgrade_removal": removal_command,
            "os_upgrade_lost_holds": lost_holds,
            "os_upgrade_failure": failure_summary,
            "os_upgrade_record": upgrade_record,
            "os_upgrade_rollback_refusal": rollback_refusal,
        }
