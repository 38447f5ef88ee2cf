"use strict";
/* The graph of a network: boxes by type, folded by group, drawn where they are seen. */
class GraphView {
  constructor(app, graph, host) {
    this.app = app;
    this.graph = graph;
    this.folds = Folding.tree(graph);
    this.open = Folding.firstOpen(this.folds, graph.nodes.length);
    this.selected = null;
    this.line = null;
    this.type = null;
    this.hovered = null;
    this.drawn = { boxes: 0, lines: 0 };
    this.nearest = 1.25;
    this.types = [...this.folds.root.types].sort((a, b) => b[1] - a[1]);
    this.near = this.neighbours();
    const index = new Map(graph.nodes.map((node, k) => [node, k]));
    this.ordered = Layout.inOrder(graph.nodes.length,
      graph.nodes.flatMap((node, k) => this.near.get(node).out.map((to) => [k, index.get(to.node)]))).map((k) =>
      graph.nodes[k]);
    this.ruler = document.createElement("canvas").getContext("2d");
    this.stage = new Stage(host, `Graph of ${Kit.counted(graph.nodes.length, "node")}. Arrow keys pan, plus and minus zoom, Enter selects; the nodes are listed beside it.`, this);
    this.down = null;
    this.tools(host);
  }

  neighbours() {
    const byId = (this.byId = new Map(this.graph.nodes.map((node) => [node.id, node]))),
      near = new Map(this.graph.nodes.map((node) => [node, { in: [], out: [] }]));
    for (const edge of this.graph.edges) {
      const a = byId.get(edge.source), b = byId.get(edge.target);
      if (!a || !b) continue;
      near.get(a).out.push({ node: b, edge });
      near.get(b).in.push({ node: a, edge });
    }
    return near;
  }

  tools(host) {
    this.turn = Kit.button("Change the direction of the signals", "down", () => this.layout(!this.down, true));
    const folds = Kit.el("div", { class: "set" }, this.turn);
    if (this.folds.groups.size > 1) folds.append(
      Kit.button("Open every group", "unfold", () => this.openAll(true)),
        Kit.button("Fold every group", "fold", () => this.openAll(false)));
    host.append(Kit.el("div", { class: "tools" }, this.stage.buttons(), folds));
    this.small = new SmallMap(host, this.stage, (context, unit) => this.drawMap(context, unit));
  }

  // -- layout --------------------------------------------------------------------------------------------------------

