"""Read-only pages about the fleet.

In: the registry (nodes, holds, burn-in reports) and a cost difference as other verbs print it. Out: one HTML
file that carries its styles and plots inside, so that it can be mailed, kept as a build artefact or opened
years later. Nothing here asks a cloud, a node or the engine.
"""

from gpufleet.console.gather import collect_report_data, write_report
from gpufleet.console.report import ReportData, headline, render

__all__ = ["ReportData", "collect_report_data", "headline", "render", "write_report"]
