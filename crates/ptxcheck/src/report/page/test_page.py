"""The page of `ptxcheck report`, in headless Chromium.

PTXCHECK names the program, CHROMIUM the browser.
"""

import json
import os
import re
import subprocess

import pytest
from playwright.sync_api import Page, expect, sync_playwright

KERNELS = """\
.version 8.0
.target sm_80
.address_size 64
.file 1 "/home/user/scale.cu"

/* a comment
   of two lines */
.visible .entry _Z5scaleIfEvPT_(.param .u64 .ptr .global .align 4 p)
{
	.reg .pred %p<3>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b32 first;

	.loc 1 12 3
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.u32 %r4, 0;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra REST;
	st.shared.b32 [first], 7;
	bar.sync 0;
REST:
	ld.shared.b32 %r2, [first];
	shl.b32 %r3, %r2, 40;
	st.global.b32 [%rd3], %r3;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p2, %r4, 9;
	@%p2 bra REST;
	ret;
}

.visible .entry second()
{
}
"""

HOSTILE = "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"

# Text in a contrast below that of WCAG 2.1, 1.4.3: 4.5, or 3 where it is large.
LOW_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colour, below) => {
    canvas.clearRect(0, 0, 1, 1);
    if (below) { canvas.fillStyle = `rgb(${below})`; canvas.fillRect(0, 0, 1, 1); }
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = colour => colour.map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const back = element => {
    if (!element) return rgb(getComputedStyle(document.body).backgroundColor);
    const below = element.parentElement && back(element.parentElement);
    return rgb(getComputedStyle(element).backgroundColor, below ?? [255, 255, 255]);
  };
  const box = text => text.closest(".block, .drawing");
  const low = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.textContent.trim() || !element.getClientRects().length) continue;
    if (element.closest("script, style, title, noscript")) continue;
    const style = getComputedStyle(element);
    const drawn = element.closest("svg");
    let behind = back(element), colour = style.color;
    if (drawn) {
      colour = style.fill;
      const name = element.classList.contains("why") ? ".foot"
        : element.classList.contains("dot") ? "circle.dot" : ".box";
      const shape = element.closest(".block")?.querySelector(name);
      behind = shape ? rgb(getComputedStyle(shape).fill, back(drawn)) : back(drawn);
    }
    const [a, b] = [light(rgb(colour, behind)), light(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) {
      low.add(`${ratio.toFixed(2)} ${element.tagName} .${element.getAttribute("class")}: ${node.textContent.slice(0, 30)}`);
    }
  }
  return [...low];
}"""


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens the page on some files; nothing may go wrong on it, and nothing be asked for."""
    contexts, wrong = [], []

    def opened(files: dict[str, str], *options: str, theme="light", size=(1440, 900)) -> Page:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        program = os.environ.get("PTXCHECK", "ptxcheck")
        subprocess.run(
            [program, "report", "-o", "report.html", "--isolated", "--exit-zero", *options, *files],
            cwd=tmp_path,
            check=True,
        )
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        address = (tmp_path / "report.html").as_uri()
        page.on("request", lambda asked: wrong.append(asked.url) if asked.url.split("#")[0] != address else None)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def line(page: Page, number: int):
    return page.locator(f'.line[data-line="{number}"]')


def tab(page: Page, name: str):
    return page.get_by_role("tab", name=name)


def test_from_the_overview_to_a_finding_its_explanation_and_the_places_it_names(open_page):
    page = open_page({"k.ptx": KERNELS})
    expect(page.locator(".facts")).to_contain_text("2 kernels")
    expect(page.locator("#tree")).to_contain_text("divergent-barrier")
    expect(page.locator(".findings > li")).to_have_count(3)

    page.locator("#tree a.row", has_text="shift-beyond-width").click()
    expect(page.locator(".findings > li")).to_have_count(1)
    expect(page.locator("#explanation")).to_contain_text("W0103 shift-beyond-width")
    page.locator("#explanation").get_by_label("Close the explanation").click()
    expect(page.locator("#explanation")).to_be_hidden()

    page.go_back()
    page.locator(".findings a", has_text="W0301").click()
    expect(line(page, 24)).to_be_in_viewport()
    expect(line(page, 24)).to_have_class(re.compile("target"))
    card = page.locator(".line[data-line='24'] + .finding")
    expect(card).to_contain_text("W0301")
    expect(card).to_contain_text("not all threads of the block come to this barrier")
    expect(page.locator("#explanation")).to_contain_text("waits until all threads of the block have come")
    # The message names line 17, where the thread comes in.
    card.get_by_role("link", name="17").click()
    expect(line(page, 17)).to_have_class(re.compile("target"))
    expect(line(page, 17)).to_contain_text("%tid.x")
    page.go_back()
    expect(line(page, 24)).to_have_class(re.compile("target"))
    # The code of a card explains its rule.
    page.locator(".finding", has_text="W0103").locator("button.code").click()
    expect(page.locator("#explanation")).to_contain_text("W0103 shift-beyond-width")


