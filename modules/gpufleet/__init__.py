"""gpufleet: one declared spec to a sized, provisioned, priced, inventoried, burnt-in GPU fleet."""

__version__ = "0.1.0"
