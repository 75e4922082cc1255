"""Tools of the maintainers: they write and check the data that gpufleet ships. No part of the package."""
