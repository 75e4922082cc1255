"""Read the site's own table of cards, next to Pulumi.yaml."""

from __future__ import annotations

from gpufleet import paths
from gpufleet.boundary import read_text
from gpufleet.drivers import GpuCard
from gpufleet.errors import InputError, ProjectFileError


def load_site_cards() -> tuple[GpuCard, ...]:
    """Return the site's cards, none outside a project and without a file; ProjectFileError if the file is wrong."""
    try:
        path = paths.find_project_root() / paths.CARD_FILE
    except InputError:
        return ()
    if not (path.exists() or path.is_symlink()):
        return ()
    from gpufleet.drivers.site_cards import parse_site_cards  # pydantic takes longer than a plan

    try:
        return parse_site_cards(read_text(path), path.name)
    except InputError as error:
        raise ProjectFileError(error.problem, where=error.where, key=error.key, remedy=error.remedy) from None
