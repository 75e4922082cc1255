"""Links to files that are no pages lead to the repository: on a site there is nothing beside the pages."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\]\((?P<path>[\w./-]+)(?P<anchor>#[^)]*)?\)")
EXAMPLES = "docs/examples"


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page's text with links to files of the repository."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def replace(link: re.Match[str]) -> str:
        path = posixpath.normpath(f"{folder}/{link['path']}")
        if path.startswith("docs/") and not f"{path}/".startswith(f"{EXAMPLES}/"):
            return link[0]
        return f"]({config.repo_url}/blob/main/{path}{link['anchor'] or ''})"

    return LINK.sub(replace, markdown)
