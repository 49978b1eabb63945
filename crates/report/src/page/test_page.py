"""The page of `ptxkit exec --report`, in headless Chromium.

PTXKIT names the program, which finds the CPU device beside it; CHROMIUM the browser.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

PROGRAM = Path(__file__).with_name("program.py")
MANGLED = "_ZN4cuda3tpl6kernelILi4EEEvPfS1_"
HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A page of two processes, and their trace."""
    folder = tmp_path_factory.mktemp("report")
    page, trace = folder / "page.html", folder / "trace.json"
    command = f"{sys.executable} {PROGRAM} {MANGLED} && {sys.executable} {PROGRAM}"
    program = [os.environ["PTXKIT"], "exec", "--device", "cpu", "--report", page, "--trace", trace, "--", "sh", "-c", command]
    subprocess.run(program, check=True)
    return page, trace


@pytest.fixture
def page(browser, files):
    page = opened(browser, files[0])
    yield page
    page.close()


def opened(browser, file, **options) -> Page:
    page = browser.new_page(viewport={"width": 1400, "height": 1000}, **options)
    page.errors = []
    page.requests = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(file.as_uri())
    return page


def with_record(files, folder, change) -> Path:
    """A page with one more record."""
    text = files[0].read_text()
    record = json.loads(re.findall(r'<script type="application/json">(.*)</script>', text)[-1])
    change(record)
    copy = folder / "copy.html"
    line = json.dumps(record).replace("<", "\\u003c")
    copy.write_text(f'{text}<script type="application/json">{line}</script>\n')
    return copy


def card(page, name):
    return page.locator(".card", has_text=re.compile(rf"(?<!in ){name}$")).locator("b")


def test_cards_add_up_processes(page):
    expect(card(page, "launches")).to_have_text("75")
    expect(card(page, "kernels")).to_have_text("3")
    expect(card(page, "copied")).to_have_text("6 MiB")
    expect(card(page, "refusal")).to_have_text("1")
    expect(page.locator("#process option")).to_have_count(3)
    page.locator("#process").select_option(index=1)
    expect(card(page, "launches")).to_have_text("38")
    assert not page.errors


def test_it_fetches_nothing(page, files):
    assert page.requests == [files[0].as_uri()]


def test_refused_calls_have_a_remedy(page):
    refused = page.locator("#refused")
    expect(refused).to_contain_text("tcgen05.shift")
    expect(refused.locator(".remedy")).to_contain_text("-gencode arch=compute_90,code=compute_90")


def test_names_are_demangled(page):
    expect(page.locator("#kernels")).to_contain_text("void scale<float>(float*, int)")
    expect(page.locator("#kernels")).to_contain_text("void cuda::tpl::kernel<4>")


def test_a_fault_leads_to_its_line(page):
    page.locator("#faults").get_by_role("button").click()
    panel = page.locator("#panel")
    expect(panel.locator("h2")).to_have_text("fill")
    expect(panel.locator(".line.fault")).to_contain_text("st.global.u32")
    expect(panel.locator(".line.finding")).to_contain_text("shl.b32")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_ptx_has_the_lines_of_the_source(page):
    page.locator("tr.row", has_text="scale<float>").click()
    from_source = page.locator("#panel .from")
    expect(from_source.filter(has_text="scale.cu:12")).to_have_count(1)
    expect(from_source.filter(has_text="scale.cuh:7")).to_have_count(1)
    assert page.url.endswith("_Z5scaleIfEvPT_i")
    page.reload()
    expect(page.locator("#panel h2")).to_have_text("void scale<float>(float*, int)")


def test_keys(page):
    page.keyboard.press("/")
    page.keyboard.type("fill")
    expect(page.locator("tr.row")).to_have_count(1)
    expect(page.locator("#timeline")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator("tr.row")).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    first = page.locator("tr.row").first
    expect(first).to_have_attribute("aria-current", "true")
    expect(page.locator("#panel")).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("tr.row").nth(1)).to_have_attribute("aria-current", "true")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    assert not page.errors


def test_kernels_are_sorted(page):
    page.get_by_role("button", name="Launches").click()
    launches = [int(text) for text in page.locator("tr.row td:nth-child(3)").all_inner_texts()]
    assert launches == sorted(launches, reverse=True)
    page.get_by_role("button", name="Launches").click()
    assert page.locator("tr.row td:nth-child(3)").first.inner_text() == "1"


