"""The page read back: its elements, its text, what it refers to."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

VOID = {"meta", "link", "br"}
OURS = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "footer", "nav", "section"),
    *("h1", "h2", "h3", "p", "a", "ul", "ol", "li", "dl", "dt", "dd", "div", "span", "small", "br", "code", "bdi"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary"),
    *("svg", "g", "rect", "path", "text", "circle"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "rel", "href", "id", "class", "tabindex", "role", "title"),
    *("aria-label", "aria-labelledby", "aria-hidden", "scope", "xmlns", "viewBox", "width", "height", "x", "y", "rx"),
    *("d", "r", "cx", "cy", "transform", "viewbox"),
}


class Page(HTMLParser):
    """Elements that are closed as they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.policy = ""
        self.feed(text)
        self.close()
        assert self.open == [], "an element stays open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        known = dict(attrs)
        if "id" in known:
            self.ids.append(known["id"] or "")
        if "href" in known:
            self.links.append(known["href"] or "")
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"] or ""
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h1", "h2", "h3"):
            self.headings.append((tag, ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)
        if self.headings and any(it in ("h1", "h2", "h3") for it in self.open):
            tag, text = self.headings[-1]
            self.headings[-1] = tag, text + data

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


def checked(text: str) -> Page:
    """Nothing but elements of ours, nothing that loads or runs, links that lead somewhere, a policy that fits."""
    page = Page(text)
    assert page.tags <= OURS, page.tags - OURS
    assert page.attributes <= ATTRIBUTES, page.attributes - ATTRIBUTES
    assert len(set(page.ids)) == len(page.ids)
    assert {it for it in page.links if it != "data:,"} <= {f"#{key}" for key in page.ids}
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in page.policy
    assert page.policy.startswith("default-src 'none'; ")
    assert [tag for tag, _ in page.headings].count("h1") == 1
    return page
