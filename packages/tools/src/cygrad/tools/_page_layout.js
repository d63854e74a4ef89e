"use strict";
// Boxes inside boxes: what lies in a box is laid out by itself, and then is one thing in the layout around it. So boxes never
// overlap, and nothing of others lies in them. A link that crosses a border does it at a port: a point that stands above (where
// it enters) or below (where it leaves) all in the box, one for each item that links come from.
// homes: the open box around each item, -1 if there is none; titleWidth(box): what its title needs.
function nested(sizes, homes, links, parents, titleWidth, trunkAtHead) {
  const PAD = 10, TITLE = 22, levels = new Map();
  const level = box => {
    if (!levels.has(box)) levels.set(box, { nodes: [], at: new Map(), edges: [], known: new Map(), size: null, origin: null, area: null });
    return levels.get(box);
  };
  const node = (box, key, content) => {
    const { nodes, at } = level(box);
    if (!at.has(key)) { at.set(key, nodes.length); nodes.push(content); }
    return at.get(key);
  };
  const block = box => node(parents[box], "b" + box, { box });
  const edge = (box, from, to, item, ports) => {
    const { edges, known } = level(box), key = `${from},${to},${ports.some(p => p !== null) ? item : ""}`;
    if (!known.has(key)) { known.set(key, edges.length); edges.push([from, to]); }
    return { box, k: known.get(key), ports };
  };
  homes.forEach((box, i) => {
    for (let b = box; b >= 0 && !levels.has(b); b = parents[b]) block(b);
    node(box, i, { item: i });
  });
  const ways = links.map(([a, b]) => {
    const around = new Set([-1]), way = [], down = [];
    for (let c = homes[b]; c >= 0; c = parents[c]) around.add(c);
    let box = homes[a], from = node(box, a), left = null;          // left: the port by which the last box was left
    while (!around.has(box)) {
      const port = node(box, "o" + a, { port: 1 });
      way.push(edge(box, from, port, a, [left, null]));
      from = block(box); left = [box, port]; box = parents[box];
    }
    for (let c = homes[b]; c !== box; c = parents[c]) down.unshift(c);
    for (const c of down) {
      const port = node(c, "i" + a, { port: -1 });
      way.push(edge(box, from, block(c), a, [left, [c, port]]));
      box = c; from = port; left = null;
    }
    way.push(edge(box, from, node(box, b), a, [left, null]));
    return way;
  });

  const order = [...levels.keys()], depth = b => { let n = 0; for (; b >= 0; b = parents[b]) n++; return n; };
  order.sort((a, b) => depth(b) - depth(a));
  for (const box of order) arrange(box);
  for (const box of order.reverse()) place(box);
  const centers = sizes.map((_, i) => absolute(homes[i], level(homes[i]).plan.centers[level(homes[i]).at.get(i)]));
  const areas = new Map(order.filter(b => b >= 0).map(b => [b, level(b).area]));
  return { centers, areas, routes: ways.map(routed) };

  function arrange(box) {
    const here = level(box), { nodes, edges } = here, before = [];
    const dims = nodes.map(n => n.item !== undefined ? sizes[n.item] : n.box !== undefined ? level(n.box).size : [6, n.port < 0 ? 14 : 1]);
    const fed = new Set(edges.filter(([u]) => !nodes[u].port).map(e => e[1]));
    const feeds = new Set(edges.filter(([, v]) => !nodes[v].port).map(e => e[0]));
    const firsts = [], lasts = [];
    nodes.forEach((n, k) => { if (!n.port && !fed.has(k)) firsts.push(k); if (!n.port && !feeds.has(k)) lasts.push(k); });
    nodes.forEach((n, k) => {
      if (before.length > 50000) return;
      if (n.port === -1) for (const f of firsts) before.push([k, f]);
      if (n.port === 1) for (const l of lasts) before.push([l, k]);
    });
    const plan = here.plan = layout(dims, edges, trunkAtHead, before);
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    plan.centers.forEach(([x, y], k) => {
      x0 = Math.min(x0, x - dims[k][0] / 2); x1 = Math.max(x1, x + dims[k][0] / 2);
      y0 = Math.min(y0, y - dims[k][1] / 2); y1 = Math.max(y1, y + dims[k][1] / 2);
    });
    for (const route of plan.routes) for (const [x] of route) { x0 = Math.min(x0, x - 4); x1 = Math.max(x1, x + 4); }
    if (box < 0) return;
    const missing = Math.max(0, titleWidth(box) - (x1 - x0)) / 2;
    const above = nodes.some(n => n.port === -1) ? 0 : TITLE, below = nodes.some(n => n.port === 1) ? 0 : PAD;
    here.corner = [x0 - PAD - missing, y0 - above];
    here.size = [x1 - x0 + 2 * (PAD + missing), y1 - y0 + above + below];
  }
  function place(box) {
    const here = level(box);
    if (box < 0) { here.origin = [0, 0]; return; }
    const around = level(parents[box]), [x, y] = absolute(parents[box], around.plan.centers[around.at.get("b" + box)]);
    const [w, h] = here.size;
    here.area = [x - w / 2, y - h / 2, x + w / 2, y + h / 2];
    here.origin = [here.area[0] - here.corner[0], here.area[1] - here.corner[1]];
  }
  function absolute(box, [x, y]) {
    const { origin } = level(box);
    return [x + origin[0], y + origin[1]];
  }
  function gate(box, port) {        // where a port meets the border
    const here = level(box), enters = here.nodes[port].port === -1;
    return [here.plan.centers[port][0] + here.origin[0], here.area[enters ? 1 : 3]];
  }
  function routed(way) {
    const points = [];
    for (const { box, k, ports: [left, entered] } of way) {
      const here = level(box), route = here.plan.routes[k].map(p => absolute(box, p)), [u, v] = here.edges[k], last = route.length - 1;
      if (left) route[0] = gate(...left);
      if (entered) route[last] = gate(...entered);
      if (here.nodes[u].port) route[0] = gate(box, u);
      if (here.nodes[v].port) route[last] = gate(box, v);
      points.push(...(points.length ? route.slice(1) : route));
    }
    return points;
  }
}

