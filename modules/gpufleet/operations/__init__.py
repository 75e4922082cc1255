"""The operations that join the rooms, one file each.

Input: a declared fleet, the registry, and outside data: Pulumi state, cloud APIs, playbook events.
Output: an updated registry, and a summary of changes and failures.
"""

# Modules, not functions: each is imported when it is used, because each imports heavy libraries.
__all__ = ["burnin", "configure", "ingest", "node_probe", "node_view", "sync", "task_events"]
