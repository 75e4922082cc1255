"""The verbs that join the rooms, one file a verb.

In come a declared fleet, the registry and what the outside says: Pulumi state, cloud APIs, playbook events.
Out comes a registry that is up to date, and an account of what changed and what failed.
"""

# Files, not functions: each verb is imported when it is called, because each pulls in its own heavy libraries.
__all__ = ["burnin", "configure", "events", "ingest", "reach", "show", "sync"]
