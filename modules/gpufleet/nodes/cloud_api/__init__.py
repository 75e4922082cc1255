"""What the clouds' own APIs list: the members of groups, and single instances, on three clouds.

Input: an account of a cloud (region, project, subscription) with the caller's own credentials. Output: typed
``CloudInstance`` values, and from them reports to the registry. Every listing has a network timeout and a bounded
number of pages; every value is checked for its type before anybody uses it. ``aws``, ``gcp`` and ``azure`` import their
SDKs when they are called: those of Google and Azure come with the extras ``gcp`` and ``azure``.
"""
