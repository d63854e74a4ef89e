"""The pages of graphs in a real browser: they render, search, fold and tell, without errors and without the network.

`nox -s browser` runs this, and keeps pictures for docs/ when ``CYGRAD_PICTURES`` names a folder. It needs Debian's
packages chromium and chromium-driver.
"""

import importlib.util
import json
import os
import shutil
from pathlib import Path

import pytest

import cygrad as torch
from cygrad.profiler import profile
from cygrad.tools.graph import Graph, of_model

webdriver = pytest.importorskip("selenium.webdriver")
nn = pytest.importorskip("cygrad.nn")
EXAMPLES = Path(__file__).resolve().parents[2] / "packages/nn/examples"
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromium-driver")


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(size, 3 * size), nn.Linear(size, size), heads

    def forward(self, x):
        batch, length, size = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        weights = (q @ k.transpose(-2, -1) / (size // self.heads) ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, size))


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(size), Attention(size, heads)
        self.norm2, self.mlp = nn.LayerNorm(size), nn.Sequential(nn.Linear(size, 64), nn.GELU(), nn.Linear(64, size))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, blocks=12, size=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, size), nn.Embedding(16, size)
        self.blocks = nn.ModuleList([Block(size, 4) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, 50)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(8, 16), nn.Linear(16, 5)

    def forward(self, x):
        state = None
        for step in x:
            state = self.cell(step, state)
        return self.out(state[0])


def gpt():
    return of_model(GPT(), torch.randint(0, 50, (2, 16)), show_saved=True)


def gpt_backward():
    return of_model(GPT(), torch.randint(0, 50, (2, 16)), view="backward")


def cnn():
    layers = [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return of_model(model, torch.randn(2, 1, 28, 28))


def lstm():
    return of_model(Language(), torch.randn(20, 3, 8))


def chapter():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    with torch.autograd.trace_lines():
        b = a * 3
        c = b.mean()
    return Graph(c, {"a": a, "b": b, "c": c}, show_saved=True)


def chain():
    y = x = torch.ones(1, requires_grad=True)
    for _ in range(100_000):
        y = y + 1
    return Graph(y, {"x": x})


def large():
    torch.manual_seed(0)
    made = [torch.randn(3, requires_grad=True) for _ in range(50)]
    for i, j in torch.randint(1, 60, (5950, 2)).tolist():
        made.append(made[-min(i, len(made))] * made[-min(j, len(made))])
    return Graph(made[-60:])


def example_gpt():
    model = example("gpt").GPT(96, layers=12)
    return of_model(model, torch.randint(0, 96, (8, 64)))


def example_cnn():
    return of_model(example("digits_cnn").network(), torch.randn(32, 1, 8, 8))


def example_lstm():
    lines = [torch.randint(0, 128, (n,)) for n in torch.randint(12, 40, (64,)).tolist()]
    return of_model(example("lstm").Reader(), lines)


def example(name):
    """A program of packages/nn/examples, imported."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hostile():
    a = torch.ones(2, requires_grad=True)
    return Graph(a * 2, {"</script><script>document.title = 'broken'</script><img src=x onerror=alert(1)> \u2028": a})


REAL = (example_gpt, example_cnn, example_lstm)
MODELS = {f.__name__: f for f in (gpt, gpt_backward, cnn, lstm, chapter, chain, large, hostile, *REAL)}


class Browser:
    """A page in headless Chromium."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,940"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))

    def open(self, path):
        self.driver.get("data:,")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(path.as_uri())

    def run(self, code, *args):
        return self.driver.execute_script(f"return {code}", *args)

    def visible(self):
        return self.run("graph.visible()")

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def click_on(self, name):
        """Click a vertex or box of the drawing in its middle."""
        x, y = self.run("graph.place(arguments[0])", name)
        canvas = self.find("#canvas")[0]
        size = canvas.size
        move = webdriver.ActionChains(self.driver)
        move.move_to_element_with_offset(
            canvas, round(x - size["width"] / 2), round(y - size["height"] / 2)
        ).click().perform()

    def painted(self):
        """How many colours the drawing has."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        return self.run(
            "(() => { const c = document.getElementById('canvas'), d = new Set();"
            "const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "for (let i = 0; i < p.length; i += 4) d.add((p[i] << 16) + (p[i + 1] << 8) + p[i + 2]);"
            "return d.size; })()"
        )

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def picture(self, name):
        folder = os.environ.get("CYGRAD_PICTURES")
        if folder:
            self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
            self.driver.save_screenshot(str(Path(folder, f"{name}.png")))


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.driver.quit()


@pytest.fixture
def page(browser, tmp_path):
    """Open the page of a graph; afterwards, nothing may have gone wrong or out."""
    opened = []

    def open_page(name, **options):
        torch.manual_seed(0)
        drawing = MODELS[name]()
        path = tmp_path / f"{name}.html"
        path.write_text(drawing.to_html(**options), encoding="utf-8")
        browser.open(path)
        opened.append(path.as_uri())
        return browser

    yield open_page
    assert browser.errors() == []
    assert set(browser.requests()) <= {*opened, "data:,"}


@pytest.mark.parametrize("name", MODELS)
def test_pages_render(page, name):
    browser = page(name)
    assert browser.painted() > 8
    assert len(browser.visible()) > 3
    assert "operation" in [e.text for e in browser.find("#legend span")]
    if name.startswith("example") or name == "lstm":
        browser.picture("graph_cell" if name == "lstm" else f"graph_{name[8:]}")


def apart(a, b):
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


@pytest.mark.parametrize("name", ["gpt", "gpt_backward", "cnn", "lstm", *(f.__name__ for f in REAL)])
def test_nothing_overlaps(page, name):
    browser = page(name)
    browser.find("#open")[0].click()
    frames, items = browser.run("graph.frames()"), browser.run("graph.areas()")
    assert len(frames) > 2 and len(items) > 20
    for k, frame in enumerate(frames):
        for other in frames[k + 1 :]:
            nested = frame["box"] in other["parents"] or other["box"] in frame["parents"]
            assert nested or apart(frame["area"], other["area"])
        x0, y0, x1, y1 = frame["area"]
        for item in items:
            a = item["area"]
            if frame["box"] in item["parents"]:
                assert x0 <= a[0] and y0 <= a[1] and a[2] <= x1 and a[3] <= y1, item["name"]
            else:
                assert apart(frame["area"], a), item["name"]
    rows = sorted(items, key=lambda i: i["area"][1])
    for k, item in enumerate(rows):
        for other in rows[k + 1 :]:
            if other["area"][1] >= item["area"][3]:
                break
            assert apart(item["area"], other["area"]), (item["name"], other["name"])


@pytest.mark.parametrize("name", [f.__name__ for f in REAL])
def test_the_beginning_of_a_real_model_can_be_read(page, name):
    browser = page(name)
    assert browser.run("graph.state()")["k"] >= 0.65 and len(browser.visible()) < 30


def test_repeated_blocks_are_folded_and_open(page):
    browser = page("gpt")
    before = browser.visible()
    assert "Block × 12" in before and len(before) < 100
    browser.click_on("Block × 12")
    assert "blocks.0 … blocks.11" in browser.find("#details")[0].text
    browser.find("#details .act")[0].click()
    opened = browser.visible()
    assert [f"blocks.{k}" for k in range(12)] == sorted(
        (v for v in opened if v.startswith("blocks.")), key=lambda v: int(v[7:])
    )
    assert "Block × 12" not in opened
    row = next(b for b in browser.find("#outline button") if b.text.startswith("▾") and "Block × 12" in b.text)
    assert row.get_attribute("aria-expanded") == "true"
    row.click()
    assert sorted(browser.visible()) == sorted(before)


def test_opening_and_closing_all(page):
    browser = page("cnn")
    browser.find("#close")[0].click()
    assert {"0", "1", "8", "output"} == set(browser.visible()) - {"2", "3", "4", "5", "6", "7"}
    browser.find("#open")[0].click()
    assert {"Convolution", "0.weight"} <= set(browser.visible()) and "1" not in browser.visible()


def test_search_finds_shows_and_leads_there(page):
    browser = page("gpt")
    box = browser.find("#search")[0]
    box.send_keys("blocks.7.attention.qkv.weight")
    assert browser.find("#count")[0].text == "1 found"
    assert "blocks.7.attention.qkv.weight" not in browser.visible()
    box.send_keys("\n")
    assert "blocks.7.attention.qkv.weight" in browser.visible()
    assert browser.run("graph.state().chosen") == "blocks.7.attention.qkv.weight"
    x, y = browser.run("graph.place(arguments[0])", "blocks.7.attention.qkv.weight")
    stage = browser.find("#stage")[0].size
    assert 0 < x < stage["width"] and 0 < y < stage["height"]
    details = browser.find("#details")[0].text
    assert "(96, 32) float32" in details and "12.0 KiB" in details and "blocks.7 / attention / qkv" in details
    browser.picture("graph_search")
    box.clear()
    box.send_keys(".norm1.")
    assert browser.find("#count")[0].text == "24 found"
    assert len(browser.find("#results button")) == 24
    box.send_keys("nothing is called so")
    assert browser.find("#count")[0].text == "0 found" and not browser.find("#results button")


def test_a_click_tells_shapes_bytes_and_the_users_line(page):
    browser = page("chapter")
    browser.click_on("MulBackward0")
    text = browser.find("#details")[0].text
    assert "(2,) float32" in text and "b = a * 3" in text and "test_pages.py" in text and "for backward" in text
    browser.picture("graph_details")
    browser.find("#details .close")[0].click()
    assert not browser.find("#details")[0].is_displayed()


def test_zoom_and_pan(page):
    browser = page("chapter")
    canvas = browser.find("#canvas")[0]
    before = browser.run("graph.state()")
    origin = webdriver.common.actions.wheel_input.ScrollOrigin.from_element(canvas)
    webdriver.ActionChains(browser.driver).scroll_from_origin(origin, 0, -400).perform()
    zoomed = browser.run("graph.state()")
    assert zoomed["k"] > before["k"]
    webdriver.ActionChains(browser.driver).drag_and_drop_by_offset(canvas, 120, 40).perform()
    moved = browser.run("graph.state()")
    assert moved["x"] - zoomed["x"] == pytest.approx(120, abs=2) and moved["k"] == zoomed["k"]
    browser.find("#fit")[0].click()
    assert browser.run("graph.state()")["k"] == pytest.approx(before["k"])


def test_names_are_no_program(page):
    browser = page("hostile", title="<b>\"bold\"</b> & 'more'")
    assert browser.driver.title == "<b>\"bold\"</b> & 'more'"
    assert any("</script><script" in name for name in browser.visible())
    browser.find("#search")[0].send_keys("onerror")
    browser.find("#search")[0].send_keys("\n")
    assert "onerror=alert(1)" in browser.find("#details")[0].text and not browser.find("img")


def test_a_graph_of_5000_nodes_is_laid_out_in_time(page):
    browser = page("large")
    assert len(browser.visible()) > 4500
    loading = browser.run("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert loading < 10_000  # ms; it takes 2,300 on a busy machine


def test_a_notebooks_frame_works_without_the_page(browser, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><title>n</title>{chapter()._repr_html_()}", encoding="utf-8")
    browser.open(path)
    browser.driver.switch_to.frame(0)
    assert "MulBackward0" in browser.visible()
    browser.driver.switch_to.default_content()
    assert browser.errors() == []


def flame_of(name, tmp_path):
    torch.manual_seed(0)
    if name == "gpt":
        model = example("gpt").GPT(96, layers=12)
        inputs = (torch.randint(0, 96, (8, 64)),)
    else:
        model, inputs = example("digits_cnn").network(), (torch.randn(32, 1, 8, 8),)
    optimizer = torch.optim.AdamW(model.parameters())
    for warm in (True, False):
        with profile() as prof:
            for _ in range(1 if warm else 5):
                optimizer.zero_grad()
                model(*inputs).square().mean().backward()
                optimizer.step()
    prof.export_flame_graph(tmp_path / "flame.html")
    return tmp_path / "flame.html"


@pytest.mark.parametrize("name", ["gpt", "cnn"])
def test_flame_graphs(browser, tmp_path, name):
    path = flame_of(name, tmp_path)
    browser.open(path)
    texts = [e.text for e in browser.find("#graph .box")]
    assert texts[0] == "all" and "backward" in texts and {"0", "1"} <= set(texts)
    rows = [e.text for e in browser.find("#rows tr")]
    assert len(rows) == 20 and any("Backward0" in row for row in rows)
    browser.picture(f"flame_{name}")
    whole = browser.find("#graph .box")[1].size["width"]
    box = next(e for e in browser.find("#graph .box") if e.text == "backward")
    box.click()
    shown = next(e for e in browser.find("#graph .box") if e.text == "backward")
    assert shown.size["width"] > whole and "backward" in browser.find("#about")[0].text
    assert not any("AdamW" in e.text for e in browser.find("#rows tr"))
    browser.find("#out")[0].click()
    browser.find("#find")[0].send_keys("mm" if name == "gpt" else "convolution")
    assert browser.find("#graph .found")
    assert browser.errors() == [] and set(browser.requests()) <= {path.as_uri(), "data:,"}
