"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const el = id => document.getElementById(id);
  const canvas = el("canvas"), pen = canvas.getContext("2d"), stage = el("stage");
  const FONT = 'Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif';
  const MARK = "#c2410c", EDGE = "#8b94a1", INK = "#111827", DIM = "#4b5563", LONGEST = 40;
  const { boxes, vertices, edges } = data;
  const inside = boxes.map(() => ({ boxes: [], vertices: [], operations: 0, bytes: 0, start: Infinity }));
  const top = { boxes: [], vertices: [] };
  boxes.forEach((b, i) => (b.parent < 0 ? top : inside[b.parent]).boxes.push(i));
  vertices.forEach(([kind, , box, details], v) => {
    (box < 0 ? top : inside[box]).vertices.push(v);
    for (let b = box; b >= 0; b = boxes[b].parent) {
      if (kind === "operation") inside[b].operations++;
      inside[b].bytes += details.saved_bytes || 0;
      if (details.sequence < inside[b].start) inside[b].start = details.sequence;
    }
  });
  for (const each of [top, ...inside]) each.boxes.sort((a, b) => inside[a].start - inside[b].start);
  const isOpen = new Uint8Array(boxes.length);
  let items = [], links = [], frames = [], extent = [0, 0, 1, 1], keyed = new Map();
  let view = { k: 1, x: 0, y: 0 }, chosen = null, hovered = null, found = [], foundAt = -1, waiting = false;

  // ---- what is visible ---------------------------------------------------------------------------------------------
  function covers() {               // the outermost closed box around each box, itself included; -1 if all are open
    const cover = new Int32Array(boxes.length).fill(-2);
    for (let b = 0; b < boxes.length; b++) {
      const path = [];
      let c = b;
      while (c >= 0 && cover[c] === -2) { path.push(c); c = boxes[c].parent; }
      let outer = c >= 0 ? cover[c] : -1;
      while (path.length) {
        const at = path.pop();
        if (outer < 0 && !isOpen[at]) outer = at;
        cover[at] = outer;
      }
    }
    return cover;
  }

  function build() {
    const cover = covers(), count = vertices.length;
    const shown = new Map(), itemOf = new Int32Array(count);
    items = [];
    vertices.forEach(([, , box], v) => {
      const b = box >= 0 ? cover[box] : -1, key = b >= 0 ? count + b : v;
      if (!shown.has(key)) { shown.set(key, items.length); items.push(b >= 0 ? boxItem(b) : vertexItem(v)); }
      itemOf[v] = shown.get(key);
    });
    keyed = shown;
    const joined = new Map();
    for (const [tail, head, label, saved] of edges) {
      const a = itemOf[tail], b = itemOf[head];
      if (a === b) continue;
      const key = (a * items.length + b) * 2 + saved, known = joined.get(key);
      if (known) { known.count++; if (known.label !== label) known.label = ""; }
      else joined.set(key, { a, b, label, saved, count: 1 });
    }
    links = [...joined.values()].sort((a, b) => b.saved - a.saved);     // where both run, that of the data is seen
    const plan = nested(items.map(i => [i.w, i.h]), items.map(around), links.map(l => [l.a, l.b]), boxes.map(b => b.parent),
      b => textWidth(frameTitle(b), 11) + 8, data.view === "backward");
    items.forEach((item, i) => { [item.x, item.y] = plan.centers[i]; });
    links.forEach((link, i) => { link.points = plan.routes[i]; trim(link); });
    frames = [...plan.areas].map(([box, area]) => ({ box, area, depth: depthOf(box), title: frameTitle(box) })).sort((a, b) => a.depth - b.depth);
    extent = [Infinity, Infinity, -Infinity, -Infinity];
    for (const r of [...items.map(i => [i.x - i.w / 2, i.y - i.h / 2, i.x + i.w / 2, i.y + i.h / 2]), ...frames.map(f => f.area)]) {
      extent = [Math.min(extent[0], r[0]), Math.min(extent[1], r[1]), Math.max(extent[2], r[2]), Math.max(extent[3], r[3])];
    }
    if (!items.length) extent = [0, 0, 1, 1];
    outline();
  }

  const around = i => i.box === undefined ? vertices[i.vertex][2] : boxes[i.box].parent;
  function lineage(b) { const path = []; for (; b >= 0; b = boxes[b].parent) path.push(b); return path; }
  const shorten = text => {
    text = text.replace(/\s+/g, " ");
    return text.length <= LONGEST ? text : text.slice(0, 19) + "…" + text.slice(-20);
  };
  const widths = new Map();
  function textWidth(text, size) {
    const key = size + text;
    if (!widths.has(key)) { pen.font = `${size}px ${FONT}`; widths.set(key, pen.measureText(text).width); }
    return widths.get(key);
  }
  function measured(item) {
    const wide = item.lines.reduce((w, line, i) => Math.max(w, textWidth(line, i ? 11 : 13)), 20);
    const round = item.shape === "ellipse";
    item.w = round ? wide * 1.14 + 28 : wide + (item.box === undefined ? 24 : 40);
    item.h = 12 + 16 * item.lines.length + (round ? 6 : 0);
    return item;
  }
  function vertexItem(v) {
    const [kind, lines] = vertices[v], [shape, , fill, stroke, dashed] = data.kinds[kind];
    return measured({ vertex: v, shape, fill, stroke, dashed, lines: lines.map(shorten) });
  }
  function boxItem(b) {
    const box = boxes[b], { operations } = inside[b], plural = operations === 1 ? "" : "s";
    const lines = [box.title, box.note, operations ? `${operations} operation${plural}` : ""].filter(Boolean).map(shorten);
    const [, , fill, stroke] = data.kinds[box.kind === "module" ? "module" : "repeat"];
    return measured({ box: b, shape: "box", fill, stroke, lines, stacked: box.kind !== "module" });
  }
  function trim(link) {            // the last point moves from the middle of the head to its border
    const p = link.points, head = items[link.b], last = p.length - 1;
    const upwards = p[last - 1][1] > p[last][1];
    p[last] = [p[last][0], p[last][1] + (upwards ? head.h / 2 : -head.h / 2 - (head.stacked ? 6 : 0))];
  }
  function frameTitle(b) { return "▾ " + shorten(boxes[b].title + (boxes[b].note && boxes[b].kind === "module" ? ": " + boxes[b].note : "")); }
  const depthOf = b => lineage(b).length;

  // ---- drawing -----------------------------------------------------------------------------------------------------
  function draw() {
    waiting = false;
    const ratio = window.devicePixelRatio || 1, w = stage.clientWidth, h = stage.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, h);
    pen.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
    const port = [-view.x / view.k, -view.y / view.k, (w - view.x) / view.k, (h - view.y) / view.k];
    const meets = (x0, y0, x1, y1) => x1 >= port[0] && x0 <= port[2] && y1 >= port[1] && y0 <= port[3];
    for (const f of frames) if (meets(...f.area)) drawFrame(f);
    const marked = [];
    for (const link of links) {
      const a = items[link.a], b = items[link.b];
      const xs = link.points.map(p => p[0]);
      if (!meets(Math.min(...xs) - 9, Math.min(a.y, b.y), Math.max(...xs) + 9, Math.max(a.y, b.y))) continue;
      if (a === chosen || b === chosen) marked.push(link);
      else drawLink(link, link.saved ? "#a07fbf" : EDGE, 1.2);
    }
    for (const link of marked) drawLink(link, MARK, 1.8);
    if (view.k >= 0.25) for (const f of frames) if (meets(...f.area)) drawTitle(f);
    for (const i of items) if (meets(i.x - i.w / 2 - 8, i.y - i.h / 2 - 8, i.x + i.w / 2 + 8, i.y + i.h / 2 + 8)) drawItem(i);
  }
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };

  function drawFrame({ area: [x0, y0, x1, y1] }) {
    pen.fillStyle = "rgba(71,85,105,0.045)"; pen.strokeStyle = "#c3cad3"; pen.lineWidth = 1;
    pen.beginPath(); pen.roundRect(x0, y0, x1 - x0, y1 - y0, 8); pen.fill(); pen.stroke();
  }
  function drawTitle({ area: [x0, y0], title, box }) {          // over links that cross it, which shine through as little as possible
    pen.font = `11px ${FONT}`; pen.textAlign = "left"; pen.textBaseline = "middle"; pen.lineJoin = "round";
    pen.strokeStyle = "#f3f4f6"; pen.lineWidth = 4; pen.strokeText(title, x0 + 7, y0 + 11);
    pen.fillStyle = hovered && hovered.frame === box ? MARK : DIM; pen.fillText(title, x0 + 7, y0 + 11);
  }
  function drawLink(link, color, width) {
    const p = link.points, n = p.length - 1;
    pen.strokeStyle = color; pen.fillStyle = color; pen.lineWidth = width + Math.min(2, Math.log10(link.count));
    pen.setLineDash(link.saved ? [4, 3] : []);
    pen.beginPath(); pen.moveTo(p[0][0], p[0][1]);
    const up = p[n - 1][1] > p[n][1] ? 1 : -1;
    for (let i = 1; i <= n; i++) {
      const [x0, y0] = p[i - 1], x = p[i][0], y = i === n ? p[i][1] + up * 6 : p[i][1], m = (y0 + y) / 2;
      if (Math.abs(x - x0) < 0.1) pen.lineTo(x, y); else pen.bezierCurveTo(x0, m, x, m, x, y);
    }
    pen.stroke(); pen.setLineDash([]);
    const [x, y] = p[n];
    pen.beginPath(); pen.moveTo(x, y); pen.lineTo(x - 3.8, y + up * 7.5); pen.lineTo(x + 3.8, y + up * 7.5); pen.fill();
    const text = link.count > 1 ? `${link.label ? link.label + " " : ""}×${link.count}` : link.label;
    if (text && view.k > 0.4) {
      pen.fillStyle = DIM; pen.font = `10px ${FONT}`; pen.textAlign = "left"; pen.textBaseline = "alphabetic";
      pen.fillText(text, x + 6, y + up * 5);
    }
  }
  function drawItem(i) {
    const x = i.x - i.w / 2, y = i.y - i.h / 2, mine = i === chosen;
    pen.fillStyle = i.fill; pen.strokeStyle = mine ? MARK : i.stroke; pen.lineWidth = mine ? 2.4 : hovered === i ? 2 : 1.3;
    pen.setLineDash(i.dashed ? [4, 3] : []);
    for (const d of i.stacked ? [6, 3, 0] : [0]) {
      pen.beginPath();
      if (i.shape === "ellipse") pen.ellipse(i.x, i.y, i.w / 2, i.h / 2, 0, 0, 2 * Math.PI);
      else pen.roundRect(x + d, y - d, i.w, i.h, 6);
      pen.fill(); pen.stroke();
    }
    pen.setLineDash([]);
    if (view.k < 0.22) return;
    pen.textAlign = "center"; pen.textBaseline = "middle";
    i.lines.forEach((line, k) => {
      pen.font = `${k ? 11 : 13}px ${FONT}`; pen.fillStyle = k ? DIM : INK;
      pen.fillText(line, i.x, i.y + 16 * (k - (i.lines.length - 1) / 2));
    });
    if (i.box !== undefined) {
      pen.font = `12px ${FONT}`; pen.fillStyle = i.stroke; pen.textAlign = "left";
      pen.fillText("+", x + 6, y + 9);
    }
  }

  // ---- moving around -----------------------------------------------------------------------------------------------
  function fit() {
    const w = stage.clientWidth, h = stage.clientHeight, gw = extent[2] - extent[0], gh = extent[3] - extent[1];
    let k = Math.min((w - 50) / gw, (h - 70) / gh, 1.4);
    const tiny = k < 0.65;          // nothing could be read: the beginning in a size that can
    if (tiny) k = Math.min(0.8, Math.max(0.65, (w - 50) / gw));
    view = { k, x: (w - k * (extent[0] + extent[2])) / 2, y: tiny ? 24 - k * extent[1] : (h - 24 - k * (extent[1] + extent[3])) / 2 };
    redraw();
  }
  function whole() {               // everything, however small
    const w = stage.clientWidth, h = stage.clientHeight;
    const k = Math.min((w - 50) / (extent[2] - extent[0]), (h - 70) / (extent[3] - extent[1]), 1.4);
    view = { k, x: (w - k * (extent[0] + extent[2])) / 2, y: (h - 24 - k * (extent[1] + extent[3])) / 2 };
    redraw();
  }
  function zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
    const k = Math.min(6, Math.max(1e-5, view.k * factor)), f = k / view.k;
    view = { k, x: x - f * (x - view.x), y: y - f * (y - view.y) };
    redraw();
  }
  function center(item) {
    const k = Math.max(view.k, 0.8);
    view = { k, x: stage.clientWidth / 2 - k * item.x, y: stage.clientHeight / 2 - k * item.y };
    redraw();
  }
  function under(event) {
    const area = canvas.getBoundingClientRect();
    const x = (event.clientX - area.left - view.x) / view.k, y = (event.clientY - area.top - view.y) / view.k;
    for (let n = items.length - 1; n >= 0; n--) {
      const i = items[n];
      if (Math.abs(x - i.x) > i.w / 2 || Math.abs(y - i.y) > i.h / 2) continue;
      if (i.shape !== "ellipse" || ((x - i.x) / i.w) ** 2 + ((y - i.y) / i.h) ** 2 <= 0.25) return i;
    }
    for (let n = frames.length - 1; n >= 0; n--) {
      const f = frames[n], [x0, y0] = f.area;
      if (x >= x0 && x <= x0 + 10 + textWidth(f.title, 11) && y >= y0 && y <= y0 + 20) return { frame: f.box };
    }
    return null;
  }
  const touches = new Map();
  let dragged = 0;
  canvas.addEventListener("pointerdown", e => {
    canvas.setPointerCapture(e.pointerId); touches.set(e.pointerId, [e.clientX, e.clientY]); dragged = 0;
  });
  canvas.addEventListener("pointermove", e => {
    const before = touches.get(e.pointerId);
    if (!before) {
      const now = under(e), same = now === hovered || (now && hovered && now.frame !== undefined && now.frame === hovered.frame);
      hovered = now;
      canvas.classList.toggle("over", !!now);
      if (!same) redraw();
      return;
    }
    const others = [...touches].filter(([id]) => id !== e.pointerId);
    if (others.length === 1) {
      const [ox, oy] = others[0][1], area = canvas.getBoundingClientRect();
      const was = Math.hypot(before[0] - ox, before[1] - oy), now = Math.hypot(e.clientX - ox, e.clientY - oy);
      if (was) zoom(now / was, (ox + e.clientX) / 2 - area.left, (oy + e.clientY) / 2 - area.top);
      dragged = 10;
    } else {
      view.x += e.clientX - before[0]; view.y += e.clientY - before[1];
      dragged += Math.abs(e.clientX - before[0]) + Math.abs(e.clientY - before[1]);
      canvas.classList.add("drag");
      redraw();
    }
    touches.set(e.pointerId, [e.clientX, e.clientY]);
  });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, e => {
    touches.delete(e.pointerId);
    canvas.classList.remove("drag");
    if (kind === "pointerup" && dragged < 5) click(e);
  });
  function click(e) {
    const hit = under(e);
    if (hit && hit.frame !== undefined) setOpen(hit.frame, false);
    else if (hit && hit.box !== undefined && hit === chosen) setOpen(hit.box, true);
    else choose(hit);
  }
  canvas.addEventListener("dblclick", e => { const hit = under(e); if (hit && hit.box !== undefined) setOpen(hit.box, true); });
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    const area = canvas.getBoundingClientRect(), lines = e.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(-e.deltaY * lines * (e.ctrlKey ? 0.01 : 0.0015)), e.clientX - area.left, e.clientY - area.top);
  }, { passive: false });
  new ResizeObserver(redraw).observe(stage);

  // ---- boxes, search, details --------------------------------------------------------------------------------------
  const itemFor = key => items[keyed.get(key)] || null;
  function setOpen(b, open, anchor = true) {
    const before = anchor && (itemFor(vertices.length + b) || frames.find(f => f.box === b));
    const at = before && screen(before);
    isOpen[b] = open ? 1 : 0;
    const held = chosen && (chosen.box === undefined ? chosen.vertex : vertices.length + chosen.box);
    build();
    choose(held === null ? null : itemFor(held));
    const after = at && (itemFor(vertices.length + b) || frames.find(f => f.box === b));
    if (after) { const [x, y] = screen(after); view.x += at[0] - x; view.y += at[1] - y; }   // it stays where it was clicked
    redraw();
  }
  const screen = o => o.area ? [view.x + view.k * (o.area[0] + o.area[2]) / 2, view.y + view.k * o.area[1]]
    : [view.x + view.k * o.x, view.y + view.k * (o.y - o.h / 2)];
  function setAll(open) { isOpen.fill(open ? 1 : 0); choose(null); build(); fit(); }
  function reveal(v) {
    for (let b = vertices[v][2]; b >= 0; b = boxes[b].parent) isOpen[b] = 1;
    build();
    const item = itemFor(v);
    choose(item);
    center(item);
  }
  function outline() {
    const list = el("outline"), rows = [], stack = top.boxes.slice().reverse().map(b => [b, 0]);
    while (stack.length && rows.length < 3000) {
      const [b, depth] = stack.pop();
      rows.push([b, depth]);
      if (isOpen[b]) for (let i = inside[b].boxes.length - 1; i >= 0; i--) stack.push([inside[b].boxes[i], depth + 1]);
    }
    list.replaceChildren(...rows.map(([b, depth]) => {
      const button = make("button", "");
      button.dataset.box = b;
      button.style.paddingLeft = `${6 + 12 * depth}px`;
      button.setAttribute("aria-expanded", String(!!isOpen[b]));
      button.append(make("span", isOpen[b] ? "▾" : "▸", "turn"), boxes[b].title, make("span", boxes[b].note, "note"));
      button.title = boxes[b].title;
      button.onclick = () => setOpen(b, !isOpen[b]);
      const row = make("li", "");
      row.append(button);
      return row;
    }));
    updateNav();
  }
  function updateNav() {
    const searching = el("search").value !== "";
    el("results").hidden = !searching; el("outline").hidden = searching;
    document.querySelector("nav").toggleAttribute("data-empty", !searching && !boxes.length);
  }
  function textOf(v) {
    const [kind, lines, , d] = vertices[v];
    return [kind, ...lines, (d.module || []).join("/"), d.line ? `${d.line.file}:${d.line.number} ${d.line.source || ""}` : ""].join("\n").toLowerCase();
  }
  let texts = null;
  function search() {
    const wanted = el("search").value.toLowerCase();
    texts = texts || vertices.map((_, v) => textOf(v));
    found = wanted ? texts.flatMap((t, v) => t.includes(wanted) ? [v] : []) : [];
    foundAt = -1;
    el("count").textContent = wanted ? (found.length === 1 ? "1 found" : `${found.length} found`) : "";
    el("results").replaceChildren(...found.slice(0, 300).map((v, n) => {
      const [, lines, , d] = vertices[v], button = make("button", lines[0]), row = make("li", "");
      button.dataset.vertex = v;
      button.append(make("span", (d.module || []).join("/") || lines[1] || "", "note"));
      button.onclick = () => goTo(n);
      row.append(button);
      return row;
    }));
    updateNav();
  }
  function goTo(n) {
    if (!found.length) return;
    foundAt = (n + found.length) % found.length;
    reveal(found[foundAt]);
    el("count").textContent = `${foundAt + 1} of ${found.length}`;
    document.querySelectorAll("#results button").forEach((b, k) => {
      if (k === foundAt) { b.setAttribute("aria-current", "true"); b.scrollIntoView({ block: "nearest" }); } else b.removeAttribute("aria-current");
    });
  }
  function make(tag, text, name) {
    const e = document.createElement(tag);
    e.textContent = text;
    if (name) e.className = name;
    return e;
  }
  function bytes(n) {
    for (const unit of ["bytes", "KiB", "MiB", "GiB"]) {
      if (n < 1024 || unit === "GiB") return `${unit === "bytes" ? n : n.toFixed(1)} ${unit}`;
      n /= 1024;
    }
  }
  const shape = d => d ? `(${d.shape.join(", ")}${d.shape.length === 1 ? "," : ""}) ${d.dtype}` : "none";
  function choose(item) {
    chosen = item;
    const panel = el("details");
    panel.hidden = !item;
    if (item) panel.replaceChildren(...(item.box === undefined ? describeVertex(item.vertex) : describeBox(item.box)));
    redraw();
  }
  function heading(title, kind) {
    const button = make("button", "×", "close");
    button.title = "Close";
    button.onclick = () => choose(null);
    return [button, make("h2", title), make("p", kind, "kind")];
  }
  function describeBox(b) {
    const box = boxes[b], list = make("dl", ""), counts = inside[b];
    const kind = { module: "module " + box.note, repeat: "equal modules in a row", run: "the same operations again and again" }[box.kind];
    row(list, "operations", String(counts.operations));
    if (counts.bytes) row(list, "saved", bytes(counts.bytes));
    if (box.kind === "repeat") row(list, "modules", box.note);
    const button = make("button", "Open", "act");
    button.onclick = () => setOpen(b, true);
    return [...heading(box.title, kind), list, button];
  }
  function describeVertex(v) {
    const [kind, lines, , d] = vertices[v], list = make("dl", "");
    if (d.shape) row(list, "shape", shape(d));
    if (d.outputs) row(list, d.outputs.length > 1 ? "outputs" : "output", d.outputs.map(shape).join("\n"));
    if (d.bytes !== undefined) row(list, "size", bytes(d.bytes));
    if (d.view_of) row(list, "view of", d.view_of);
    if (d.storage !== undefined) row(list, "storage", `number ${d.storage}, ${bytes(d.storage_bytes)}, version ${d.version}`);
    if (d.module && d.module.length) row(list, "module", d.module.join(" / "));
    if (d.saved) row(list, "saved", savedTable(d));
    if (d.line) row(list, "line", lineText(d.line));
    return [...heading(lines[0], data.kinds[kind][1]), list];
  }
  function row(list, name, value) {
    const dd = make("dd", typeof value === "string" ? value : "");
    dd.style.whiteSpace = "pre-line";
    if (typeof value !== "string") dd.append(value);
    list.append(make("dt", name), dd);
  }
  function savedTable(d) {
    const whole = make("div", `${bytes(d.saved_bytes)} for backward`), table = make("table", "");
    for (const s of d.saved) {
      const tr = make("tr", "");
      tr.append(make("td", s.name), make("td", s.shape ? shape(s) : s.packed), make("td", s.storage === undefined ? "" : `storage ${s.storage}`));
      table.append(tr);
    }
    whole.append(table);
    return whole;
  }
  function lineText(line) {
    const name = line.file.split(/[\\/]/).pop();
    const whole = make("div", `${name}:${line.number}` + (line.function === "<module>" ? "" : `, in ${line.function}`));
    whole.title = line.file;
    if (line.source) whole.append(make("pre", line.source));
    return whole;
  }

  // ---- start -------------------------------------------------------------------------------------------------------
  el("open").onclick = () => setAll(true);
  el("close").onclick = () => setAll(false);
  el("fit").onclick = whole;
  el("search").oninput = search;
  el("search").onkeydown = e => {
    if (e.key === "Enter") { goTo(foundAt + (e.shiftKey ? -1 : 1)); e.preventDefault(); }
    if (e.key === "Escape") { el("search").value = ""; search(); canvas.focus(); }
  };
  document.addEventListener("keydown", e => {
    if (e.target === el("search") || e.ctrlKey || e.metaKey || e.altKey) return;
    const move = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[e.key];
    if (move && e.target === canvas) { view.x += move[0]; view.y += move[1]; redraw(); e.preventDefault(); }
    else if (e.key === "/") { el("search").focus(); e.preventDefault(); }
    else if (e.key === "f") whole();
    else if (e.key === "+" || e.key === "=") zoom(1.25);
    else if (e.key === "-") zoom(0.8);
    else if (e.key === "Escape") choose(null);
  });
  function legend() {
    const present = new Set([...vertices.map(v => v[0]), ...boxes.map(b => b.kind === "module" ? "module" : "repeat")]);
    for (const [name, [form, meaning, fill, stroke, dashed]] of Object.entries(data.kinds)) {
      if (!present.has(name)) continue;
      const swatch = make("i", ""), entry = make("span", "");
      swatch.style.cssText = `background:${fill};border-color:${stroke};border-style:${dashed ? "dashed" : "solid"};border-radius:${form === "ellipse" ? "50%" : "3px"}`;
      entry.append(swatch, meaning);
      el("legend").append(entry);
    }
    el("open").hidden = el("close").hidden = !boxes.length;
  }
  // From the outside inwards, as long as what is visible can be taken in at a glance. If all of it is too much, modules without
  // modules in them stay closed.
  function openSome(all, most) {
    const modules = boxes.flatMap((b, i) => b.kind === "module" ? [i] : []);
    const small = vertices.length <= all && modules.length === boxes.length, waiting = top.boxes.slice();
    let visible = top.vertices.length + top.boxes.length;
    for (let n = 0; n < waiting.length; n++) {
      const b = waiting[n], more = inside[b].boxes.length + inside[b].vertices.length - 1;
      if (boxes[b].kind !== "module" || (!small && (!inside[b].boxes.length || visible + more > most))) continue;
      isOpen[b] = 1;
      visible += more;
      waiting.push(...inside[b].boxes);
    }
  }
  legend();
  openSome(30, 45);
  build();
  fit();
  window.graph = {                 // for tests and for the curious, in the console
    visible: () => items.map(i => i.lines[0]), state: () => ({ ...view, open: [...isOpen], chosen: chosen && chosen.lines[0] }),
    frames: () => frames.map(f => ({ box: f.box, parents: lineage(boxes[f.box].parent), area: f.area })),
    areas: () => items.map(i => ({ name: i.lines[0], parents: lineage(around(i)), area: [i.x - i.w / 2, i.y - i.h / 2, i.x + i.w / 2, i.y + i.h / 2] })),
    place: name => { const i = items.find(i => i.lines[0] === name); return i && [view.x + view.k * i.x, view.y + view.k * i.y]; },
  };
})();
