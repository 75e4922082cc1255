"""What the spec can say and the components of a cloud do not build yet: refused, never ignored.

Whoever builds an entry removes it here.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet import catalog
from gpufleet.fleet.document import SpecProblem
from gpufleet.fleet.rule import FLEET_RULES
from gpufleet.fleet.rules_purchase import list_rungs_with_paths
from gpufleet.fleet.spec import Fleet, Pool

UNBUILT_PURCHASES: dict[str, frozenset[str]] = {}
UNBUILT_SPOT_KEYS: dict[str, tuple[str, ...]] = {
    "azure": ("machines",),
}
UNBUILT_PRIVATE_ACCESS: tuple[str, ...] = ()


@FLEET_RULES.register_rule(
    "not-built-yet",
    reason="what a cloud's component does not build is refused, not ignored",
    source="cloud/, the component of the pool's cloud",
)
def check_component_builds_it(fleet: Fleet) -> Iterator[SpecProblem]:
    for index, pool in enumerate(fleet.pools):
        title = catalog.get_cloud(pool.cloud).title
        if fleet.ssh.access == "private" and pool.cloud in UNBUILT_PRIVATE_ACCESS:
            text = f"access is private, which is not built yet on {title}"
            yield SpecProblem(("ssh", "access"), text, "set access: public")
        for path, text in _find_unbuilt_parts(pool, title):
            yield SpecProblem(("pools", index, *path), text, "choose another kind of purchase, or remove it")


def _find_unbuilt_parts(pool: Pool, title: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    kinds = UNBUILT_PURCHASES.get(pool.cloud, frozenset())
    if pool.purchase.kind == "ladder" and "ladder" in kinds:
        yield ("purchase", "ladder"), f"a ladder is not built yet on {title}"
    for path, rung in list_rungs_with_paths(pool):
        if rung.kind in kinds:
            yield (*path, "kind"), f"kind is {rung.kind}, which is not built yet on {title}"
        for key in UNBUILT_SPOT_KEYS.get(pool.cloud, ()):
            if getattr(rung, key):
                yield (*path, key), f"{key} is not built yet on {title}"
