"""The plan for NVIDIA cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.drivers import branch, cards, cuda, installed, kernel, mig, packages
from gpufleet.drivers.branch import Choice
from gpufleet.drivers.host import Host, describe
from gpufleet.drivers.installed import Installed
from gpufleet.drivers.model import Action, FabricManager, Plan
from gpufleet.drivers.packages import Chosen
from gpufleet.drivers.rule import refuse
from gpufleet.drivers.tables import Card
from gpufleet.drivers.versions import branch_of, key, newest, upstream
from gpufleet.errors import InputError

HIGHEST = 1000  # no branch yet is above; a package of kernel modules carries the kernel's version
MIG_PAGE = "write it as docs/driver-upgrades.md, MIG, shows"
BOARD = 8  # cards on a board with NVSwitches; boards with fewer are wired without them


@dataclass(frozen=True)
class Change:
    """What happens to the driver, and what goes before."""

    action: Action
    remove: tuple[str, ...] = ()


def plan(host: Host) -> Plan:
    """Plan NVIDIA's driver and what goes with it."""
    found = host.found.nvidia
    _refuse_system(host)
    fabric = fabric_needed(host)
    have = _read(host)
    if have.unmanaged:
        return _unmanaged(host, have)
    choice = branch.choose(host, have, fabric=fabric)
    chosen, change = _target(host, have, choice, fabric)
    _check_mig(host, chosen.version)
    toolkit = cuda.plan(host, choice)
    bare = kernel.without_kernel(host)
    built = choice.entry(host)["module"] == "dkms"
    headers = kernel.headers(host) if built and not bare else ()
    signed = "none" if bare else kernel.signing(host, built_here=built)
    changes = change.action != "keep"
    _notes(host, have, chosen, choice)
    return Plan(
        vendor="nvidia",
        action=change.action,
        system=describe(host.facts),
        cards=cards.counted(found),
        branch=str(choice.branch),
        version=chosen.version,
        installed=have.version,
        module="open" if choice.module == "open" else "proprietary",
        origin="vendor" if choice.origin == "vendor" else "distribution",
        repositories=cuda.repositories(host, choice),
        streams=packages.streams(host, choice),
        packages=chosen.packages,
        remove=change.remove,
        holds=tuple(each.name for each in (*chosen.packages, *chosen.fabric)),
        headers=headers,
        fabric_manager=FabricManager(chosen.fabric, ("nvidia-fabricmanager.service",)) if fabric else None,
        cuda=toolkit,
        module_signing=signed,
        blacklist=("nouveau",),
        reboot=kernel.restart(host, have, chosen.version, changes=changes, signed=signed),
        reasons=tuple(host.reasons),
    )


def fabric_needed(host: Host) -> str:
    """Return the tables' key of the fabric manager's packages; empty where none is needed."""
    found, switches = host.found.nvidia, host.found.switches
    kinds = {card.fabric: card for card in found if card.fabric}
    if "rack" in kinds:
        host.because("fabric.rack", name=kinds["rack"].label)
        return ""
    for kind, key_ in (("nvlink5", "fabric_manager_nvlink5"), ("nvswitch", "fabric_manager")):
        if kind in kinds:
            return _fabric_of_board(host, kinds[kind], switches, key_)
    return ""


def _fabric_of_board(host: Host, card: Card, switches: int, key_: str) -> str:
    count = sum(each == card for each in host.found.nvidia)
    if not switches and count < BOARD:
        host.because("fabric.not_seen", count=count, name=card.label)
        return ""
    why = f"{switches} NVSwitches on the bus" if switches else f"{count} {card.label} on an NVSwitch board"
    host.because("fabric.needed", why=why)
    if key_ == "fabric_manager_nvlink5":
        host.because("fabric.subnet_manager")
    return key_


def _refuse_system(host: Host) -> None:
    if host.key.startswith("raspberrypi"):
        raise refuse("system.raspberry")
    if "nvidia" not in host.system:
        raise refuse("origin.none", title=host.title, origin="any origin", other="vendor")


def _read(host: Host) -> Installed:
    own = host.system["nvidia"].get("distribution", {}).get("branches", ())
    return installed.read(host.facts, tuple(int(each) for each in own))


