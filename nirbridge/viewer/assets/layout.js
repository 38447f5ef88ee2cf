"use strict";
/* Where the boxes of a graph go: layers in the direction of the signals, few crossings, straight long edges.
 *
 * Sugiyama's steps, each linear but for sorting: edges that close a cycle are turned (depth first), layers are longest
 * paths, long and returning edges get a lane in every layer that they pass, layers are ordered by barycentres, and
 * places across are least squares under that order (pool adjacent violators). Axes here: `along` the signals and
 * `across` them; `folding.js` turns them for the screen. */
const Layout = (() => {
  const GAP = { along: 52, across: 26, lane: 16 };
  const SWEEPS = { order: 10, place: 8 };
  /** Edges beyond so many lanes, per item and in all, are drawn without any. */
  const LANES = { each: 12, all: 40000 };

  /** Which edges return: those that close a cycle in a depth first walk from the sources. */
  function returning(count, edges, out) {
    const state = new Uint8Array(count), back = new Uint8Array(edges.length), entered = new Uint8Array(count);
    for (const [from, to] of edges) if (from !== to) entered[to] = 1;
    const roots = [...Array(count).keys()].sort((a, b) => entered[a] - entered[b]);
    for (const root of roots) {
      if (state[root]) continue;
      const stack = [[root, 0]];
      state[root] = 1;
      while (stack.length) {
        const top = stack[stack.length - 1], [item] = top;
        if (top[1] === out[item].length) { state[item] = 2; stack.pop(); continue; }
        const edge = out[item][top[1]++], to = edges[edge][1];
        if (state[to] === 1) back[edge] = 1;
        else if (state[to] === 0) { state[to] = 1; stack.push([to, 0]); }
      }
    }
    return back;
  }

  /** Longest paths from the sources; a source then moves beside its first reader. */
  function ranks(items, edges, back, out) {
    const count = items.length, rank = new Int32Array(count), waiting = new Int32Array(count),
      enters = new Int32Array(count);
    edges.forEach(([, to], e) => { if (!back[e]) { waiting[to] += 1; enters[to] += 1; } });
    const ready = [];
    for (let k = 0; k < count; k++) if (!waiting[k]) ready.push(k);
    for (let k = 0; k < ready.length; k++)
      for (const e of out[ready[k]]) {
        if (back[e]) continue;
        const to = edges[e][1];
        rank[to] = Math.max(rank[to], rank[ready[k]] + 1);
        if (--waiting[to] === 0) ready.push(to);
      }
    for (let k = 0; k < count; k++) {
      if (enters[k] || items[k].sticks) continue;
      const after = out[k].filter((e) => !back[e]).map((e) => rank[edges[e][1]]);
      if (after.length) rank[k] = Math.max(0, after.reduce((a, b) => Math.min(a, b)) - 1);
    }
    const last = rank.reduce((a, b) => Math.max(a, b), 0);
    items.forEach((item, k) => { if (item.sticks === "last") rank[k] = last; });
    return rank;
  }

  /** The items with the lanes of edges: vertices {item, rank, size, along, after}, links [a, b, weight], and the lanes
   *  of each edge. */
  function vertices(items, edges, back, rank) {
    const all = items.map((item, k) => ({ item: k, rank: rank[k], size: item.across, along: item.along, after: -1 }));
    const links = [], lanes = edges.map(() => []);
    const span = ([from, to]) => Math.abs(rank[to] - rank[from]);
    const shortest = edges.map((_, e) => e).sort((a, b) => span(edges[a]) - span(edges[b]) || a - b);
    let left = Math.min(LANES.all, LANES.each * (items.length + edges.length) + 2000);
    for (const e of shortest) {
      const [from, to] = edges[e], first = back[e] ? rank[to] : rank[from] + 1,
        last = back[e] ? rank[from] : rank[to] - 1;
      if ((left -= Math.max(0, last - first + 1)) < 0) break;
      for (let r = first; r <= last; r++) {
        const end = back[e] ? (r === last ? from : r === first ? to : -1) : -1;
        lanes[e].push(all.length);
        all.push({ item: -1, rank: r, size: 2, along: 0, after: end });
      }
      const chain = back[e] ? lanes[e] : [from, ...lanes[e], to];
      for (let k = 1; k < chain.length;
        k++) links.push([chain[k - 1], chain[k],
        all[chain[k - 1]].item < 0 && all[chain[k]].item < 0 ? 6 : lanes[e].length ? 2 : 1]);
    }
    return { all, links, lanes };
  }

  /** The order in each layer: means of the neighbours' places, forth and back. */
  function ordered(all, links) {
    const layers = [];
    all.forEach((vertex, k) => (layers[vertex.rank] ||= []).push(k));
    const before = all.map(() => []), behind = all.map(() => []);
    for (const [a, b] of links) { behind[a].push(b); before[b].push(a); }
    const place = new Float64Array(all.length), key = new Float64Array(all.length);
    const number = () => layers.forEach((layer) => layer.forEach((v, k) => { place[v] = k; }));
    number();
    for (let sweep = 0; sweep < SWEEPS.order; sweep++) {
      const forth = sweep % 2 === 0;
      for (let r = 0; r < layers.length; r++) {
        const layer = layers[forth ? r : layers.length - 1 - r];
        for (const v of layer) {
          const near = forth ? before[v] : behind[v];
          let sum = 0;
          for (const n of near) sum += place[n];
          key[v] = near.length ? sum / near.length : place[v];
        }
        for (const v of layer) if (all[v].after >= 0) key[v] = key[all[v].after] + 0.01;
        layer.sort((a, b) => key[a] - key[b] || place[a] - place[b]);
        layer.forEach((v, k) => { place[v] = k; });
      }
    }
    return { layers };
  }

  /** Places of one layer: as near as may be to those wanted, in order and apart (pool adjacent violators). */
  function apart(layer, all, want, weight, at) {
    const sums = [], weights = [], ends = [];
    let shift = 0;
    for (let k = 0; k < layer.length; k++) {
      const v = layer[k];
      if (k) { const u = all[layer[k - 1]], w = all[v];
        shift += (u.size + w.size) / 2 + (u.item < 0 || w.item < 0 ? GAP.lane : GAP.across); }
      at[v] = shift;
      sums.push((want[v] - shift) * weight[v]);
      weights.push(weight[v]);
      ends.push(k);
      for (let last = sums.length - 1; last > 0 && sums[last - 1] / weights[last - 1] > sums[last] / weights[last];
        last--) {
        sums[last - 1] += sums.pop();
        weights[last - 1] += weights.pop();
        ends[last - 1] = ends.pop();
      }
    }
    for (let block = 0, k = 0; block < sums.length; block++) for (; k <= ends[block];
      k++) at[layer[k]] += sums[block] / weights[block];
  }

  function placed(all, links, layers) {
    const at = new Float64Array(all.length), want = new Float64Array(all.length),
      weight = new Float64Array(all.length).fill(1);
    const pull = { before: all.map(() => []), behind: all.map(() => []) };
    for (const [a, b, w] of links) { pull.behind[a].push(b, w); pull.before[b].push(a, w); }
    for (const layer of layers) apart(layer, all, want, weight, at);
    for (let sweep = 0; sweep < SWEEPS.place; sweep++)
      for (let r = 0; r < layers.length; r++) {
        const layer = layers[sweep % 2 ? layers.length - 1 - r : r], last = sweep === SWEEPS.place - 1,
          sides = last ? [pull.before, pull.behind] : [sweep % 2 ? pull.behind : pull.before];
        for (const v of layer) {
          let sum = 0, total = 0;
          for (const side of sides) for (let k = 0, near = side[v]; k < near.length;
            k += 2) { sum += near[k + 1] * at[near[k]]; total += near[k + 1]; }
          if (all[v].after >= 0) { const near = all[v].after; sum += 3 * (at[near] + all[near].size / 2 + GAP.lane);
            total += 3; }
          want[v] = total ? sum / total : at[v];
          weight[v] = total || 0.1;
        }
        apart(layer, all, want, weight, at);
      }
    return at;
  }

  /** Points of an edge: a curve to each odd point, a straight line to each even one. */
  function path(edge, e, drawn, all, lanes, columns) {
    const [from, to] = edge, { at, back, items, along } = drawn;
    const start = along[from] + items[from].along, end = along[to];
    const leaves = at[from] + (items[from].leaves || 0), enters = at[to] + (items[to].enters || 0);
    const points = [];
    if (back[e]) {
      points.push([start, leaves + items[from].across * 0.28]);
      for (const v of lanes[e].slice().reverse()) { const { first, last } = columns[all[v].rank];
        points.push([last, at[v]], [first, at[v]]); }
      points.push([end, enters + items[to].across * 0.28]);
    } else {
      points.push([start, leaves]);
      for (const v of lanes[e]) { const { first, last } = columns[all[v].rank];
        points.push([first, at[v]], [last, at[v]]); }
      points.push([end, enters]);
    }
    return points;
  }

  /** Places of `items` ({along, across, enters?, leaves?}) with `edges` ([from, to]), layers `gap` apart: where each
   *  begins, the points of each edge, and the size of all. */
  function arrange(items, edges, gap = GAP.along) {
    const out = items.map(() => []);
    edges.forEach(([from], e) => out[from].push(e));
    const back = returning(items.length, edges, out);
    const rank = ranks(items, edges, back, out);
    const { all, links, lanes } = vertices(items, edges, back, rank);
    const order = ordered(all, links), at = placed(all, links, order.layers);
    const columns = [];
    let next = 0;
    for (const layer of order.layers) {
      const thick = layer.reduce((most, v) => Math.max(most, all[v].along), 0);
      columns.push({ first: next, last: next + thick });
      next += thick + gap;
    }
    const along = items.map((item, k) =>
      { const { first, last } = columns[rank[k]];
      return item.sticks === "first" ? first : item.sticks === "last" ? last - item.along
      : (first + last - item.along) / 2; });
    let low = Infinity, high = -Infinity;
    all.forEach((vertex, v) => { low = Math.min(low, at[v] - vertex.size / 2);
      high = Math.max(high, at[v] + vertex.size / 2); });
    for (let v = 0; v < all.length; v++) at[v] -= low;
    const drawn = { at, back, items, along };
    const paths = edges.map((edge, e) => path(edge, e, drawn, all, lanes, columns));
    return { along, across: items.map((item, k) => at[k] - item.across / 2), middle: at, paths, back,
      length: Math.max(0, next - gap), breadth: items.length ? high - low : 0, layers: columns.length };
  }

  /** The items in the direction of the signals. */
  function inOrder(count, edges) {
    const items = Array.from({ length: count }, () => ({})), out = items.map(() => []);
    edges.forEach(([from], e) => out[from].push(e));
    const rank = ranks(items, edges, returning(count, edges, out), out);
    return [...items.keys()].sort((a, b) => rank[a] - rank[b] || a - b);
  }

  return { arrange, inOrder, GAP };
})();