def test_the_text_has_colours_source_lines_and_fixes(open_page):
    page = open_page({"k.ptx": KERNELS})
    page.locator(".findings a", has_text="W0202").click()
    fix = page.locator(".finding .fix")
    expect(fix).to_contain_text("--fix")
    expect(fix.locator(".new")).to_contain_text("ret;")
    expect(line(page, 7).locator(".comment")).to_have_text("   of two lines */")
    expect(line(page, 16).locator(".opcode")).to_have_text("ld")
    expect(line(page, 15).locator(".from")).to_have_text("scale.cu:12")
    register = line(page, 19).locator(".register").nth(2)
    expect(register).to_have_attribute("title", re.compile(r"%rd2 \.b64: differs between threads.*\n= 4 × %tid.x"))
    register.click()
    expect(page.locator(".register.same")).to_have_count(2)
    page.locator("#find").fill("BRA REST")
    expect(page.locator(".search")).to_contain_text("2 matches")
    page.locator("#find").press("Enter")
    expect(line(page, 22)).to_have_class(re.compile("target"))


def test_control_flow_names_the_branches_that_part_threads(open_page):
    page = open_page({"k.ptx": KERNELS})
    page.locator("#tree a.row", has_text="scale").last.click()
    tab(page, "Control flow").click()
    expect(page.locator("g.block")).to_have_count(4)
    expect(page.locator(".edge.back")).to_have_count(1)
    divergent = page.locator("g.block.thread")
    expect(divergent).to_have_count(1)
    # The reason is there as a text, as a tooltip, and in the list.
    expect(divergent.locator("text.why")).to_have_text("◆ %p1 ← %r1 ← %tid.x")
    reason = "Threads of one warp may take different ways here: %p1 (line 21) ← %r1 (line 17) ← %tid.x (line 17)"
    assert reason in divergent.locator("title").text_content()
    page.locator(".reasons summary").click()
    expect(page.locator(".branches li")).to_contain_text(reason)
    expect(page.locator(".edge.thread title").first).to_contain_text(reason)

    # A block leads to its lines, and a line to its block.
    divergent.click()
    expect(tab(page, "Text")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".line.target")).to_have_count(7)
    expect(line(page, 22).locator(".parts")).to_contain_text("parts threads of a warp")
    line(page, 26).locator(".block-link").click()
    expect(page.locator("g.block.chosen")).to_have_attribute("data-block", "2")
    expect(page.locator("g.block.chosen")).to_be_in_viewport()
    # By the keyboard alone.
    page.keyboard.press("ArrowUp")
    expect(page.locator("g.block.chosen")).to_have_attribute("data-block", "0")
    page.keyboard.press("Enter")
    expect(line(page, 16)).to_have_class(re.compile("target"))
    page.go_back()
    expect(page.locator("svg.cfg")).to_be_visible()


def test_registers_are_filtered_and_resources_are_those_of_the_command(open_page, tmp_path):
    page = open_page({"k.ptx": KERNELS})
    page.locator("#tree a.row", has_text="scale").last.click()
    tab(page, "Registers").click()
    rows = page.locator(".registers tbody tr")
    expect(rows).to_have_count(9)
    expect(rows.filter(has_text="%rd3")).to_contain_text("4 × %tid.x + base")
    expect(rows.filter(has_text="%r4")).to_contain_text("uniform")
    page.locator("#registers").fill("b64, lane")
    expect(rows).to_have_count(2)
    page.locator("#registers").fill("")
    page.get_by_label(re.compile("differs between threads")).uncheck()
    expect(rows.filter(has_text="%tid.x")).to_have_count(0)
    rows.filter(has_text="%r2").get_by_role("link").click()
    expect(line(page, 26)).to_have_class(re.compile("target"))

    tab(page, "Resources").click()
    program = os.environ.get("PTXCHECK", "ptxcheck")
    printed = subprocess.run(
        [program, "resources", "k.ptx", "--format", "json"], cwd=tmp_path, check=True, capture_output=True
    )
    resources = json.loads(printed.stdout)[0]
    shown = page.locator(".resources")
    expect(shown).to_contain_text(f"{resources['shared_bytes']} bytes")
    for name, count in resources["instructions"]["by_class"].items():
        expect(shown.locator(".bars tr", has=page.get_by_role("rowheader", name=name, exact=True))).to_contain_text(
            str(count)
        )


