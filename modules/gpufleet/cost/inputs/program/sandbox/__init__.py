"""Confine a process and all that it starts: namespaces, limits, and an end that none of them survives.

Standard library only, and nothing of gpufleet: ``child.py`` loads this package by its folder in whichever Python
it runs. ``process_tree`` starts and stops the call, ``root_filesystem`` makes what it can see, ``privilege`` is what it
keeps.
"""

from .namespace import can_enter_namespaces
from .process_tree import FILES, NETWORK, PROCESS_COUNT, PROCESSES, start_sandboxed_call

__all__ = ["FILES", "NETWORK", "PROCESSES", "PROCESS_COUNT", "can_enter_namespaces", "start_sandboxed_call"]
