"""Mesa's lavapipe: the agent's Vulkan code runs on it in the tests, on this machine's processor."""

import os
from pathlib import Path

import pytest

DRIVERS = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
needs_lavapipe = pytest.mark.skipif(not DRIVERS, reason="mesa-vulkan-drivers is not installed")


def build_environment(**variables):
    """Return an environment in which the loader finds no driver but lavapipe."""
    driver = str(DRIVERS[0]) if DRIVERS else ""
    # The second name is the one of loaders before 1.3.207.
    return {**os.environ, "VK_DRIVER_FILES": driver, "VK_ICD_FILENAMES": driver, **variables}
