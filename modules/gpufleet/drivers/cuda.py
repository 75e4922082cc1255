"""The CUDA toolkit beside a driver: what runs on which branch, and the forward compatibility package."""

from __future__ import annotations

from gpufleet.drivers import branch, packages
from gpufleet.drivers.branch import Choice
from gpufleet.drivers.cards import architecture
from gpufleet.drivers.host import Host
from gpufleet.drivers.model import Cuda, Package, Repository
from gpufleet.drivers.rule import refuse
from gpufleet.drivers.tables import cuda_releases
from gpufleet.drivers.versions import key


def plan(host: Host, choice: Choice) -> Cuda | None:
    """Plan the toolkit, or refuse it for the cards or the branch."""
    wanted = host.wanted.cuda
    if wanted is None:
        return None
    least = branch.least_for_cuda(wanted)
    _refuse_cards(host, wanted)
    compat = _compat(host, choice, wanted) if choice.branch < least else ()
    release = cuda_releases()[wanted]
    if not compat and choice.branch < int(release.toolkit_driver.split(".")[0]):
        host.because("cuda.minor", cuda=wanted, toolkit=release.toolkit_driver)
    names = branch.cuda_names(choice.entry(host), wanted)
    if not names:
        known = ", ".join(choice.entry(host).get("cuda", {})) or "none"
        raise refuse("cuda.packages", cuda=wanted, origin=choice.origin, title=host.title, known=known)
    return Cuda(wanted, packages.cuda_packages(host, names), compat)


def repositories(host: Host, choice: Choice) -> tuple[Repository, ...]:
    """Return the repositories of driver and toolkit: one and the same."""
    return packages.repositories(host, choice)


def _refuse_cards(host: Host, wanted: str) -> None:
    for card in host.found.nvidia:
        generation = architecture(card)
        if generation.last_cuda is not None and key(wanted)[0] > generation.last_cuda:
            last = generation.last_cuda
            raise refuse(
                "cuda.dropped", cuda=wanted, architecture=generation.name, name=card.label, last=last
            )
        if key(wanted) < key(generation.first_cuda):
            first = generation.first_cuda
            raise refuse(
                "cuda.too_old", cuda=wanted, architecture=generation.name, name=card.label, first=first
            )


def _compat(host: Host, choice: Choice, wanted: str) -> tuple[Package, ...]:
    """Return the forward compatibility package; only datacenter cards may use it."""
    least = branch.least_for_cuda(wanted)
    other = next((card for card in host.found.nvidia if card.market != "datacenter"), None)
    if other is not None:
        raise refuse("cuda.no_compat", cuda=wanted, least=least, branch=choice.branch, name=other.label)
    major, minor = wanted.split(".")
    names = [name.format(major=major, minor=minor) for name in choice.entry(host).get("compat_packages", ())]
    if not names:
        raise refuse("cuda.newer_than_branch", cuda=wanted, least=least, branch=choice.branch)
    host.because("cuda.compat", cuda=wanted, branch=choice.branch)
    return packages.cuda_packages(host, names)
