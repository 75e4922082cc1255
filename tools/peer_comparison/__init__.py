"""Compare gpufleet's speeds with aiconfigurator's on published measurements that both answer (maintainers only).

``python -m tools.peer_comparison`` installs the pinned package into a temporary environment, asks it the same,
and prints the table of docs/sizing.md. gpufleet's figures are predictions without the row's own publication.
"""
