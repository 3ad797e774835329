"""The report in a browser: it works by pointer and by keys, in both themes, on a phone, on paper.

Runs where Debian's chromium is installed, and elsewhere skips; where SOJOURN_BROWSER_REQUIRED is
set, a missing browser is a failure.
"""

import csv
import io
import json
import os
import shutil

import numpy as np
import pytest
from report_cases import EVIL, EVIL_ID, case

import sojourn as sj

BROWSER = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 375, "height": 800}
LEAST_CONTRAST = 4.5  # of text, by the accessibility guidelines of the web (AA)


@pytest.fixture(scope="module")
def chromium():
    if BROWSER is None:
        why = "chromium is not installed; apt-get install chromium"
        if os.environ.get("SOJOURN_BROWSER_REQUIRED"):
            pytest.fail(why)
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page on 120 sequences with hostile names, labelled."""
    path = tmp_path_factory.mktemp("browser") / "report.html"
    detector, sequences = case(120, 90)
    labels = np.arange(120) % 5 == 0
    sj.write_report(detector, sequences, path, labels=labels, title=f"Report {EVIL}")
    return path


@pytest.fixture
def opened(chromium, report):
    """Opens the page in a way of looking at it; in the end nothing may have gone wrong."""
    contexts, wrong, asked, given = [], [], [], set()

    def look(theme="light", viewport=DESKTOP, path=report):
        context = chromium.new_context(color_scheme=theme, viewport=viewport)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        given.add(path.as_uri())
        page.goto(path.as_uri())
        return page

    yield look
    hacked = [page.evaluate("window.hacked") for context in contexts for page in context.pages]
    for context in contexts:
        context.close()
    assert wrong == []
    assert {url.split("#")[0] for url in asked} == given
    assert set(hacked) == {None}


def column(page, number):
    cells = page.locator(f"#table tbody tr:not([hidden]) > :nth-child({number})")
    return cells.evaluate_all("cells => cells.map(cell => cell.dataset.v ?? cell.textContent)")


def test_headers_sort_the_table_both_ways(opened):
    page = opened()
    assert page.locator("th[aria-sort]").inner_text().startswith("p-value")
    for name, number in (("Score", 3), ("Steps", 4), ("p-value", 2)):
        header = page.get_by_role("button", name=name, exact=True)
        header.click()
        values = [float(v) for v in column(page, number)]
        assert values == sorted(values)
        assert page.locator("th[aria-sort]").count() == 1
        header.click()
        values = [float(v) for v in column(page, number)]
        assert values == sorted(values, reverse=True)
        assert page.locator("th[aria-sort=descending]").inner_text().startswith(name)


def test_ids_sort_by_the_numbers_in_them(opened):
    page = opened()
    page.get_by_role("button", name="Sequence", exact=True).click()
    names = [name for name in column(page, 1) if name.startswith("f")]
    assert names == [f"f{i}" for i in range(1, 120)]


def test_the_filter_leaves_what_it_is_asked_for(opened):
    page = opened()
    page.get_by_label("Filter").fill("F11")
    assert set(column(page, 1)) == {"f11", *(f"f11{i}" for i in range(10))}
    assert page.get_by_role("status").inner_text() == "11 of 120"
    page.get_by_label("Filter").fill("")
    assert len(column(page, 1)) == 120


def test_a_timeline_opens_and_describes_its_steps(opened):
    page = opened()
    assert page.locator("#case-1 svg").count() == 0  # drawn when it is opened
    page.locator("#case-1 summary").click()
    page.locator("#case-1 .lane").first.wait_for()
    first = page.locator("details.case").first  # open from the start
    timelines = first.locator(".timeline")
    assert timelines.count() == 2  # its own, and that of a typical sequence
    assert "typical normal sequence" in first.locator("h4").inner_text()
    first = timelines.first
    assert first.locator(".lane").count() == 6
    assert first.locator(".phases path").count() >= 2
    assert first.locator(".flag").count() == 2  # reasons with a place
    assert first.locator(".over i").count() == 2
    first.locator(".over").hover(position={"x": 200, "y": 60})
    assert first.locator(".read").inner_text().startswith("Step ")
    where = page.locator("#case-0 button.where").first
    where.click()
    step = where.get_attribute("data-start")
    assert first.locator(".over").get_attribute("aria-valuenow") == str(int(step) + 1)
    assert "surprise" in first.locator(".over").get_attribute("aria-valuetext")


def test_a_link_of_the_table_opens_the_timeline(opened):
    page = opened()
    page.locator("#table a").nth(4).click()
    page.locator("#case-4 .surprise").first.wait_for()
    assert page.locator("details[open]").count() == 2  # and the first
    assert page.evaluate("document.activeElement.closest('details').id") == "case-4"


def test_the_keyboard_reaches_everything(opened):
    page = opened()
    reached = []
    for _ in range(90):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.id || e.className || e.textContent.trim(), s.outlineStyle !== 'none'] })()"
        )
        assert found[1], f"{found[0]} has no focus ring"
        reached.append(found[0])
        if page.evaluate("document.activeElement.matches('#case-1 summary')"):
            break
    wanted = {"skip", "theme", "filter", "scroll", "Sequence", "p-value", "all", "group", "over"}
    assert wanted | {"Save as CSV", "Where this comes from"} <= set(reached)
    page.keyboard.press("Enter")
    page.locator("#case-1[open] .over").first.wait_for()
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#case-1 .over')"):
            break
    for key, step in (("ArrowRight", "1"), ("ArrowRight", "2"), ("End", "90"), ("Home", "1")):
        page.keyboard.press(key)
        assert page.locator("#case-1 .over").first.get_attribute("aria-valuenow") == step


def test_names_stay_text(opened):
    page = opened()
    assert page.locator("h1").inner_text() == f"Report {EVIL}"
    assert page.locator("img").count() == 0
    page.get_by_role("button", name="Open all").click()
    page.locator("#case-29 .lane").first.wait_for()
    labels = page.locator("#case-0 .lane .label").all_inner_texts()
    assert any(label.startswith("<script>") for label in labels)
    assert any(EVIL_ID[:20] in name for name in column(page, 1))


def luminance(color):
    r, g, b = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (int(v) / 255 for v in color)
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def pixels(page, selector):
    """Pixels of an element, (height, width, 3)."""
    from matplotlib.image import imread

    shot = page.locator(selector).first.screenshot()
    return np.rint(imread(io.BytesIO(shot), format="png")[..., :3] * 255).astype(int)


PARTS = [
    "#summary",
    "#overview",
    "#sequences",
    "#case-0",
    "#scores figure",
    "#model .state",
    "#model figure",
]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_part_is_legible_in_both_themes(opened, theme):
    page = opened(theme)
    for selector in PARTS:
        image = pixels(page, selector)
        colors, counts = np.unique(image.reshape(-1, 3), axis=0, return_counts=True)
        ground = colors[counts.argmax()]
        assert (luminance(ground) > 0.8) == (theme == "light"), selector
        assert len(colors) > 40, f"{selector} is blank"
        frequent = colors[counts >= 20]
        best = max(contrast(ground, color) for color in frequent)
        assert best >= LEAST_CONTRAST, f"{selector} has a contrast of {best:.1f}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_contrast_with_what_is_behind_them(opened, theme):
    page = opened(theme)
    found = page.evaluate(
        """() => {
          const canvas = document.createElement("canvas")
            .getContext("2d", { willReadFrequently: true });
          const rgb = (color) => {
            canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
          };
          const root = getComputedStyle(document.documentElement);
          const value = (name) => rgb(root.getPropertyValue(name));
          const pairs = [];
          for (const words of ["--ink", "--muted", "--accent", "--alarm"])
            for (const ground of ["--ground", "--surface", "--raised"])
              pairs.push([`${words} on ${ground}`, value(words), value(ground)]);
          pairs.push(["--alarm on --alarm-soft", value("--alarm"), value("--alarm-soft")]);
          return pairs;
        }"""
    )
    for name, words, ground in found:
        assert contrast(words, ground) >= LEAST_CONTRAST, name


def test_the_theme_button_changes_the_theme_and_is_remembered(opened):
    page = opened("light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.get_by_role("button", name="Theme")
    button.click()
    assert page.evaluate(ground) == light
    button.click()
    assert button.inner_text() == "Theme: dark"
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    button.click()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_scrolls_down_only(opened, theme):
    page = opened(theme, PHONE)
    page.locator("#case-0 .lane").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    wide = page.evaluate(
        "[...document.querySelectorAll('main svg, .tile, .case, .reasons')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert wide == 0


def test_lanes_keep_their_names_on_a_phone(opened, tmp_path):
    names = [f"a_rather_long_name_of_a_symbol_{i}" for i in range(6)]
    detector, sequences = case(20, names=names)
    sj.write_report(detector, sequences, tmp_path / "named.html")
    page = opened(viewport={"width": 360, "height": 800}, path=tmp_path / "named.html")
    labels = page.locator("#case-0 .lane .label")
    assert labels.first.inner_text() in names
    cut = labels.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).length")
    assert cut == 0


def test_the_table_is_saved_as_csv_and_json_that_agree(opened):
    page, saved = opened(), {}
    for kind in ("CSV", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save as {kind}").click()
        assert download.value.suggested_filename == f"sequences.{kind.lower()}"
        saved[kind] = download.value.path().read_text("utf-8")
    rows, found = list(csv.DictReader(io.StringIO(saved["CSV"]))), json.loads(saved["JSON"])
    assert [float(row["p_value"]) for row in rows] == [row["p_value"] for row in found]
    assert [float(v) for v in column(page, 3)] == [row["score"] for row in found]
    assert {row["verdict"] for row in found} == {"normal", "abnormal"}
    assert [row["id"] for row in rows] == [row["id"].lstrip("'") for row in found]
    assert [bool(row["reason"]) for row in found] == [row["verdict"] == "abnormal" for row in found]


def test_a_text_that_a_spreadsheet_would_run_is_saved_as_text(opened, tmp_path):
    ids = ["=HYPERLINK(1)", "@x", "+1", "-2", "plain"]
    detector, sequences = case(5, ids=ids)
    sj.write_report(detector, sequences, tmp_path / "cells.html")
    page = opened(path=tmp_path / "cells.html")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8"))))
    assert {row["id"] for row in rows} == {"'=HYPERLINK(1)", "'@x", "+1", "-2", "plain"}


def test_a_line_of_the_picture_and_a_group_lead_to_their_sequences(opened):
    page = opened()
    canvas = page.locator(".heat canvas")
    box = canvas.bounding_box()
    canvas.hover(position={"x": 5, "y": box["height"] - 2})
    last = column(page, 1)[-1]
    assert page.locator("#heat-read").inner_text().startswith(last)
    canvas.click(position={"x": 5, "y": box["height"] - 2})  # without a timeline: in the table
    assert column(page, 1) == [name for name in [last] if name in column(page, 1)]
    group = page.locator("button.group").first
    group.click()
    members = int(page.locator(".groups td:nth-child(2)").first.inner_text())
    assert len(column(page, 1)) == members
    canvas.click(position={"x": 5, "y": box["height"] * 1.5 / 120})
    page.locator("#case-1 .lane").first.wait_for()


def test_on_paper_it_is_light_and_all_timelines_are_drawn(opened):
    page = opened("dark")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert page.locator("details[open]").count() == 1  # as they were before printing
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details[open] .timeline:not(.typical) .chart").count() == 30
    assert page.locator(".provenance").get_attribute("open") is not None
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("header").is_hidden()
    rows = page.locator("#table tbody tr").evaluate_all("r => r.filter(x => x.offsetHeight).length")
    assert rows == 100


def test_two_thousand_sequences_are_sorted_and_filtered(opened, tmp_path):
    detector, sequences = case(2000, 60, seed=3)
    sj.write_report(detector, sequences, tmp_path / "large.html")
    page = opened(path=tmp_path / "large.html")
    page.get_by_role("button", name="Score", exact=True).click()
    values = [float(v) for v in column(page, 3)]
    assert len(values) == 2000
    assert values == sorted(values)
    page.get_by_label("Filter").fill("f1999")
    assert column(page, 1) == ["f1999"]
