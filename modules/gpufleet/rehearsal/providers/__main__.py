"""``python -m gpufleet.rehearsal.providers CLOUD ENGINE_ADDRESS``: serve one simulated cloud to the engine."""

from __future__ import annotations

import sys

from gpufleet.rehearsal.providers.install import CLOUDS


def main(arguments: list[str]) -> int:
    """Answer ``--version`` and wrong usage at once; otherwise serve until the engine stops this process."""
    cloud = arguments[0] if arguments else ""
    if cloud not in CLOUDS:
        print(f"usage: python -m gpufleet.rehearsal.providers {'|'.join(CLOUDS)} ENGINE", file=sys.stderr)
        return 2
    from gpufleet.rehearsal.providers.schema import load_cloud_schema

    schema = load_cloud_schema(cloud)
    if "--version" in arguments:
        print(f"{schema.version} (simulated {cloud} of gpufleet: a fake that never calls a cloud)")
        return 0
    from pulumi.provider.experimental import server

    from gpufleet.rehearsal.providers.provider import SimulatedProvider
    from gpufleet.rehearsal.providers.servicer import CloudServicer
    from gpufleet.rehearsal.providers.store import open_resource_store

    sys.argv = [f"pulumi-resource-{cloud}", *arguments[1:]]  # where the server looks for the engine's address
    server.ProviderServicer = CloudServicer  # type: ignore[misc] # main() has no argument for it
    server.main(sys.argv[1:], schema.version, SimulatedProvider(schema, open_resource_store(cloud)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