def test_the_keyboard_alone_is_enough(open_page):
    page = open_page({"a/one.ptx": KERNELS, "two.ptx": KERNELS.replace("second", "other")})
    page.keyboard.press("/")
    page.keyboard.type("other")
    expect(page.locator("#none")).to_have_text("1 file, 1 kernel, 0 rules")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator(".head h1")).to_contain_text("other")
    expect(page.locator("#tree [aria-current]")).to_contain_text("other")
    page.keyboard.press("2")
    expect(page.locator("main")).to_contain_text("This kernel has no instructions.")
    page.keyboard.press("4")
    expect(page.locator(".resources")).to_be_visible()
    page.keyboard.press("o")
    expect(page.locator(".overview")).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator(".line.target + .finding")).to_be_in_viewport()
    first = page.evaluate("location.hash")
    page.keyboard.press("n")
    page.keyboard.press("p")
    assert page.evaluate("location.hash") == first
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next finding")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # From the top, what comes first is the way past everything else.
    page.keyboard.press("o")
    page.reload()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("n")
    page.keyboard.press("2")
    tab(page, "Control flow").focus()
    page.keyboard.press("ArrowRight")
    expect(tab(page, "Registers")).to_be_focused()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_can_be_read_in_light_and_in_dark(open_page, theme):
    page = open_page({"k.ptx": KERNELS + "bad"}, "--select", "all", theme=theme)
    views = ["#", "#rule=W0103", "#text=0&line=24&finding=0"]
    views += [f"#text=0&function=0&tab={name}" for name in ["flow", "registers", "resources"]]
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert dark == (theme == "dark")
    for switch in range(3):
        for view in views:
            page.evaluate("view => { location.hash = view; }", view)
            page.wait_for_timeout(60)
            assert page.evaluate(LOW_CONTRAST) == [], f"{view}, switched {switch} times"
        page.locator("#theme").click()


def test_what_a_text_says_is_never_markup(open_page):
    source = KERNELS.replace("a comment", HOSTILE).replace("/home/user/scale.cu", HOSTILE.replace('"', ""))
    source = source.replace(".visible .entry second", f"{HOSTILE};\n.visible .entry second") + "\u202e\0"
    page = open_page({"a</script><b>.ptx": source})
    expect(page.locator("#tree .file summary b")).to_contain_text("script><b>.ptx")
    page.keyboard.press("n")
    expect(page.locator(".finding").first).to_be_visible()
    expect(line(page, 6)).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0
    assert "hacked" not in page.title()
    # What would turn the text round is told.
    assert "\u202e" not in page.locator("main").inner_text()


def test_five_megabytes_open_and_scroll(open_page):
    body = KERNELS.split("/* a comment")[0]
    kernel = KERNELS.split("of two lines */\n")[1].split(".visible .entry second")[0]
    count = 5_000_000 // len(kernel)
    body += "".join(kernel.replace("_Z5scaleIfEvPT_", f"kernel_{index}") for index in range(count))
    page = open_page({"large.ptx": body})
    expect(page.locator("#tree")).to_contain_text("kernel_0")
    page.locator("#filter").fill(f"kernel_{count - 1}")
    page.locator("#tree a.row", has_text=f"kernel_{count - 1}").click()
    last = body.count("\n")
    expect(page.locator(".line.target")).to_contain_text(f"kernel_{count - 1}")
    expect(page.locator(".line.target")).to_be_in_viewport()
    page.evaluate("line => { location.hash = `text=0&line=${line}`; }", last)
    expect(line(page, last)).to_be_in_viewport()
    page.locator("#main").evaluate("main => { main.scrollTop = main.scrollHeight / 2; }")
    page.wait_for_function("document.querySelectorAll('.line').length > 100")
    assert page.locator("*").count() < 40_000


def test_a_graph_that_is_too_large_is_told_of(open_page):
    body = "".join(
        f"\tsetp.ne.u32 %p1, %r1, {i};\n\t@%p1 bra L{i};\n\tst.shared.b32 [first], {i};\nL{i}:\n" for i in range(2000)
    )
    head = KERNELS.split("/* a comment")[0] + ".visible .entry k()\n{\n\t.reg .pred %p<2>;\n\t.reg .b32 %r<2>;\n"
    source = f"{head}\t.shared .align 4 .b32 first;\n\tmov.u32 %r1, %tid.x;\n{body}\tret;\n}}\n"
    page = open_page({"k.ptx": source})
    page.evaluate("location.hash = 'text=0&tab=flow'")
    expect(page.locator("#too-large")).to_contain_text("has 4,001 blocks. A graph of so many is not drawn")
    page.locator(".reasons summary").click()
    expect(page.locator(".branches li").first).to_contain_text("%tid.x")


def test_a_narrow_window_has_a_menu(open_page):
    page = open_page({"k.ptx": KERNELS}, size=(420, 800))
    expect(page.locator("#side")).to_be_hidden()
    page.locator("#menu").click()
    page.locator("#tree a.row", has_text="scale").last.click()
    expect(page.locator("#side")).to_be_hidden()
    expect(page.locator(".line.target")).to_be_in_viewport()
