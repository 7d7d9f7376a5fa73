"""What a page would make a browser load: every address that is not inside the page itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_ATTRIBUTES = {"src", "srcset", "data", "poster", "background", "xlink:href"}
_CSS = re.compile(r"url\(\s*['\"]?(?!data:|#)([^)'\"]+)|@import\s+['\"]([^'\"]+)", re.IGNORECASE)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._style = tag == "style"
        self.scripts += tag == "script"
        for name, value in attrs:
            named = name in _ATTRIBUTES or (name == "href" and tag in ("link", "use", "image"))
            if named and value and not value.startswith(("data:", "#")):
                self.found.append(value)
            if name == "style":
                self._css(value or "")

    def handle_data(self, data: str) -> None:
        if self._style:
            self._css(data)

    def _css(self, text: str) -> None:
        self.found += [one or other for one, other in _CSS.findall(text)]


def loads(page: str) -> list[str]:
    """The addresses outside of `page` that it refers to for loading; links a person may click do not count."""
    reader = _Reader()
    reader.feed(page)
    return reader.found


def scripts(page: str) -> int:
    """How many script elements it has."""
    reader = _Reader()
    reader.feed(page)
    return reader.scripts