  /** The first look: the direction that shows more; groups folded where they make the whole too small to read. */
  home() {
    this.choosesWay();
    if (this.open.size > 1 && this.stage.framing(this.bounds()).scale < 0.55) { this.open = new Set([""]);
      this.choosesWay(); }
    this.begin(false);
  }
  /** Both ways are tried; of many boxes the other only where it promises more. */
  choosesWay() {
    this.layout(false);
    const whole = this.bounds(), large = this.placed.boxes.length > 1000,
      turned = { x: 0, y: 0, width: (whole.height * 180) / 80, height: (whole.width * 90) / 210 };
    if (large && this.stage.framing(turned).scale < this.stage.framing(whole).scale) return;
    const first = this.placed;
    this.layout(true);
    if (this.stage.framing(this.bounds()).scale < this.stage.framing(whole).scale * 1.15) { this.placed = first;
      this.down = false; this.label(); }
  }
  begin(flying) {
    const whole = this.stage.framing(this.bounds(), 1.25), least = 0.55;
    if (whole.scale >= least) { this.stage.go(whole, flying); return; }
    const { width, height } = this.stage.size,
      start = this.placed.boxes.reduce((a, b) => ((this.down ? b.y < a.y : b.x < a.x) ? b : a));
    const to = { scale: 0.85 };
    to.x = this.down ? start.x + start.width / 2 - width / 2 / to.scale : start.x - 40 / to.scale;
    to.y = this.down ? start.y - 40 / to.scale : start.y + start.height / 2 - height / 2 / to.scale;
    this.stage.go(to, flying);
  }
  layout(down, begin = false) {
    this.down = down;
    this.line = null;
    this.placed = Folding.place(this.folds, this.open, this.graph,
      { size: (item) => this.measure(item), label: (edge) => this.worded(edge), down });
    this.at = new Map(this.placed.boxes.map((box) => [box.item, box]));
    this.small.forget();
    this.label();
    if (begin) this.begin(true);
    this.stage.redraw();
  }
  label() {
    this.at = new Map(this.placed.boxes.map((box) => [box.item, box]));
    this.small.forget();
    this.turn.replaceChildren(Kit.button("", this.down ? "right" : "down", () => {}).firstChild);
    this.stage.least = Math.min(0.2, 0.5 * Math.min(this.stage.size.width / (this.placed.width + 80),
      this.stage.size.height / (this.placed.height + 80)));
  }
  measure(item) {
    this.ruler.font = Kit.font(13, 600);
    const name = this.ruler.measureText(Kit.short(item.label, 60)).width;
    this.ruler.font = Kit.font(11.5);
    const under = this.ruler.measureText(this.under(item)).width;
    return { width: Math.round(Math.min(290,
      Math.max(118, Math.max(name, under) + 34 + (this.hasBars(item) ? 54 : 0) + (item.children ? 16 : 0)))),
      height: 54 };
  }
  worded(edge) {
    if (!edge.label) return 0;
    this.ruler.font = Kit.font(10.5);
    return Math.min(120, this.ruler.measureText(Kit.short(edge.label, 40)).width);
  }
  /** Weights are drawn in the box; parameters of neurons are mostly one value. */
  hasBars(item) { return !item.children && !Folding.NEURONS.test(item.type)
    && item.params.some((p) => p.values && p.values.length > 1); }
  under(item) {
    if (item.children) {
      const last = item.layer && item.children.find((node) => Folding.NEURONS.test(node.type) && node.shape);
      return last ? `${Kit.counted(item.nodes, "node")} · ${Kit.short(last.shape, 40)}`
        : Kit.counted(item.nodes, "node");
    }
    return Kit.short(item.shape && item.type !== item.label ? `${item.type} · ${item.shape}` : item.shape
      || item.type, 60);
  }
  bounds() { return { x: 0, y: 0, width: Math.max(1, this.placed.width), height: Math.max(1, this.placed.height) }; }

