"""Read-only pages about the fleet.

In: the JSON that other verbs print (``nodes list``, ``burnin report``, ``cost estimate``, ``cost diff``).
Out: one HTML file that carries its styles and plots inside, so that it can be
mailed, kept as a build artefact or opened years later. Nothing here asks a cloud, a node or the engine.
"""

from gpufleet.console.report import ReportData, headline, render

__all__ = ["ReportData", "headline", "render"]
