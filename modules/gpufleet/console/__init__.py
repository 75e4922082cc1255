"""Read-only pages about the fleet.

Input: the registry (nodes, holds, burn-in reports) and the JSON of ``cost diff``. Output: one HTML file that contains
its styles and plots. Nothing here contacts a cloud, a node or the engine.
"""

from gpufleet.console.report import FleetReportData, format_report_headline, render_report_page
from gpufleet.console.report_data import collect_report_data, write_fleet_report

__all__ = [
    "FleetReportData",
    "collect_report_data",
    "format_report_headline",
    "render_report_page",
    "write_fleet_report",
]
