"""Links of pages that leave docs/ lead to the repository: on a site there is nothing beside the pages."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\]\(((?:\.\./)+)([^)#]*)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page's text with links to files of the repository."""
    depth = page.file.src_uri.count("/")

    def replace(link: re.Match[str]) -> str:
        climbs = link[1].count("../")
        if climbs <= depth:
            return link[0]
        return f"]({config.repo_url}/blob/main/{link[2]}{link[3] or ''})"

    return OUTSIDE.sub(replace, markdown)