  toggle(group) {
    if (this.open.has(group.key)) { for (const key of [...this.open]) if (key === group.key
      || key.startsWith(`${group.key}/`)) this.open.delete(key); }
    else this.open.add(group.key);
    const before = this.at.get(group), { camera } = this.stage,
      held = { x: (before.x - camera.x) * camera.scale, y: (before.y - camera.y) * camera.scale };
    this.layout(this.down);
    const after = this.at.get(group);
    this.stage.go({ scale: camera.scale, x: after.x - held.x / camera.scale,
      y: after.y - held.y / camera.scale }, false);
    if (this.open.has(group.key)) this.stage.reveal(
      { ...after, width: Math.min(after.width, this.stage.size.width / camera.scale),
      height: Math.min(after.height, this.stage.size.height / camera.scale) });
    Kit.say(`${group.label}: ${this.open.has(group.key) ? "opened" : "folded"}, ${Kit.counted(group.nodes, "node")}`);
  }
  openAll(all) {
    this.open = new Set(all ? this.folds.groups.keys() : [""]);
    this.layout(this.down, true);
    Kit.say(all ? "every group is open" : "every group is folded");
  }
  /** A node in sight: the groups around it opened. */
  unfold(node) {
    let changed = false;
    for (let up = this.folds.home.get(node); up; up = up.parent) if (!this.open.has(up.key)) { this.open.add(up.key);
      changed = true; }
    if (changed) this.layout(this.down);
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  draw(context, camera, size) {
    const seen = this.stage.seen(8 / camera.scale), budget = { left: 2e6 };
    GraphView.dots(context, camera, size);
    context.save();
    context.scale(camera.scale, camera.scale);
    context.translate(-camera.x, -camera.y);
    this.drawn = { boxes: 0, lines: 0 };
    const visible = this.placed.boxes.filter((b) => b.x < seen.right && b.x + b.width > seen.left && b.y < seen.bottom
      && b.y + b.height > seen.top);
    for (const box of visible) if (box.open) this.drawOpen(context, box, camera.scale);
    this.drawLines(context, seen, camera.scale);
    for (const box of visible) if (!box.open) this.drawBox(context, box, camera.scale, budget);
    this.drawn.boxes = visible.length;
    context.restore();
    if (budget.left < 0) this.stage.redraw();
    this.small.draw();
  }
  static dots(context, camera, size) {
    let step = 24 * camera.scale;
    while (step < 16) step *= 4;
    context.fillStyle = Kit.colour("dots");
    for (let x = -((camera.x * camera.scale) % step) - step; x < size.width; x += step)
      for (let y = -((camera.y * camera.scale) % step) - step; y < size.height; y += step) context.fillRect(x, y,
        1.5, 1.5);
  }

  drawLines(context, seen, scale) {
    const visible = this.placed.lines.filter(({ bounds: b }) => b.left < seen.right && b.right > seen.left
      && b.top < seen.bottom && b.bottom > seen.top);
    const marked = visible.filter((line) => line === this.line
      || (this.selected && line.links.some((link) => this.marks(link))));
    const wide = Math.max(1.5, 0.9 / scale),
      styles = [[visible.filter((l) => !l.back), "edge", wide, []],
      [visible.filter((l) => l.back), "full", wide, [6, 4]]];
    if (marked.length) styles.push([marked, "accent", wide * 1.7, []]);
    for (const [lines, name, width, dash] of styles) {
      context.strokeStyle = context.fillStyle = Kit.colour(name);
      context.lineWidth = width;
      context.setLineDash(dash);
      for (const line of lines) context.stroke(line.path || (line.path = this.curve(line)));
      if (scale > 0.25) for (const line of lines) if (line.head) this.head(context, line);
    }
    context.setLineDash([]);
    if (scale >= 0.7) this.labels(context, visible);
    this.drawn.lines = visible.length;
  }
  marks({ edge }) {
    const s = this.selected;
    if (!s.children) return edge.source === s.id || edge.target === s.id;
    return false;
  }
  /** Curves between layers, straight through them. */
  curve({ points, back }) {
    const path = new Path2D(), a = this.down ? 1 : 0, c = 1 - a, last = points.length - 1;
    path.moveTo(...points[0]);
    for (let k = 1; k <= last; k++) {
      const p = points[k - 1], q = points[k];
      if (k % 2 === 0) { path.lineTo(...q); continue; }
      const reach = back ? Math.min(this.down ? 22 : 32, 16 + Math.abs(q[c] - p[c]) / 3)
        : Math.max(12, Math.abs(q[a] - p[a]) / 2);
      const one = [...p], two = [...q];
      one[a] += back && k > 1 ? -reach : reach;
      two[a] += back && k < last ? reach : -reach;
      path.bezierCurveTo(...one, ...two, ...q);
    }
    return path;
  }
  head(context, { points }) {
    const [x, y] = points[points.length - 1];
    context.beginPath();
    context.moveTo(x, y);
    if (this.down) { context.lineTo(x - 4, y - 7.5); context.lineTo(x + 4, y - 7.5); }
    else { context.lineTo(x - 7.5, y - 4); context.lineTo(x - 7.5, y + 4); }
    context.fill();
  }
  labels(context, lines) {
    context.font = Kit.font(10.5);
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const line of lines) {
      const said = line.links[0].edge.label;
      if (line.links.length > 1 || !said || line.points.length !== 2 || line.back) continue;
      const [[x0, y0], [x1, y1]] = line.points, text = Kit.fit(context, Kit.short(said, 40), 120), x = (x0 + x1) / 2,
        y = (y0 + y1) / 2, w = context.measureText(text).width;
      context.fillStyle = Kit.colour("stage");
      context.fillRect(x - w / 2 - 3, y - 7, w + 6, 14);
      context.fillStyle = Kit.colour("muted");
      context.fillText(text, x, y + 0.5);
    }
  }

