"""The verbs that join the rooms, one file a verb.

In come a declared fleet, the registry and what the outside says: Pulumi state, cloud APIs, playbook events.
Out comes a registry that is up to date, and an account of what changed and what failed.
"""