def _target(host: Host, have: Installed, choice: Choice, fabric: str) -> tuple[Chosen, Change]:
    """Return what is to be there, and what that means for what is there."""
    same = have.version and have.branch == choice.branch and have.origin in (None, choice.origin)
    same = bool(same and have.module in (None, choice.module))
    if same and have.version and host.wanted.branch == "auto":
        host.because("driver.kept", version=have.version)
        return packages.kept(host, choice, fabric, have.version), Change("keep")
    chosen = packages.choose(host, choice, fabric)
    if same and have.version and chosen.version in (None, have.version):
        host.because("driver.kept", version=have.version)
        return packages.kept(host, choice, fabric, have.version), Change("keep")
    remove = installed.conflicting(have.members, choice.origin, choice.module, choice.branch)
    coming = {each.name for each in (*chosen.packages, *chosen.fabric)}
    managers = [each.name for each in have.members if each.part == "fabric"]  # two share their files
    remove = tuple(name for name in sorted({*remove, *managers}) if name not in coming)
    if remove:
        host.because("driver.remove_first", names=", ".join(remove))
    if have.module and have.module != choice.module:
        host.because("module.switch", before=have.module, after=choice.module)
    return chosen, Change(_action(have, choice, chosen), remove)


def _action(have: Installed, choice: Choice, chosen: Chosen) -> Action:
    if have.version is None:
        return "install"
    target = chosen.version or str(choice.branch)
    before, after = key(have.version), key(target)
    before = before if chosen.version else before[:1]
    if after == before:
        return "install"
    return "upgrade" if after > before else "downgrade"


def _check_mig(host: Host, version: str | None) -> None:
    if not host.wanted.mig:
        return
    split = _geometry(host)
    for card in (host.found.nvidia[row["index"]] for row in split if row["enabled"]):
        if not card.mig_driver:
            raise refuse("mig.unsupported", name=card.label)
        if version and key(version) < key(card.mig_driver):
            raise refuse("mig.driver", name=card.label, least=card.mig_driver, version=version)


def _geometry(host: Host) -> list[dict[str, Any]]:
    unable = next((card for card in host.found.nvidia if not card.mig_driver), None)
    try:
        return mig.geometry(host.wanted.mig, [card.pci.partition(":")[2] for card in host.found.nvidia])
    except InputError as error:
        if unable is not None:
            raise refuse("mig.unsupported", name=unable.label) from error
        raise refuse("mig.geometry", problem=error.problem, remedy=error.remedy or MIG_PAGE) from error


def _notes(host: Host, have: Installed, chosen: Chosen, choice: Choice) -> None:
    """Note what a person should know beside the choice."""
    facts = host.facts
    components = choice.entry(host).get("components")
    if components and choice.origin == "distribution":
        host.because("packages.components", components=", ".join(components))
    if choice.origin == "distribution":
        _note_outranked(host, chosen, choice)
    names = {each.name for each in (*chosen.packages, *chosen.fabric)}
    held = sorted(names & set(facts.held) if chosen.packages else ())
    if held and have.version != chosen.version:
        host.because("packages.held", names=", ".join(held))
    if have.fabric and chosen.version and have.fabric != chosen.version:
        host.because("fabric.skew", installed=have.fabric, version=chosen.version)
    if have.version and have.loaded and have.loaded != have.version:
        host.because("driver.mismatch", loaded=have.loaded, installed=have.version)
    if have.nouveau:
        host.because("reboot.nouveau")
    if facts.virtual and not facts.rehearsed:
        host.because("vm.passthrough", kind=facts.virtual)
    if choice.entry(host).get("needs_epel"):
        host.because("dkms.epel")


def _note_outranked(host: Host, chosen: Chosen, choice: Choice) -> None:
    """Note that another registered repository offers newer: apt takes it for what the driver depends on."""
    offered = [newest(host.offered(each.name)) for each in chosen.packages]
    newer = [
        version for version in offered if version and choice.branch < (branch_of(version) or 0) < HIGHEST
    ]
    if newer:
        host.because("origin.outranked", newest=newer[0], branch=choice.branch)


def _unmanaged(host: Host, have: Installed) -> Plan:
    """Keep a driver that an image brought outside the package manager, where it fits; else refuse."""
    loaded, number = str(have.loaded), have.branch or 0
    first, last = branch.span(host.found.nvidia)
    asked = host.wanted.branch in ("auto", str(number))
    if not (asked and first <= number <= last and number >= branch.least_for_cuda(host.wanted.cuda)):
        raise refuse("driver.unmanaged", version=loaded, branch=number)
    _check_mig(host, loaded)
    host.because("driver.image", version=loaded)
    return Plan(
        vendor="nvidia",
        action="keep",
        system=describe(host.facts),
        cards=cards.counted(host.found.nvidia),
        branch=str(number),
        version=loaded,
        installed=upstream(loaded),
        reasons=tuple(host.reasons),
    )