  drawBox(context, box, scale, budget) {
    const { item, x, y, width, height } = box, hue = this.hue(item),
      dim = this.type !== null && !this.has(item, this.type), on = this.selected === item;
    context.globalAlpha = dim ? 0.25 : 1;
    if (scale < 0.16) {
      context.fillStyle = on ? Kit.colour("accent") : Kit.mix(hue, "edge", 0.25);
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
      return;
    }
    if (item.children) this.drawStack(context, box);
    context.beginPath();
    context.roundRect(x, y, width, height, 9);
    context.fillStyle = Kit.mix("page", hue, this.hovered === item ? 0.3 : 0.13);
    context.fill();
    context.save();
    context.clip();
    this.strip(context, box, hue);
    context.restore();
    context.lineWidth = on ? 3 : this.hovered === item ? 1.8 : 1;
    context.strokeStyle = on || this.hovered === item ? Kit.colour("accent") : Kit.mix(hue, "edge", 0.55);
    context.beginPath();
    context.roundRect(x, y, width, height, 9);
    context.stroke();
    if (scale >= 0.3) this.texts(context, box, scale, budget);
    context.globalAlpha = 1;
  }
  /** The edge of a box shows its type; that of a group the types in it. */
  strip(context, { item, x, y, height }, hue) {
    if (!item.children) { context.fillStyle = Kit.colour(hue); context.fillRect(x, y, 7, height); return; }
    let from = y;
    for (const [type, n] of [...item.types].sort((a, b) => b[1] - a[1])) {
      context.fillStyle = Kit.colour(GraphView.hueOf(type));
      context.fillRect(x, from, 7, (height * n) / item.nodes + 0.5);
      from += (height * n) / item.nodes;
    }
  }
  drawStack(context, { x, y, width, height }) {
    context.lineWidth = 1;
    context.strokeStyle = Kit.colour("edge");
    context.fillStyle = Kit.colour("page");
    for (const by of [8, 4]) {
      context.beginPath();
      context.roundRect(x + by, y + by, width, height, 9);
      context.fill();
      context.stroke();
    }
  }
  texts(context, { item, x, y, width, height }, scale, budget) {
    const bars = scale < 0.45 || !this.hasBars(item) ? null : Parameters.small(item, budget),
      room = width - 30 - (bars ? 54 : 0) - (item.children ? 16 : 0);
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.font = Kit.font(13, 600);
    context.fillStyle = Kit.colour("text");
    context.fillText(Kit.fit(context, Kit.short(item.label, 60), room), x + 18, y + 23.5);
    context.font = Kit.font(11.5);
    context.fillStyle = Kit.colour("muted");
    context.fillText(Kit.fit(context, this.under(item), room), x + 18, y + 40.5);
    if (bars) {
      context.fillStyle = Kit.mix(this.hue(item), "edge", 0.5);
      const step = 48 / bars.length;
      bars.forEach((n, k) => { const size = n ? Math.max(1.5, 26 * n) : 0;
        context.fillRect(x + width - 58 + k * step, y + height - 14 - size, step - 1, size); });
    }
    if (item.children) this.chevron(context, x + width - 18, y + height / 2, false);
  }
  chevron(context, x, y, open) {
    context.strokeStyle = Kit.colour("muted");
    context.lineWidth = 1.7;
    context.beginPath();
    if (open) { context.moveTo(x - 4, y - 2); context.lineTo(x, y + 2.5); context.lineTo(x + 4, y - 2); }
    else { context.moveTo(x - 2, y - 4); context.lineTo(x + 2.5, y); context.lineTo(x - 2, y + 4); }
    context.stroke();
  }
  drawOpen(context, { item, x, y, width, height }, scale) {
    const on = this.selected === item || this.hovered === item;
    context.beginPath();
    context.roundRect(x, y, width, height, 12);
    context.fillStyle = Kit.mix("stage", "c7", 0.13);
    context.fill();
    context.lineWidth = on ? 2 : 1;
    context.strokeStyle = Kit.colour(on ? "accent" : "line");
    context.stroke();
    if (scale < 0.3) return;
    this.chevron(context, x + 16, y + 17, true);
    context.font = Kit.font(12, 600);
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = Kit.colour("muted");
    context.fillText(Kit.fit(context, Kit.short(item.label, 60), width - 40), x + 27, y + 17);
  }

  /** The colour of a type: what it does, not its name, decides. */
  static hueOf(type) {
    if (Folding.NEURONS.test(type)) return "c2";
    const kinds = [[/conv/i, "c4"], [/linear|affine|dense|sparse|scale|project|identity/i, "c0"], [/pool/i, "c5"],
      [/delay/i, "c6"], [/thresh|spik/i, "c3"], [/^(input|output)$|flatten|reshape/i, "c7"]];
    const found = kinds.find(([pattern]) => pattern.test(type));
    return found ? found[1] : "c1";
  }
  hue(item) { return item.children ? "c7" : GraphView.hueOf(item.type); }
  has(item, type) { return item.children ? item.types.has(type) : item.type === type; }

