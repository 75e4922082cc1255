"""What the running kernel asks for: headers, signatures, a restart."""

from __future__ import annotations

from gpufleet.drivers.host import Host
from gpufleet.drivers.installed import Installed
from gpufleet.drivers.model import Reboot, Signing


def without_kernel(host: Host) -> bool:
    """Tell whether the host is a container, whose kernel is its machine's; say so."""
    kind = host.facts.container
    if not kind:
        return False
    if host.facts.rehearsed:
        host.because("kernel.rehearsal")
        return False
    host.because("kernel.container", kind=kind)
    return True


def headers(host: Host) -> tuple[str, ...]:
    """Return the packages of headers: the running kernel's, and the meta package of those to come."""
    facts = host.facts
    exact = tuple(name.format(kernel=facts.kernel) for name in host.system["headers"])
    meta = next((name for end, name in host.system["meta"].items() if facts.kernel.endswith(end)), None)
    if facts.headers_installed:
        return exact + ((meta,) if meta else ())
    if facts.rehearsed:  # its kernel is the machine's that rehearses: nobody packages headers of it
        return tuple(name for name in (*exact, meta or "") if host.offered(name))
    gone = facts.candidates is not None and not any(map(host.offered, exact))
    if gone and meta and host.offered(meta):
        host.because("kernel.headers_gone", names=", ".join(exact), meta=meta)
        return (meta,)
    host.because("kernel.headers_missing", kernel=facts.kernel, names=", ".join(exact), meta=meta or "none")
    return exact + ((meta,) if meta else ())


def signing(host: Host, *, built_here: bool) -> Signing:
    """Return who signs the module, so that secure boot lets it in."""
    secure = host.facts.secure_boot
    if secure is None and built_here:
        host.because("signing.unknown")
    if not secure:
        return "none"
    host.because("signing.mok" if built_here else "signing.distribution")
    return "mok" if built_here else "distribution"


def restart(
    host: Host, installed: Installed, version: str | None, *, changes: bool, signed: Signing
) -> Reboot:
    """Say whether the host must restart, and why; the first reason that holds is told."""
    facts = host.facts
    if facts.newest_kernel and facts.newest_kernel != facts.kernel:
        host.because("kernel.newer_installed", newest=facts.newest_kernel, kernel=facts.kernel)
    for needed, why in (
        (installed.nouveau, "nouveau is loaded"),
        (signed == "mok" and changes, "the module's key is enrolled while starting"),
        (_mismatch(installed, version, changes), _mismatch_why(installed, version)),
        (bool(facts.newest_kernel) and facts.newest_kernel != facts.kernel, "a newer kernel is installed"),
        (
            any(reason.code == "kernel.headers_gone" for reason in host.reasons),
            "the newest kernel comes first",
        ),
    ):
        if needed:
            return Reboot(needed=True, why=why)
    return Reboot(needed=False, why="the module loads without one" if changes else "")


def _mismatch(installed: Installed, version: str | None, changes: bool) -> bool:
    if installed.loaded is None:
        return False
    return installed.loaded != version if version else changes


def _mismatch_why(installed: Installed, version: str | None) -> str:
    return f"module {installed.loaded} is loaded, {version or 'another'} is to run"