def test_the_timeline_zooms(page):
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    whole = page.locator("#range").inner_text()
    assert whole.endswith("in all")
    page.mouse.move(box["x"] + 300, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 40)
    page.mouse.up()
    expect(page.locator("#range")).to_contain_text(" of ")
    canvas.press("0")
    expect(page.locator("#range")).to_have_text(whole)
    canvas.press("+")
    expect(page.locator("#range")).not_to_have_text(whole)
    page.mouse.dblclick(box["x"] + 400, box["y"] + 40)
    expect(page.locator("#range")).to_have_text(whole)
    assert not page.errors


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(browser, files, scheme):
    page = opened(browser, files[0], color_scheme=scheme)
    back = "() => getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(back)
    assert before == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 24, 29)")
    page.keyboard.press("t")
    assert page.evaluate(back) != before
    page.close()


def test_names_stay_text(browser, files, tmp_path):
    def change(record):
        record["process"]["command"] = [HOSTILE]
        record["process"]["started"] += 1
        record["device"] = {"name": HOSTILE, "driver": HOSTILE, "ptxkit": HOSTILE, "host": HOSTILE}
        shape = {"grid": [1, 1, 1], "block": [1, 1, 1], "cluster": [1, 1, 1], "shared_bytes": 0, "launches": 1}
        record["kernels"] = [{"name": HOSTILE, "demangled": HOSTILE, "module": HOSTILE, "launches": 1, "seconds": 9.0,
                              "max_seconds": 9.0, "shapes": [shape],
                              "faults": [{"message": HOSTILE, "line": 1, "times": 1}]}]
        record["sources"] = [{"name": HOSTILE, "module": HOSTILE, "ptx": f".loc 1 2 3\n{HOSTILE}\n", "first_line": 1,
                              "files": {"1": HOSTILE},
                              "findings": [{"code": HOSTILE, "message": HOSTILE, "help": HOSTILE, "line": 1}]}]
        record["lanes"] = [{"id": 0, "name": HOSTILE}]
        record["events"] = [{"kind": "launch", "lane": 0, "start": 0, "seconds": 1, "name": HOSTILE, "fault": HOSTILE,
                             "grid": [1, 1, 1], "block": [1, 1, 1]}]
        record["loads"] = [{"entry": HOSTILE, "image": HOSTILE, "reason": HOSTILE, "module": HOSTILE, "kernels": 1,
                            "outcome": HOSTILE, "start": 0, "seconds": 0}]
        record["copies"] = [{"direction": HOSTILE, "times": 1, "bytes": 1, "seconds": 1}]
        record["failures"] = [{"kind": kind, "entry": HOSTILE, "error": HOSTILE, "cause": f"{HOSTILE}\n{HOSTILE}",
                               "remedy": HOSTILE, "times": 1} for kind in ("refused", "fault", "error")]
        record["missing"] = [{"entry": HOSTILE, "times": 1}]

    page = opened(browser, with_record(files, tmp_path, change))
    page.locator("tr.row").first.click()
    expect(page.locator("#panel h2")).to_have_text(HOSTILE)
    page.locator("canvas").hover()
    assert page.locator("img").count() == 0
    assert page.title() != "hacked" and "ptxkit exec" in page.title()
    assert not page.errors
    page.close()


def test_damaged_records_are_left_out(browser, files, tmp_path):
    copy = tmp_path / "copy.html"
    copy.write_text(files[0].read_text() + '<script type="application/json">{"process":')
    page = opened(browser, copy)
    expect(card(page, "launches")).to_have_text("75")
    assert not page.errors
    page.close()


def test_empty_sections_are_left_out(browser, files, tmp_path):
    copy = tmp_path / "copy.html"
    start = files[0].read_text().split('<script type="application/json">')[0]
    copy.write_text(start + '<script type="application/json">{"process":{"id":1,"started":0,"command":["a"]},'
                            '"seconds":1,"dropped":0}</script>')
    page = opened(browser, copy)
    expect(page.locator("#kernels")).to_contain_text("no kernel was launched")
    assert page.locator("section").count() == 2  # kernels, and the process
    copy.write_text(start)
    page.reload()
    expect(page.locator("main")).to_contain_text("no process opened the driver")
    assert not page.errors
    page.close()


def test_the_trace_is_an_array_without_its_end(files):
    events = json.loads(files[1].read_text() + "]")
    complete = [event for event in events if event["ph"] == "X"]
    kinds = {event["cat"] for event in complete}
    assert kinds == {"load", "compile", "copy", "launch"}
    launches = [event for event in complete if event["cat"] == "launch"]
    assert len(launches) == 75
    assert all(event["dur"] >= 0 and event["ts"] > 1e15 for event in complete)
    assert len({event["pid"] for event in complete}) == 2
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in complete} == named
