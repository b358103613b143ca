# SPDX-License-Identifier: GPL-2.0-only
"""Opens pages and pictures in Chromium: narrow to wide, light and dark. Prints what is wrong; exit code 1 if anything is.

- nothing is written to the console, and nothing is requested but the file itself, or files of its site
- no text is cut off: the page is not wider than the window, and what is wider than its box can be scrolled
- the rules of axe-core for WCAG 2.1 AA: contrast, text alternatives, headings, regions that scroll, ...
- of text in pictures, which axe-core does not look at: contrast, and that it lies within the picture
- each picture has a text alternative
- whatever the Tab key reaches shows that it has the focus
- a page with a search finds something by it
"""
import pathlib
import shutil
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import TimeoutError, sync_playwright

WIDTHS = [400, 1000, 1600]
SCHEMES = ["light", "dark"]
# Without preload: a script may not read the style sheet of a page that is opened as a file.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "preload": False}
# WCAG 1.4.3, of text that is not large.
LEAST_CONTRAST = 4.5

CUT = """() => {
  const wrong = [];
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 1) {
    const beyond = [...document.querySelectorAll('body *')].filter(
      it => it.getBoundingClientRect().right > window.innerWidth + 1 && !it.closest('.scroll, pre'));
    wrong.push(`the page is ${wide} px wider than the window: ${beyond.slice(0, 3).map(it => it.outerHTML.slice(0, 80))}`);
  }
  for (const it of document.querySelectorAll('body *')) {
    const style = getComputedStyle(it);
    const hides = style.overflowX === 'hidden' || style.overflowX === 'clip' || style.textOverflow === 'ellipsis';
    if (!it.closest('svg') && hides && it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 0)
      wrong.push(`cut off: ${it.outerHTML.slice(0, 100)}`);
  }
  return wrong;
}"""

PICTURES = """(least) => {
  const wrong = [];
  const channel = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = it => {
    for (; it; it = it.parentElement) {
      const colour = numbers(getComputedStyle(it).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  for (const picture of document.querySelectorAll('svg, img')) {
    if (picture.parentElement?.closest('svg')) continue;
    const alternative = picture.getAttribute('alt') || picture.getAttribute('aria-label')
      || picture.querySelector(':scope > title')?.textContent;
    if (!alternative && picture.getAttribute('aria-hidden') !== 'true')
      wrong.push(`no text alternative: ${picture.outerHTML.slice(0, 120)}`);
    const box = picture.getBoundingClientRect();
    const ground = picture.querySelector(':scope > rect[width="100%"]');
    const back = ground ? numbers(getComputedStyle(ground).fill) : behind(picture);
    for (const text of picture.querySelectorAll('text')) {
      const at = text.getBoundingClientRect();
      const words = text.textContent.slice(0, 40);
      if (at.width && (at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1))
        wrong.push(`text outside of its picture: ${words}`);
      const ratio = contrast(numbers(getComputedStyle(text).fill), back);
      if (ratio < least) wrong.push(`contrast ${ratio.toFixed(2)} of text in a picture: ${words}`);
    }
  }
  return wrong;
}"""

FOCUS = """() => {
  const it = document.activeElement;
  if (!it || it === document.body) return null;
  const style = getComputedStyle(it);
  const shows = it.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  const box = it.getBoundingClientRect();
  const seen = box.bottom > 0 && box.top < innerHeight;
  return { what: it.outerHTML.slice(0, 100), shows: shows && seen };
}"""


def focus(page):
    """What the Tab key reaches: how many, and those that do not show it."""
    wrong, reached = [], 0
    while reached < 200:
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUS)
        if not at:
            break
        reached += 1
        if not at["shows"]:
            wrong.append(f"the focus is not visible: {at['what']}")
    wanted = page.locator("a[href], summary, button, input").count()
    if reached < min(wanted, 200):
        wrong.append(f"the Tab key reaches {reached} of {wanted} links and buttons")
    return wrong


def search(page):
    """What is wrong with the page's search, if it has one."""
    field = page.locator("input[type=search]")
    if not field.count():
        return []
    field.fill("hackbench")
    found = page.locator("#found a")
    try:
        found.first.wait_for(timeout=10_000)
    except TimeoutError:
        return ["the search finds nothing"]
    field.fill("hackbench qqqqq")
    left = found.count()
    field.fill("hackbench")
    return [f"the search finds {left} sections without its words"] if left else []


def look(browser, path, width, scheme):
    """What is wrong with a file at this width."""
    wrong = []
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.on("console", lambda it: wrong.append(f"console: {it.type}: {it.text}"))
    page.on("pageerror", lambda it: wrong.append(f"error: {it}"))
    page.on("dialog", lambda it: (wrong.append(f"dialog: {it.message}"), it.dismiss()))
    address = path.absolute().as_uri()
    site = next((it.as_uri() + "/" for it in path.absolute().parents if (it / "site.css").is_file()), address)
    page.on("request", lambda it: None if it.url.startswith(site) else wrong.append(f"request: {it.url[:100]}"))
    page.goto(address)
    wrong += page.evaluate(PICTURES, LEAST_CONTRAST)
    if path.suffix == ".html":
        wrong += focus(page)
        wrong += search(page)
        page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
        wrong += page.evaluate(CUT)
        for found in Axe().run(page, options=RULES).response["violations"]:
            places = [node["html"][:100] for node in found["nodes"]]
            wrong.append(f"{found['id']}: {found['help']}: {len(places)} places, the first: {places[0]}")
    context.close()
    return wrong


def main():
    """All files of the command line."""
    failed = False
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for path in map(pathlib.Path, sys.argv[1:]):
            for width in WIDTHS:
                for scheme in SCHEMES:
                    wrong = list(dict.fromkeys(look(browser, path, width, scheme)))
                    failed |= bool(wrong)
                    for line in wrong[:20]:
                        print(f"{path.name}, {width} px, {scheme}: {line}", flush=True)
        browser.close()
    print("FAILED" if failed else f"{len(sys.argv) - 1} pages and pictures: nothing is wrong")
    return failed


if __name__ == "__main__":
    sys.exit(main())
