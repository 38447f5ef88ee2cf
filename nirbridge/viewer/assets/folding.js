"use strict";
/* A graph as a tree of groups that fold: nested graphs where the file has them, else layers (a population with what
 * leads to it). */
const Folding = (() => {
  const ALL_OPEN = 80, LAYERS_FROM = 100;
  const HEAD = 32, PAD = 22;
  const NEURONS = /\b(cuba|adaptive|a|ad)?-?(lif|li|if)\b|^I$|izhikevich|neuron|population|leaky/i;

  /** The tree: {key, label, parent, children, nodes, depth}; children are groups or nodes of the document. */
  function tree(graph) {
    const root = { key: "", label: "", parent: null, children: [], nodes: 0, types: new Map() },
      groups = new Map([["", root]]), home = new Map();
    const grouped = graph.nodes.some((node) => node.group);
    const paths = grouped ? graph.nodes.map((node) => node.group || "") : graph.nodes.length > LAYERS_FROM
      ? layers(graph) : graph.nodes.map(() => "");
    const group = (path) => {
      if (groups.has(path)) return groups.get(path);
      const cut = grouped ? path.lastIndexOf("/") : -1, parent = group(cut > 0 ? path.slice(0, cut) : "");
      const made = { key: path, label: grouped ? path.slice(cut + 1) : path.slice(6), parent, children: [], nodes: 0,
        types: new Map(), layer: !grouped };
      parent.children.push(made);
      groups.set(path, made);
      return made;
    };
    graph.nodes.forEach((node, k) => {
      const into = group(paths[k]);
      into.children.push(node);
      home.set(node, into);
      for (let up = into; up; up = up.parent) { up.nodes += 1;
        up.types.set(node.type, (up.types.get(node.type) || 0) + 1); }
    });
    return { root, groups, home };
  }

  /** A layer is a population and the nodes whose only reader is in it. */
  function layers(graph) {
    const index = new Map(graph.nodes.map((node, k) => [node.id, k])), out = graph.nodes.map(() => new Set()),
      before = graph.nodes.map(() => []);
    for (const { source, target } of graph.edges) {
      const a = index.get(source), b = index.get(target);
      if (a === undefined || b === undefined || a === b) continue;
      out[a].add(b);
      before[b].push(a);
    }
    const path = graph.nodes.map(() => ""), is = graph.nodes.map((node) => NEURONS.test(node.type));
    graph.nodes.forEach((node, k) => {
      if (!is[k]) return;
      const taken = [k], name = `layer ${node.id}`;
      for (let at = 0; at < taken.length; at++)
        for (const from of before[taken[at]]) {
          const only = out[from].size === 1 || [...out[from]].every((to) => path[to] === name);
          if (path[from] || is[from] || !only || !before[from].length) continue;
          path[from] = name;
          taken.push(from);
        }
      if (taken.length > 1) path[k] = name;
    });
    return path;
  }

  /** The groups that may be open at first; a small network is shown whole where that can be read. */
  const firstOpen = (folds, count) => new Set(count <= ALL_OPEN ? folds.groups.keys() : [""]);

  /** What is seen of a node: itself, or the outermost folded group around it. */
  function shown(folds, open, node) {
    let seen = node;
    for (let up = folds.home.get(node); up; up = up.parent) if (!open.has(up.key)) seen = up;
    return seen;
  }
  const parent = (folds, item) => (item.children ? item.parent : folds.home.get(item));
  function chain(folds, item) {
    const found = [];
    for (let at = item; at && at !== folds.root; at = parent(folds, at)) found.unshift(at);
    return found;
  }

  /** Edges of each open group between its children and its sides: Map of group -> Map of key -> {from, to, links}. */
  function segments(folds, open, graph) {
    const byId = new Map(graph.nodes.map((node) => [node.id, node])), found = new Map(), ids = new Map();
    const id = (item) => { if (!ids.has(item)) ids.set(item, ids.size); return ids.get(item); };
    const add = (group, from, to, link) => {
      if (!found.has(group)) found.set(group, new Map());
      const key = `${from === "in" ? from : id(from)}>${to === "out" ? to : id(to)}`, known = found.get(group).get(key);
      if (known) known.links.push(link);
      else found.get(group).set(key, { from, to, links: [link] });
    };
    for (const edge of graph.edges) {
      const source = byId.get(edge.source), target = byId.get(edge.target);
      if (!source || !target) continue;
      const a = shown(folds, open, source), b = shown(folds, open, target);
      if (a === b && a.children) continue;
      const up = chain(folds, a), down = chain(folds, b);
      let k = 0;
      while (k < up.length - 1 && k < down.length - 1 && up[k] === down[k]) k += 1;
      const link = { a, b, edge };
      for (let j = up.length - 1; j > k; j--) add(up[j - 1], up[j], "out", link);
      add(k ? up[k - 1] : folds.root, up[k], down[k], link);
      for (let j = k + 1; j < down.length; j++) add(down[j - 1], "in", down[j], link);
    }
    return found;
  }

  /** Boxes {item, x, y, width, height, open} and lines {points, back, head, links}; `size` gives width and height of
   *  a box, `label` the width of an edge's words; `down`: signals run downwards. */
  function place(folds, open, graph, { size, label, down }) {
    const parts = segments(folds, open, graph), boxes = [], lines = [];
    const whole = inside(folds.root, { open, parts, size, label, down });
    flatten(whole, 0, 0, boxes, lines, down);
    return { boxes, lines, width: whole.width, height: whole.height };
  }

  /** One group, its own places beginning at 0, 0. */
  function inside(group, how) {
    const { open, parts, size, label, down } = how, edges = [...(parts.get(group) || new Map()).values()];
    const items = group.children.map((item) => {
      const within = item.children && open.has(item.key) ? inside(item, how) : null, box = within || size(item);
      return { item, within, width: box.width, height: box.height };
    });
    const number = new Map(items.map((each, k) => [each.item, k]));
    const ports = {};
    for (const side of ["in", "out"])
      if (edges.some((edge) => edge.from === side || edge.to === side)) { ports[side] = items.length;
        number.set(side, items.length); items.push({ port: side, width: 0, height: 0 }); }
    const sized = items.map((each) => ({
      along: down ? each.height : each.width, across: down ? each.width : each.height,
      sticks: each.port === "in" ? "first" : each.port === "out" ? "last" : null,
      enters: each.within ? each.within.enters : 0, leaves: each.within ? each.within.leaves : 0,
    }));
    const words = edges.reduce((most, edge) => Math.max(most, edge.links.length === 1 ? label(edge.links[0].edge) : 0),
      0), gap = down ? (words ? 46 : 36) : Math.max(52, words ? words + 44 : 0);
    const found = Layout.arrange(sized, edges.map((edge) => [number.get(edge.from), number.get(edge.to)]), gap);
    const root = group.parent === null, pads = margins(root, ports, down);
    const across = found.breadth, port = (side) =>
      (ports[side] === undefined ? 0 : found.middle[ports[side]] - across / 2 + (pads.across[0] - pads.across[1]) / 2);
    return {
      group, items, edges, found, pads, enters: port("in"), leaves: port("out"),
      width: down ? across + pads.across[0] + pads.across[1] : found.length + pads.along[0] + pads.along[1],
      height: down ? found.length + pads.along[0] + pads.along[1] : across + pads.across[0] + pads.across[1],
    };
  }
  function margins(root, ports, down) {
    if (root) return { along: [0, 0], across: [0, 0] };
    const along = [ports.in === undefined ? PAD : 0, ports.out === undefined ? PAD : 0];
    if (down) return { along: [along[0] + HEAD, along[1]], across: [PAD, PAD] };
    return { along, across: [HEAD + 10, PAD] };
  }

  function flatten(whole, x, y, boxes, lines, down) {
    const { group, items, edges, found, pads } = whole;
    if (group.parent) boxes.push({ item: group, open: true, x, y, width: whole.width, height: whole.height });
    const at = (along, across) => (down ? [x + pads.across[0] + across, y + pads.along[0] + along]
      : [x + pads.along[0] + along, y + pads.across[0] + across]);
    items.forEach((each, k) => {
      if (each.port) return;
      const [left, top] = at(found.along[k], found.across[k]);
      if (each.within) flatten(each.within, left, top, boxes, lines, down);
      else boxes.push({ item: each.item, open: false, x: left, y: top, width: each.width, height: each.height });
    });
    edges.forEach((edge, e) => {
      const points = found.paths[e].map(([along, across]) => at(along, across));
      if (edge.from === "in" && down) points[0][1] = y;
      const ends = (item) => item === "out"
        || (item.children && items.some((each) => each.item === item && each.within));
      lines.push({ points, back: Boolean(found.back[e]), head: !ends(edge.to), links: edge.links,
        bounds: bounds(points) });
    });
  }
  function bounds(points) {
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]), reach = 40;
    const least = (of) => of.reduce((a, b) => Math.min(a, b)), most = (of) => of.reduce((a, b) => Math.max(a, b));
    return { left: least(xs) - reach, right: most(xs) + reach, top: least(ys) - reach, bottom: most(ys) + reach };
  }

  return { tree, firstOpen, shown, place, parent, chain, HEAD, NEURONS };
})();