/* Where chips, tiles and cores of a floor plan are. */
const Floor = (() => {
  const CORE = 20, GAP = 2, TILE_GAP = 6, PAD = 12, HEAD = 26, CHIP_GAP = 36;

  /** Sizes of a tile and a chip in units, and where each chip begins. */
  function floor(plan) {
    const across = Math.ceil(Math.sqrt(plan.coresPerTile)), down = Math.ceil(plan.coresPerTile / across),
      pitch = CORE + GAP;
    const tileGap = plan.coresPerTile === 1 ? GAP : TILE_GAP;
    const tile = { across, down, width: across * pitch - GAP + tileGap, height: down * pitch - GAP + tileGap };
    const width = plan.width * tile.width - tileGap + 2 * PAD, height = plan.height * tile.height - tileGap + 2 * PAD;
    const chips = Array.from({ length: plan.chips }, (_, k) => k), places = gridded(plan, width, height);
    const at = chips.map((k) => ({ x: places[k][0] * (width + CHIP_GAP),
      y: places[k][1] * (height + HEAD + CHIP_GAP) }));
    const most = (axis) => at.reduce((a, p) => Math.max(a, p[axis]), 0);
    return { tile, pitch, chip: { width, height }, at, width: most("x") + width, height: most("y") + height + HEAD };
  }
  /** Column and row of each chip; a long chain is wrapped into rows. */
  function gridded(plan, width, height) {
    const given = plan.places, chain = !given || given.every(([, row]) => row === 0);
    if (!chain || plan.chips <= 4) return given || Array.from({ length: plan.chips }, (_, k) => [k, 0]);
    const columns = Math.max(1, Math.round(
      Math.sqrt((plan.chips * 1.35 * (height + HEAD + CHIP_GAP)) / (width + CHIP_GAP))));
    return Array.from({ length: plan.chips }, (_, k) => [k % columns, Math.floor(k / columns)]);
  }
  /** The square of a core. */
  function square(floor, { chip, x, y, core }) {
    const at = floor.at[chip];
    return { x: at.x + PAD + x * floor.tile.width + (core % floor.tile.across) * floor.pitch,
      y: at.y + HEAD + PAD + y * floor.tile.height + Math.floor(core / floor.tile.across) * floor.pitch, width: CORE,
      height: CORE };
  }
  /** Chip, tile and core under a point of the plan; null between them. */
  function under(floor, plan, { x, y }) {
    for (let chip = 0; chip < plan.chips; chip++) {
      const dx = x - floor.at[chip].x - PAD, dy = y - floor.at[chip].y - HEAD - PAD;
      if (dx < 0 || dy < 0 || dx > floor.chip.width || dy > floor.chip.height) continue;
      const column = Math.floor(dx / floor.tile.width), row = Math.floor(dy / floor.tile.height);
      const inX = Math.floor((dx - column * floor.tile.width) / floor.pitch),
        inY = Math.floor((dy - row * floor.tile.height) / floor.pitch), core = inY * floor.tile.across + inX;
      if (column < plan.width && row < plan.height && inX < floor.tile.across
        && core < plan.coresPerTile) return { chip, x: column, y: row, core };
    }
    return null;
  }
  return { floor, square, under, CORE, PAD, HEAD };
})();