// Layered drawing, as in _graph_layout.py: layers by longest path, waypoints that edges with a common end share, order by
// barycentres with fewest crossings kept, and positions by pooling of adjacent violators.
// `before` has further pairs, which are not drawn, of what is to stand higher and what lower, as far as that is possible.
function layout(sizes, edges, trunkAtHead, before) {
  const GAPX = 24, GAPY = 30, SLANT = 0.14, count = sizes.length;
  const links = withoutCycles(count, edges);
  const turn = pairs => trunkAtHead ? pairs : pairs.map(([u, v]) => [v, u]);
  let ranks = longestPath(count, turn(links), turn(before)) || longestPath(count, turn(links), []);
  if (!trunkAtHead) {
    const deepest = ranks.reduce((a, b) => Math.max(a, b), 0);
    ranks = ranks.map(r => deepest - r);
  }
  const widths = sizes.map(s => s[0]), down = sizes.map(() => []), up = sizes.map(() => []);
  const ways = cut();
  const layers = ordered();
  const place = new Array(ranks.length).fill(0);
  layers.forEach(layer => layer.forEach((v, i) => { place[v] = i; }));
  const xs = placed();
  straighten();
  return routed();

  function cut() {
    const ways = links.map(() => null), trunks = new Map(), linked = new Set();
    let budget = 8 * count + 1000;
    const length = k => ranks[links[k][1]] - ranks[links[k][0]];
    const order = links.map((_, k) => k).sort((a, b) => length(a) - length(b));
    for (const k of order) {
      const [u, v] = links[k], first = ranks[u] + 1, last = ranks[v] - 1;
      const owner = trunkAtHead ? v : u;
      if (!trunks.has(owner)) trunks.set(owner, new Map());
      const way = first <= last ? trunks.get(owner) : new Map();
      for (let r = first; r <= last; r++) {
        if (way.has(r)) continue;
        if (budget-- <= 0) break;
        way.set(r, ranks.length);
        ranks.push(r); widths.push(8); down.push([]); up.push([]);
      }
      const path = [u];
      for (let r = first; r <= last; r++) if (way.has(r)) path.push(way.get(r));
      path.push(v);
      for (let i = 0; i + 1 < path.length; i++) {
        const [a, b] = [path[i], path[i + 1]], key = a * 4294967296 + b;
        if (ranks[b] !== ranks[a] + 1 || linked.has(key)) continue;
        linked.add(key); down[a].push(b); up[b].push(a);
      }
      ways[k] = path;
    }
    return ways;
  }

  function ordered() {
    const layers = [], at = new Array(ranks.length).fill(0), seen = new Uint8Array(ranks.length);
    for (const r of ranks) while (layers.length <= r) layers.push([]);
    const tops = ranks.map((_, v) => v).filter(v => !up[v].length).sort((a, b) => ranks[a] - ranks[b]);
    for (const top of tops) {
      const stack = [top];
      while (stack.length) {
        const v = stack.pop();
        if (seen[v]) continue;
        seen[v] = 1;
        at[v] = layers[ranks[v]].length;
        layers[ranks[v]].push(v);
        for (let i = down[v].length - 1; i >= 0; i--) stack.push(down[v][i]);
      }
    }
    const tries = Math.max(2, Math.min(20, Math.floor(150000 / Math.max(1, ranks.length))));
    let best = layers.map(l => l.slice()), fewest = crossings(layers, at);
    for (let k = 0; k < tries && fewest; k++) {
      const downwards = k % 2 === 0, near = downwards ? up : down;
      for (let i = 1; i < layers.length; i++) sortLayer(layers[downwards ? i : layers.length - 1 - i], near, at);
      const now = crossings(layers, at);
      if (now < fewest) { fewest = now; best = layers.map(l => l.slice()); }
    }
    return best;
  }

  function sortLayer(layer, near, at) {
    const keys = new Map();
    for (const v of layer) if (near[v].length) keys.set(v, near[v].reduce((s, n) => s + at[n], 0) / near[v].length);
    const moved = layer.filter(v => keys.has(v)).sort((a, b) => keys.get(a) - keys.get(b));
    let i = 0;
    for (let k = 0; k < layer.length; k++) if (keys.has(layer[k])) layer[k] = moved[i++];
    layer.forEach((v, k) => { at[v] = k; });
  }

  function crossings(layers, at) {
    let total = 0;
    for (let r = 0; r + 1 < layers.length; r++) {
      const size = layers[r + 1].length;
      if (layers[r].length < 2 || size < 2) continue;
      const tree = new Int32Array(size + 1);
      let inserted = 0;
      for (const u of layers[r]) {
        for (const v of down[u]) {
          let left = 0;
          for (let i = at[v] + 1; i > 0; i &= i - 1) left += tree[i];
          total += inserted - left;
        }
        for (const v of down[u]) for (let i = at[v] + 1; i <= size; i += i & -i) tree[i]++;
        inserted += down[u].length;
      }
    }
    return total;
  }

  function placed() {
    const xs = new Array(ranks.length).fill(0);
    for (const layer of layers) settle(layer, layer.map(() => 0), layer.map(() => 1), xs);
    const sweeps = Math.max(4, Math.min(24, Math.floor(150000 / Math.max(1, ranks.length))));
    for (let k = 0; k < sweeps; k++) {
      const last = k >= sweeps - 2;
      for (let i = 0; i < layers.length; i++) {
        const layer = layers[k % 2 ? layers.length - 1 - i : i];
        const targets = [], weights = [];
        for (const v of layer) {
          let near = k % 2 ? down[v] : up[v];
          if (last || !near.length) near = up[v].concat(down[v]);
          let total = 0, weight = 0;
          for (const n of near) {
            const w = 1 + (n >= count ? 3 : 0) + (v >= count ? 3 : 0);
            total += w * xs[n]; weight += w;
          }
          targets.push(weight ? total / weight : xs[v]);
          weights.push(weight || 0.1);
        }
        settle(layer, targets, weights, xs);
      }
    }
    return xs;
  }

  function settle(layer, targets, weights, xs) {
    const blocks = [], offsets = [];
    let offset = 0;
    layer.forEach((v, i) => {
      if (i) offset += (widths[layer[i - 1]] + widths[v]) / 2 + GAPX;
      offsets.push(offset);
      let block = [(targets[i] - offset) * weights[i], weights[i], 1];
      while (blocks.length && blocks[blocks.length - 1][0] * block[1] >= block[0] * blocks[blocks.length - 1][1]) {
        const b = blocks.pop();
        block = [block[0] + b[0], block[1] + b[1], block[2] + b[2]];
      }
      blocks.push(block);
    });
    let i = 0;
    for (const [total, weight, n] of blocks) for (let k = 0; k < n; k++, i++) xs[layer[i]] = total / weight + offsets[i];
  }

  // Long edges and single files run straight, as far as there is room at their sides.
  function straighten() {
    const below = new Map(), taken = new Set();
    down.forEach((list, u) => { for (const v of list) if (u >= count && v >= count) { below.set(u, v); taken.add(v); } });
    down.forEach((list, u) => {
      const v = middle(list);
      if (v >= 0 && !below.has(u) && !taken.has(v) && middle(up[v]) === u) { below.set(u, v); taken.add(v); }
    });
    const chains = [];
    for (let u = 0; u < ranks.length; u++) {
      if (taken.has(u) || !below.has(u)) continue;
      const chain = [u];
      while (below.has(chain[chain.length - 1])) chain.push(below.get(chain[chain.length - 1]));
      chains.push(chain);
    }
    chains.sort((a, b) => b.length - a.length);
    for (let pass = 0; pass < 2; pass++) {
      for (const chain of chains) {
        let start = 0, [lo, hi] = roomOf(chain[0]);
        for (let k = 1; k <= chain.length; k++) {
          const next = k < chain.length ? roomOf(chain[k]) : [Infinity, -Infinity];
          if (Math.max(lo, next[0]) <= Math.min(hi, next[1])) { lo = Math.max(lo, next[0]); hi = Math.min(hi, next[1]); continue; }
          const part = chain.slice(start, k), wanted = part.map(v => xs[v]).sort((a, b) => a - b)[part.length >> 1];
          for (const v of part) xs[v] = Math.min(Math.max(wanted, lo), hi);
          start = k; [lo, hi] = next;
        }
      }
    }
  }

  function middle(list) {
    return list.length % 2 ? list.slice().sort((a, b) => place[a] - place[b])[list.length >> 1] : -1;
  }

  function roomOf(v) {
    const layer = layers[ranks[v]], i = place[v];
    const lo = i ? xs[layer[i - 1]] + (widths[layer[i - 1]] + widths[v]) / 2 + GAPX : -Infinity;
    const hi = i + 1 < layer.length ? xs[layer[i + 1]] - (widths[layer[i + 1]] + widths[v]) / 2 - GAPX : Infinity;
    return [Math.min(lo, xs[v]), Math.max(hi, xs[v])];
  }

  function routed() {
    const tops = [], bottoms = [];
    let y = 0;
    for (const layer of layers) {
      tops.push(y);
      let tallest = 0, slant = 0;
      for (const v of layer) {
        if (v < count) tallest = Math.max(tallest, sizes[v][1]);
        for (const n of down[v]) slant = Math.max(slant, Math.abs(xs[v] - xs[n]));
      }
      y += tallest;
      bottoms.push(y);
      y += GAPY + Math.min(80, SLANT * slant);
    }
    const centers = sizes.map((_, v) => [xs[v], (tops[ranks[v]] + bottoms[ranks[v]]) / 2]);
    const routes = ways.map((path, k) => {
      const points = [];
      for (const v of path) {
        if (v < count) points.push([xs[v], centers[v][1]]);
        else points.push([xs[v], tops[ranks[v]]], [xs[v], bottoms[ranks[v]]]);
      }
      if (links[k][2]) points.reverse();
      return points;
    });
    return { centers, routes };
  }
}

