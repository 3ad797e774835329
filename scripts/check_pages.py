"""Look at every page of the documentation in Chromium, as `make docs-check` does.

At three widths and in both themes: nothing is wider than the page, the console has no error, no
other host is asked for anything, and axe-core finds no violation of WCAG 2 AA (contrast and more).
Prints what is wrong; `--pictures DIR` also keeps a picture of each page that is named.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "_build" / "html"
WIDTHS = (360, 768, 1280)
THEMES = ("light", "dark")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")
LEFT_OUT = ("search.html", "genindex.html", "py-modindex.html", "_modules/")
RULES = {"runOnly": ["wcag2a", "wcag2aa"], "preload": False}
# What sticks out of the page; what scrolls by itself or is hidden does not count.
WIDER = """() => {
  const page = document.documentElement, found = [];
  if (page.scrollWidth > page.clientWidth)
    for (const e of document.querySelectorAll("body *"))
      if (e.getBoundingClientRect().right > page.clientWidth + 1 && e.checkVisibility())
        found.push(e.tagName + "." + e.className);
  const cut = [...document.querySelectorAll(".bd-article pre")].filter(
    e => e.scrollWidth > e.clientWidth + 1 && e.checkVisibility());
  const broken = [...document.querySelectorAll(".bd-article td")].filter(e => {
    const words = document.createTreeWalker(e, NodeFilter.SHOW_TEXT), tops = new Set();
    while (words.nextNode()) {
      const text = document.createRange();
      text.selectNodeContents(words.currentNode);
      [...text.getClientRects()].forEach(r => tops.add(Math.round(r.top / 9)));
    }
    return /^[\\w.]+$/.test(e.innerText.trim()) && tops.size > 1;
  }).map(e => e.innerText.trim());
  return [page.scrollWidth - page.clientWidth, found.slice(0, 3), cut.length, broken.slice(0, 3)];
}"""
AXE = """options => axe.run(document, options).then(r => r.violations.map(
  v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.target.join(" ")).join(" | ")))"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def problems(browser: Any, url: str, width: int, theme: str, picture: Path | None) -> Iterator[str]:
    """What is wrong with a page as it is seen at a width in a theme."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page, wrong, asked = context.new_page(), [], []
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("response", lambda r: wrong.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url, wait_until="load")
    page.wait_for_function("!window.MathJax || !MathJax.startup || MathJax.startup.promise")
    more, elements, cut, broken = page.evaluate(WIDER)
    if more > 0:
        yield f"{more} px wider than the page: {elements}"
    if cut:
        yield f"{cut} blocks of code are cut off"
    if broken:
        yield f"words in a table are broken over lines: {broken}"
    page.evaluate(AXE_SCRIPT)
    yield from page.evaluate(AXE, RULES)
    yield from (f"console: {text}" for text in wrong)
    host = "/".join(url.split("/")[:3]) + "/"
    yield from (f"asks {u}" for u in asked if not u.startswith((host, "data:", "blob:")))
    if picture is not None:
        page.screenshot(path=picture, full_page=True)
    context.close()


def main() -> int:
    """Check the pages; the number of those with problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="such as index.html; all if none is given")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the pages named")
    options = parser.parse_args()
    names = options.pages or sorted(str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*.html"))
    names = [name for name in names if not name.startswith((*LEFT_OUT, "_static"))]
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    handler = functools.partial(_Quiet, directory=str(FOLDER))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # a page was left before all of it was sent
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root, bad = f"http://127.0.0.1:{server.server_port}", set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name in names:
            for width in WIDTHS:
                for theme in THEMES:
                    stem = f"{name.removesuffix('.html').replace('/', '-')}-{width}-{theme}.png"
                    picture = options.pictures / stem if options.pictures else None
                    for text in problems(browser, f"{root}/{name}", width, theme, picture):
                        bad.add(name)
                        print(f"{name} at {width} px, {theme}: {text}", flush=True)
        browser.close()
    print(f"{len(names)} pages at {len(WIDTHS)} widths in 2 themes; {len(bad)} with problems")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main() > 0)