  drawMap(context, unit) {
    for (const { item, open, x, y, width, height } of this.placed.boxes) {
      context.fillStyle = open ? Kit.colour("soft") : Kit.mix(this.hue(item), "edge", 0.35);
      context.fillRect(x * unit, y * unit, Math.max(1, width * unit), Math.max(1.5, height * unit));
    }
  }
  recolour() { this.small.forget(); }

  // -- hands ---------------------------------------------------------------------------------------------------------

  pick(point) {
    const { x, y } = this.stage.world(point),
      inside = (b, h) => x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + h;
    const closed = this.placed.boxes.find((b) => !b.open && inside(b, b.height));
    return closed || this.placed.boxes.filter((b) => b.open && inside(b, Folding.HEAD)).pop() || null;
  }
  over(point) {
    const box = this.pick(point), item = box && box.item;
    if (item !== this.hovered) { this.hovered = item; this.stage.redraw(); }
    const line = item ? null : this.lineAt(point);
    if (line) Kit.tip(this.ends(line), [(line.links.length === 1 && line.links[0].edge.label) || "click for both ends"], point.clientX,
      point.clientY);
    else if (!item) Kit.tip(null);
    else Kit.tip(item.label, item.children
      ? [`${Kit.counted(item.nodes, "node")}: ${[...item.types].map(([t, n]) => `${n} ${t}`).join(", ")}`,
      box.open ? "click to fold" : "click to open"] : [`${item.type}${item.shape ? ` · ${item.shape}` : ""}`],
      point.clientX, point.clientY);
    return item !== null || line !== null;
  }
  /** The line at a point: on it, or a few pixels beside it. */
  lineAt(point) {
    const { x, y } = this.stage.world(point), slack = 6 / this.stage.camera.scale;
    this.ruler.lineWidth = 2 * slack;
    return this.placed.lines.find(({ bounds: b, path }) => path && x > b.left - slack && x < b.right + slack
      && y > b.top - slack && y < b.bottom + slack && this.ruler.isPointInStroke(path, x, y)) || null;
  }
  ends({ links }) {
    const [{ edge }] = links;
    return links.length > 1 ? Kit.counted(links.length, "edge")
      : `${this.byId.get(edge.source).label} → ${this.byId.get(edge.target).label}`;
  }
  leave() { if (this.hovered) { this.hovered = null; this.stage.redraw(); } }
  press(point) {
    const box = this.pick(point);
    if (!box) this.select(null, true, this.lineAt(point));
    else if (box.item.children) { Kit.tip(null); this.toggle(box.item); }
    else this.select(box.item, false);
  }
  key(event) {
    if (event.key === "Escape" && (this.selected || this.line)) { this.select(null); return true; }
    if (event.key === "Enter" || event.key === " ") {
      if (this.selected && this.selected.children) this.toggle(this.selected);
      else if (!this.selected) this.choose(this.middle());
      return true;
    }
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!this.selected || !ways[event.key] || event.shiftKey) return false;
    this.choose(this.beside(ways[event.key]));
    return true;
  }
  middle() {
    const seen = this.stage.seen(), x = (seen.left + seen.right) / 2, y = (seen.top + seen.bottom) / 2;
    return this.nearestTo((b) => Math.hypot(b.x + b.width / 2 - x, b.y + b.height / 2 - y));
  }
  /** The next box in a direction. */
  beside([dx, dy]) {
    const here = this.at.get(this.selected);
    return this.nearestTo((b) => {
      const x = b.x + b.width / 2 - here.x - here.width / 2, y = b.y + b.height / 2 - here.y - here.height / 2,
        ahead = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
      return b === here || ahead <= 1 ? Infinity : ahead + 2.5 * aside;
    });
  }
  nearestTo(far) {
    let best = null, least = Infinity;
    for (const box of this.placed.boxes) if (!box.open) { const d = far(box);
      if (d < least) { least = d; best = box; } }
    return best && best.item;
  }
  choose(item) {
    if (!item) return;
    if (!item.children) { this.select(item); return; }
    this.selected = item;
    this.stage.reveal(this.at.get(item));
    Kit.say(`${item.label}, a group of ${Kit.counted(item.nodes, "node")}; Enter opens it`);
    this.panel();
  }

  /** A node, or else a line, with its panel; null for none. */
  select(node, moves = true, line = null) {
    this.selected = node;
    this.line = line;
    if (line) Kit.say(this.ends(line));
    if (node) {
      this.unfold(node);
      if (moves) this.stage.reveal(this.at.get(node), 0.75);
      Kit.say(`${node.label}, ${node.type}${node.shape ? `, ${node.shape}` : ""}`);
    }
    this.panel();
    this.stage.redraw();
  }

  // -- words ---------------------------------------------------------------------------------------------------------

  search(text) {
    const found = [];
    for (const node of this.ordered) {
      const name = node.label.toLowerCase(), at = name.indexOf(text),
        id = at < 0 && node.id.toLowerCase().includes(text), type = node.type.toLowerCase().includes(text);
      if (at >= 0 || id || type) found.push(
        { rank: at === 0 ? 0 : at > 0 ? 1 : id ? 2 : 3, main: node.label,
        more: node.group ? `${node.type} in ${node.group}` : node.type, act: () => this.select(node) });
    }
    return found.sort((a, b) => a.rank - b.rank);
  }
  row(node) {
    return { mark: Kit.square(GraphView.hueOf(node.type)), main: node.label,
      more: node.group || node.shape || node.type, act: () => this.select(node) };
  }
  panel() {
    const item = this.selected;
    if (this.line) this.linePanel(this.line);
    else if (!item) this.app.overview(this.types.length > 1 ? this.typeList() : null, this.nodeList());
    else if (item.children) this.app.detail(item.label, [Kit.counted(item.nodes, "node")], () => this.select(null),
      Kit.el("p", {}, Kit.el("button", { type: "button", on: { click: () => this.toggle(item) } },
        this.open.has(item.key) ? "Fold" : "Open")), this.types && this.content(item));
    else this.nodePanel(item);
  }
  content(item) {
    const nodes = this.graph.nodes.filter((node) => Folding.chain(this.folds, node).includes(item));
    return Kit.section("Nodes", Kit.number(nodes.length),
      Kit.pages(nodes.length, (k) => this.row(nodes[k]), "Nodes of the group"));
  }
  /** Nodes at one side, each with the edge that leads there. */
  sideList(heading, found) {
    return Kit.section(heading, Kit.number(found.length), found.length
      ? Kit.pages(found.length, (k) => (
        { ...this.row(found[k].node), more: found[k].edge.label || found[k].node.shape || found[k].node.type }),
        heading, 12) : Kit.el("p", { class: "note" }, "none"));
  }
  linePanel(line) {
    const ends = (side) => [...new Map(line.links.map(({ edge }) => [edge[side], edge]))].map(([id, edge]) =>
      ({ node: this.byId.get(id), edge }));
    this.app.detail(this.ends(line), [line.back ? "a connection back" : "a connection"], () => this.select(null),
      this.sideList("From", ends("source")), this.sideList("To", ends("target")));
  }
  nodePanel(node) {
    const near = this.near.get(node);
    const where = node.group ? [["in", node.group]] : [], shape = node.shape ? [["shape", node.shape]] : [];
    this.app.detail(node.label, [Kit.square(GraphView.hueOf(node.type)), node.type], () => this.select(null),
      Kit.el("section", {}, Kit.facts([...shape, ...where, ...node.facts])), Parameters.panel(node),
      this.sideList("From", near.in), this.sideList("To", near.out));
  }
  typeList() {
    const row = ([type, n]) => Kit.el("button",
      { type: "button", "aria-pressed": String(this.type === type), on: { click: () => this.point(type) } },
      Kit.square(GraphView.hueOf(type)), Kit.el("span", { class: "main" }, Kit.short(type, 80)),
        Kit.el("span", { class: "more" }, Kit.number(n)));
    this.typeRows = this.types.map((each) => [each[0], row(each)]);
    return Kit.section("Types", "click to point out",
      Kit.el("ul", { class: "rows", "aria-label": "Types" }, this.typeRows.map(([, made]) => Kit.el("li", {}, made))));
  }
  point(type) {
    this.type = this.type === type ? null : type;
    for (const [name, row] of this.typeRows) row.setAttribute("aria-pressed", String(this.type === name));
    this.stage.redraw();
  }
  nodeList() {
    const nodes = this.ordered;
    return Kit.section("Nodes", Kit.number(nodes.length), Kit.pages(nodes.length, (k) => this.row(nodes[k]), "Nodes"));
  }
}