// [tail, head, turned] of each edge: those that close a cycle are turned round.
function withoutCycles(count, edges) {
  const after = Array.from({ length: count }, () => []), state = new Uint8Array(count), turned = new Set();
  edges.forEach(([u, v], k) => after[u].push([v, k]));
  for (let start = 0; start < count; start++) {
    if (state[start]) continue;
    const stack = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1], [u, i] = top;
      if (i >= after[u].length) { state[u] = 2; stack.pop(); continue; }
      top[1]++;
      const [v, k] = after[u][i];
      if (state[v] === 1) turned.add(k);
      else if (!state[v]) { state[v] = 1; stack.push([v, 0]); }
    }
  }
  return edges.map(([u, v], k) => turned.has(k) ? [v, u, true] : [u, v, false]);
}

// The layer of each vertex, or null if the further pairs contradict the links.
function longestPath(count, links, before) {
  const after = Array.from({ length: count }, () => []), waiting = new Int32Array(count), surplus = new Int32Array(count);
  for (const [u, v] of links) { after[u].push(v); waiting[v]++; surplus[u]++; surplus[v]--; }
  for (const [u, v] of before) { after[u].push(v); waiting[v]++; }
  const ranks = new Array(count).fill(0), order = [];
  for (let v = 0; v < count; v++) if (!waiting[v]) order.push(v);
  for (let i = 0; i < order.length; i++) {
    for (const v of after[order[i]]) {
      ranks[v] = Math.max(ranks[v], ranks[order[i]] + 1);
      if (!--waiting[v]) order.push(v);
    }
  }
  if (order.length < count) return null;
  for (let i = order.length - 1; i >= 0; i--) {      // what more edges leave than enter is lowered, beside what uses it
    const u = order[i];
    if (surplus[u] > 0) ranks[u] = after[u].reduce((m, v) => Math.min(m, ranks[v]), Infinity) - 1;
  }
  const lowest = ranks.reduce((a, b) => Math.min(a, b), Infinity);
  return ranks.map(r => r - lowest);
}
