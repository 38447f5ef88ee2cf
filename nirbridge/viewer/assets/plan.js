"use strict";
/* The floor plan of a map: chips, tiles, cores; what is on a core, how full it is, its routes. */
class PlanView {
  constructor(app, plan, host) {
    this.app = app;
    this.plan = plan;
    this.floor = Floor.floor(plan);
    this.selected = null;
    this.population = null;
    this.colour = "population";
    this.hovered = null;
    this.nearest = 4;
    this.doubles = true;
    this.images = new Map();
    this.drawn = { cores: 0, chips: 0 };
    this.prepare();
    this.stage = new Stage(host, `Floor plan, ${Kit.counted(plan.cores.length, "used core")}. Arrow keys pan, plus and minus zoom, Enter selects a core; the cores are listed beside it.`, this);
    this.stage.most = 8;
    this.tools(host);
  }

  prepare() {
    const { plan } = this, all = plan.chips * plan.width * plan.height * plan.coresPerTile;
    this.shares = plan.cores.map(({ slices }) => {
      const by = new Map();
      for (const { population, neurons } of slices) by.set(population, (by.get(population) || 0) + neurons);
      return [...by].map(([population, neurons]) => ({ population, neurons }));
    });
    this.index = new Int32Array(all).fill(-1);
    plan.cores.forEach((core, k) => { this.index[this.number(core)] = k; });
    this.ofChip = Array.from({ length: plan.chips }, () => []);
    plan.cores.forEach((core, k) => this.ofChip[core.chip].push(k));
    this.squares = plan.cores.map((core) => Floor.square(this.floor, core));
    this.routes = plan.cores.map(() => ({ out: [], in: [] }));
    this.busiest = 0;
    plan.routes.forEach((route) => {
      this.busiest = Math.max(this.busiest, route.spikes);
      if (route.source !== null) this.routes[route.source].out.push(route);
      this.routes[route.target].in.push(route);
    });
    this.dead = Array.from({ length: plan.chips }, () => []);
    for (const [chip, x, y, core] of plan.dead) if (this.dead[chip]) this.dead[chip].push({ chip, x, y, core });
    this.on = plan.populations.map(() => []);
    plan.cores.forEach((core, k) => {
      for (const p of new Set(core.slices.map((slice) => slice.population))) this.on[p].push(k); });
    this.resources = Object.keys(plan.limits).filter((name) => plan.limits[name] !== null && plan.limits[name] > 0);
    this.fills = plan.cores.map((core) =>
      this.resources.reduce((most, name) => Math.max(most, this.share(core, name)), 0));
  }
  share(core, name) { return (core.used[name] || 0) / this.plan.limits[name]; }
  fill(k) { return this.colour === "fullest" ? this.fills[k] : this.share(this.plan.cores[k], this.colour); }
  number({ chip, x, y, core }) { const { width, height, coresPerTile } = this.plan;
    return ((chip * height + y) * width + x) * coresPerTile + core; }
  name(core) {
    const { width, height, coresPerTile, chips } = this.plan, n = this.number(core) % (width * height * coresPerTile);
    return chips > 1 ? `Core ${core.chip}:${n}` : `Core ${n}`;
  }
  static word(name) { return name.replace(/_/g, " "); }

  tools(host) {
    const options = [["population", "population"],
      ...(this.resources.length > 1 ? [["fullest", "fullest resource"]] : []),
      ...this.resources.map((name) => [name, PlanView.word(name)])];
    const choice = Kit.el("select", {
      on: { change: () => { this.colour = choice.value; this.recolour(); this.panel(); this.stage.redraw(); } } },
      options.map(([value, said]) => Kit.el("option", { value }, said)));
    host.append(Kit.el("div", { class: "tools" }, this.stage.buttons(),
      Kit.el("div", { class: "set" }, Kit.el("label", {}, "Colour", choice))));
    this.small = new SmallMap(host, this.stage, (context, unit) => this.drawMap(context, unit));
  }
  recolour() {
    this.images.clear();
    this.small.forget();
  }
  drawMap(context, unit) {
    context.scale(unit, unit);
    this.floor.at.forEach(({ x, y }, k) => {
      context.fillStyle = Kit.colour("free");
      context.fillRect(x, y + Floor.HEAD, this.floor.chip.width, this.floor.chip.height);
      this.drawFolded(context, k);
    });
  }
  bounds() { return { x: 0, y: 0, width: this.floor.width, height: this.floor.height }; }
  home() {
    this.stage.least = Math.min(0.4, 0.4 * this.stage.framing(this.bounds()).scale);
    this.stage.fit(false);
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  draw(context, camera) {
    const seen = this.stage.seen(), { chip, at } = this.floor, px = Floor.CORE * camera.scale;
    this.drawn = { cores: 0, chips: 0 };
    context.save();
    context.scale(camera.scale, camera.scale);
    context.translate(-camera.x, -camera.y);
    at.forEach(({ x, y }, k) => {
      if (x > seen.right || x + chip.width < seen.left || y > seen.bottom
        || y + chip.height + Floor.HEAD < seen.top) return;
      this.drawn.chips += 1;
      this.drawChip(context, k, camera.scale);
      if (Math.max(chip.width, chip.height) * camera.scale < 60) this.drawFolded(context, k);
      else if (px < 14) this.drawImage(context, k);
      else this.drawCores(context, k, seen, px);
    });
    if (this.selected !== null) this.drawSelected(context, camera.scale);
    context.restore();
    this.small.draw();
  }
  drawChip(context, k, scale) {
    const { x, y } = this.floor.at[k], { width, height } = this.floor.chip;
    context.fillStyle = Kit.colour("page");
    context.strokeStyle = Kit.colour("line");
    context.lineWidth = Math.min(3, 1 / scale);
    context.beginPath();
    context.roundRect(x, y + Floor.HEAD, width, height, 8);
    context.fill();
    context.stroke();
    const size = Math.min(50, 13 / scale);
    if (size * scale < 7 || width * scale < 34) return;
    context.font = Kit.font(size, 600);
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.fillStyle = Kit.colour("muted");
    const used = this.ofChip[k].length, all = this.plan.width * this.plan.height * this.plan.coresPerTile,
      name = this.plan.chips > 1 ? `Chip ${k}` : Kit.short(this.plan.chip, 40);
    context.fillText(Kit.fit(context,
      width * scale > 150 ? `${name} · ${Kit.number(used)} of ${Kit.number(all)} cores` : name, width), x + 2,
      y + Floor.HEAD - 7);
  }
  /** A chip too small for its cores: the shares of the populations on it, or the mean of the fill. */
  drawFolded(context, k) {
    const { x, y } = this.floor.at[k], { width, height } = this.floor.chip, used = this.ofChip[k],
      all = this.plan.width * this.plan.height * this.plan.coresPerTile;
    if (!used.length) return;
    const counts = new Map();
    for (const c of used) { const name = this.paint(c); counts.set(name, (counts.get(name) || 0) + 1); }
    const room = height - 2 * Floor.PAD;
    let from = y + Floor.HEAD + Floor.PAD;
    for (const [name, n] of [...counts].sort((a, b) => b[1] - a[1])) {
      context.fillStyle = Kit.colour(name);
      context.fillRect(x + Floor.PAD, from, width - 2 * Floor.PAD, (room * n) / all);
      from += (room * n) / all;
    }
  }
  /** A chip whose cores are some pixels wide: one picture, made once. */
  drawImage(context, k) {
    const { x, y } = this.floor.at[k], { width, height } = this.floor.chip,
      unit = Math.min(0.7, 2000 / Math.max(width, height));
    if (!this.images.has(k)) {
      const image = document.createElement("canvas");
      image.width = Math.ceil(width * unit);
      image.height = Math.ceil(height * unit);
      const inside = image.getContext("2d");
      inside.scale(unit, unit);
      inside.translate(-x, -y - Floor.HEAD);
      this.drawFree(inside, k);
      this.drawSquares(inside, this.ofChip[k]);
      this.images.set(k, image);
    }
    this.drawn.cores += this.ofChip[k].length;
    context.drawImage(this.images.get(k), x, y + Floor.HEAD, width, height);
  }
  drawFree(context, k, seen = null) {
    const { plan, floor } = this, left = floor.at[k].x + Floor.PAD, top = floor.at[k].y + Floor.HEAD + Floor.PAD;
    const span = (from, to, size, most) =>
      (seen ? [Math.max(0, Math.floor(from / size)), Math.min(most, Math.ceil(to / size))] : [0, most]);
    const [x0, x1] = span(seen && seen.left - left, seen && seen.right - left, floor.tile.width, plan.width),
      [y0, y1] = span(seen && seen.top - top, seen && seen.bottom - top, floor.tile.height, plan.height);
    context.fillStyle = Kit.colour("free");
    for (let y = y0; y < y1; y++)
      for (let x = x0; x < x1; x++) {
        for (let core = 0; core < plan.coresPerTile; core++) {
          if (this.index[this.number({ chip: k, x, y, core })] >= 0) continue;
          const at = Floor.square(floor, { chip: k, x, y, core });
          context.fillRect(at.x, at.y, at.width, at.height);
        }
      }
    context.strokeStyle = Kit.colour("muted");
    context.lineWidth = 1.5;
    context.beginPath();
    for (const place of this.dead[k]) {
      const at = Floor.square(floor, place);
      context.moveTo(at.x + 5, at.y + 5);
      context.lineTo(at.x + 15, at.y + 15);
      context.moveTo(at.x + 15, at.y + 5);
      context.lineTo(at.x + 5, at.y + 15);
    }
    context.stroke();
  }
  drawCores(context, k, seen, px) {
    this.drawFree(context, k, seen);
    const visible = this.ofChip[k].filter((c) =>
      { const s = this.squares[c]; return s.x < seen.right && s.x + s.width > seen.left && s.y < seen.bottom
      && s.y + s.height > seen.top; });
    this.drawSquares(context, visible);
    if (px >= 26) this.drawNumbers(context, visible, px);
    this.drawn.cores += visible.length;
  }
  /** The name of a colour of a core: of its greatest population, or the level of its fill. */
  paint(c) {
    if (this.colour !== "population") return `level${Math.min(4, Math.floor(this.fill(c) * 5))}`;
    const shares = this.shares[c];
    return shares.length ? `c${shares.reduce((a, b) => (b.neurons > a.neurons ? b : a)).population % 8}` : "c7";
  }
  drawSquares(context, cores) {
    const by = new Map(), dim = this.population;
    const put = (name, x, y, w, faint) =>
      { const key = faint ? `~${name}` : name; if (!by.has(key)) by.set(key, []); by.get(key).push(x, y, w); };
    for (const c of cores) {
      const { x, y } = this.squares[c], slices = this.shares[c];
      if (this.colour !== "population" || slices.length < 2) {
        put(this.paint(c), x, y, Floor.CORE, dim !== null && !slices.some((s) => s.population === dim)); continue; }
      const all = slices.reduce((sum, slice) => sum + slice.neurons, 0) || 1, least = 0.09 * all,
        whole = slices.reduce((sum, slice) => sum + Math.max(least, slice.neurons), 0);
      let from = x;
      for (const slice of slices) { const w = (Floor.CORE * Math.max(least, slice.neurons)) / whole;
        put(`c${slice.population % 8}`, from, y, w, dim !== null && slice.population !== dim); from += w; }
    }
    for (const [key, found] of by) {
      context.globalAlpha = key[0] === "~" ? 0.2 : 1;
      context.fillStyle = Kit.colour(key.replace("~", ""));
      for (let k = 0; k < found.length; k += 3) context.fillRect(found[k], found[k + 1], found[k + 2], Floor.CORE);
    }
    context.globalAlpha = 1;
    if (this.colour === "population" && this.plan.populations.length > 8) this.drawTexture(context, cores,
      Floor.CORE * this.stage.camera.scale >= 26);
  }
  /** Colours repeat after eight populations: a line, then a cross tells them apart; small where there are numbers. */
  drawTexture(context, cores, corner) {
    context.strokeStyle = Kit.colour("ink");
    context.globalAlpha = corner ? 0.7 : 0.4;
    context.lineWidth = corner ? 0.9 : 1.2;
    context.beginPath();
    for (const c of cores) {
      const { slices } = this.plan.cores[c], { x, y } = this.squares[c];
      if (!slices.length) continue;
      const round = Math.floor(slices[0].population / 8) % 4;
      const [left, top, size] = corner ? [x + 14.6, y + 14.6, 4] : [x + 3, y + 3, 14];
      if (round === 1 || round === 3) { context.moveTo(left, top + size); context.lineTo(left + size, top); }
      if (round === 2 || round === 3) { context.moveTo(left, top); context.lineTo(left + size, top + size); }
    }
    context.stroke();
    context.globalAlpha = 1;
  }
  drawNumbers(context, cores, px, rim = false) {
    const per = this.plan.width * this.plan.height * this.plan.coresPerTile;
    context.font = Kit.font(px > 60 ? 5.5 : 7.5, 600);
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const c of cores) {
      const { x, y } = this.squares[c], core = this.plan.cores[c];
      context.fillStyle = Kit.colour(Kit.on(this.paint(c)));
      context.lineWidth = 2.2;
      context.strokeStyle = Kit.colour(this.paint(c));
      if (rim) context.strokeText(String(this.number(core) % per), x + 10, y + (px > 60 ? 7 : 10.4));
      context.fillText(String(this.number(core) % per), x + 10, y + (px > 60 ? 7 : 10.4));
      if (px <= 60 || rim) continue;
      context.font = Kit.font(3.6);
      const said = this.colour === "population"
        ? Kit.short(this.plan.populations[core.slices[0] ? core.slices[0].population : 0].name, 30)
        : Kit.percent(this.fill(c));
      context.fillText(Kit.fit(context, core.slices.length ? said : "", 18), x + 10, y + 13.5);
      context.font = Kit.font(5.5, 600);
    }
  }
  drawSelected(context, scale) {
    const here = this.squares[this.selected], { out, in: into } = this.routes[this.selected];
    for (const [routes, name, end] of [[into, "in", "source"], [out, "out", "target"]])
      for (const route of routes) if (route[end] !== null) this.drawRoute(context, here, this.squares[route[end]],
        route, name, scale, end === "target");
    context.strokeStyle = Kit.colour("ink");
    context.lineWidth = 2.5 / scale;
    context.strokeRect(here.x - 1, here.y - 1, here.width + 2, here.height + 2);
    const ends = new Set([...out.map((route) => route.target),
      ...into.map((route) => route.source)].filter((core) => core !== null)), px = Floor.CORE * scale;
    if (px >= 26 && ends.size < 200) this.drawNumbers(context, [...ends, this.selected], px, true);
  }
  drawRoute(context, a, b, route, name, scale, leaves) {
    const [from, to] = leaves ? [a, b] : [b, a], x0 = from.x + 10, y0 = from.y + 10, x1 = to.x + 10, y1 = to.y + 10;
    const wide = (1.3 + 4.7 * Math.sqrt(this.busiest ? route.spikes / this.busiest : 0)) / scale;
    context.lineCap = "round";
    context.beginPath();
    if (from === to) context.arc(x0, y0 - 12, 4, 0, 2 * Math.PI);
    else { const bend = 0.14; context.moveTo(x0, y0);
      context.quadraticCurveTo((x0 + x1) / 2 - (y1 - y0) * bend, (y0 + y1) / 2 + (x1 - x0) * bend, x1, y1); }
    context.strokeStyle = Kit.colour("page");
    context.globalAlpha = 0.75;
    context.lineWidth = wide + 2.5 / scale;
    context.stroke();
    context.globalAlpha = 0.92;
    context.strokeStyle = context.fillStyle = Kit.colour(name);
    context.lineWidth = wide;
    context.stroke();
    context.beginPath();
    if (from !== to) context.arc(x1, y1, Math.max(wide, 3 / scale), 0, 2 * Math.PI);
    context.fill();
    context.globalAlpha = 1;
  }

  // -- hands ---------------------------------------------------------------------------------------------------------

  pick(point) {
    const at = Floor.under(this.floor, this.plan, this.stage.world(point));
    return at && { at, core: this.index[this.number(at)] };
  }
  over(point) {
    const found = Floor.CORE * this.stage.camera.scale >= 3 ? this.pick(point) : null;
    if (!found) { Kit.tip(null); return false; }
    const { at, core } = found, place = this.place(at);
    if (core < 0) { Kit.tip(this.name(at),
      [place, this.dead[at.chip].some(({ x, y, core: n }) => x === at.x && y === at.y && n === at.core) ? "dead"
      : "free"], point.clientX, point.clientY); return false; }
    const { slices } = this.plan.cores[core],
      lines = slices.slice(0, 4).map((slice) =>
      `${Kit.short(this.plan.populations[slice.population].name, 50)}: ${Kit.counted(slice.neurons, "neuron")}`);
    if (slices.length > 4) lines.push(`and ${slices.length - 4} more`);
    if (this.resources.length) lines.push(
      `${this.colour === "population" || this.colour === "fullest" ? "fullest resource" : PlanView.word(this.colour)}: ${Kit.percent(this.colour === "population" ? this.fills[core] : this.fill(core))}`);
    Kit.tip(this.name(at), [place, ...lines], point.clientX, point.clientY);
    return true;
  }
  place({ chip, x, y, core }) {
    const parts = [`x ${x}, y ${y}`];
    if (this.plan.chips > 1) parts.unshift(`chip ${chip}`);
    if (this.plan.coresPerTile > 1) parts.push(`core ${core} of the tile`);
    return parts.join(" · ");
  }
  press(point) {
    if (Floor.CORE * this.stage.camera.scale < 3) { this.enter(point); return; }
    const found = this.pick(point);
    this.select(found && found.core >= 0 ? found.core : null, false);
  }
  /** A click on a folded chip goes to it. */
  enter(point) {
    const { x, y } = this.stage.world(point), { width, height } = this.floor.chip;
    const k = this.floor.at.findIndex((at) => x >= at.x && x <= at.x + width && y >= at.y
      && y <= at.y + height + Floor.HEAD);
    if (k >= 0) this.stage.go(this.stage.framing({ ...this.floor.at[k], width, height: height + Floor.HEAD }, 2.6));
  }
  key(event) {
    if (event.key === "Escape" && this.selected !== null) { this.select(null); return true; }
    if (event.key === "Enter" || event.key === " ") { if (this.selected === null) this.choose(this.middle());
      return true; }
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (this.selected === null || !ways[event.key] || event.shiftKey) return false;
    const here = this.squares[this.selected], [dx, dy] = ways[event.key];
    this.choose(this.nearestTo((s) =>
      { const x = s.x - here.x, y = s.y - here.y, ahead = x * dx + y * dy;
      return ahead <= 1 ? Infinity : ahead + 3 * Math.abs(x * dy + y * dx); }));
    return true;
  }
  middle() {
    const seen = this.stage.seen(), x = (seen.left + seen.right) / 2, y = (seen.top + seen.bottom) / 2;
    return this.nearestTo((s) => Math.hypot(s.x + 10 - x, s.y + 10 - y));
  }
  nearestTo(far) {
    let best = null, least = Infinity;
    this.squares.forEach((square, k) => { const d = far(square); if (d < least) { least = d; best = k; } });
    return best;
  }
  choose(core) { if (core !== null) this.select(core); }
  select(core, moves = true) {
    this.selected = core;
    if (core !== null) {
      if (moves) this.stage.reveal(this.squares[core], 0.9);
      const { slices } = this.plan.cores[core];
      Kit.say(`${this.name(this.plan.cores[core])}, ${this.place(this.plan.cores[core])}: ${slices.map((s) => `${Kit.counted(s.neurons, "neuron")} of ${this.plan.populations[s.population].name}`).join(", ") || "empty"}; ${Kit.counted(this.routes[core].out.length, "route")} out, ${this.routes[core].in.length} in`);
    }
    this.panel();
    this.stage.redraw();
  }
  point(population) {
    this.population = this.population === population ? null : population;
    this.recolour();
    if (this.population !== null && this.on[population].length) {
      const squares = this.on[population].map((k) => this.squares[k]),
        least = (axis) => squares.reduce((a, s) => Math.min(a, s[axis]), Infinity),
        most = (axis) => squares.reduce((a, s) => Math.max(a, s[axis]), -Infinity);
      const box = { x: least("x"), y: least("y"), width: most("x") - least("x") + 20,
        height: most("y") - least("y") + 20 }, to = this.stage.framing(box, Math.max(1.2, this.stage.camera.scale), 60);
      if (to.scale < this.stage.camera.scale
        || box.width * this.stage.camera.scale < this.stage.size.width / 3) this.stage.go(to);
      Kit.say(`${this.plan.populations[population].name} is on ${Kit.counted(squares.length, "core")}`);
    }
    this.selected = null;
    this.panel();
    this.stage.redraw();
  }

  // -- words ---------------------------------------------------------------------------------------------------------

  search(text) {
    const found = [], { populations, cores } = this.plan;
    populations.forEach((p, k) => { const at = p.name.toLowerCase().indexOf(text);
      if (at >= 0) found.push({ rank: at ? 1 : 0, main: p.name, more: Kit.counted(this.on[k].length, "core"),
      act: () => { this.population = null; this.point(k); } }); });
    for (let k = 0; k < cores.length && found.length < 1000; k++) { const name = this.name(cores[k]);
      if (name.toLowerCase().startsWith(text)
      || name.slice(5) === text) found.push(
      { rank: 2, main: name, more: this.place(cores[k]), act: () => this.select(k) }); }
    return found.sort((a, b) => a.rank - b.rank);
  }
  panel() {
    if (this.selected !== null) this.corePanel(this.selected);
    else this.app.overview(this.legend(), this.populationList(), this.coreList());
  }
  legend() {
    if (this.colour === "population") return null;
    return Kit.section("Fill", this.colour === "fullest" ? "fullest resource" : PlanView.word(this.colour),
      Kit.el("div", { class: "scale", "aria-hidden": "true" },
      [0, 1, 2, 3, 4].map((k) => Kit.el("i", { style: { background: `var(--level${k})` } }))),
      Kit.el("p", { class: "ends" }, Kit.el("span", {}, "0 %"), Kit.el("span", {}, "100 %")));
  }
  populationList() {
    const { populations } = this.plan;
    return Kit.section("Populations", Kit.number(populations.length), Kit.pages(populations.length, (k) => ({
      mark: this.swatch(k), main: populations[k].name, more: Kit.counted(this.on[k].length, "core"),
        pressed: this.population === k, act: () => this.point(k),
    }), "Populations", 50, this.population || 0));
  }
  swatch(k) {
    const made = Kit.square(`c${k % 8}`), round = Math.floor(k / 8) % 4,
      line = (angle) => `linear-gradient(${angle}deg, transparent 44%, color-mix(in srgb, var(--ink) 55%, transparent) 44% 56%, transparent 56%)`;
    if (round) made.style.backgroundImage = [round !== 2 ? line(135) : null,
      round !== 1 ? line(45) : null].filter(Boolean).join(", ");
    return made;
  }
  coreList() {
    const { cores } = this.plan, of = this.population === null ? cores.map((_, k) => k) : this.on[this.population];
    return Kit.section("Cores", Kit.number(of.length), Kit.pages(of.length, (j) => this.coreRow(of[j]), "Used cores"));
  }
  coreRow(k) {
    const { slices } = this.plan.cores[k], first = slices[0];
    return { mark: first ? this.swatch(first.population) : null, main: this.name(this.plan.cores[k]),
      more: first ? `${this.plan.populations[first.population].name}${slices.length > 1 ? ` + ${slices.length - 1}` : ""}` : "", act: () => this.select(k) };
  }
  corePanel(k) {
    const core = this.plan.cores[k], { out, in: into } = this.routes[k], { populations } = this.plan;
    const slices = Kit.section("On it", Kit.counted(core.slices.reduce((sum, s) => sum + s.neurons, 0), "neuron"),
      Kit.pages(core.slices.length, (j) => {
      const slice = core.slices[j], box = (slice.box
        || []).map(([from, to]) => (to - from === 1 ? from : `${from}…${to - 1}`)).join(" × ");
      return { mark: this.swatch(slice.population), main: populations[slice.population].name,
        more: box || Kit.number(slice.neurons), act: () => { this.population = null; this.point(slice.population); } };
    }, "Slices on the core", 12));
    const used = Object.keys(core.used).map((name) =>
      this.meter(PlanView.word(name), core.used[name], this.plan.limits[name]));
    this.app.detail(this.name(core), [this.place(core)], () => this.select(null), slices,
      used.length ? Kit.section("Used", null, used) : null,
      this.routeList("Routes out", "out", out, "target"), this.routeList("Routes in", "in", into, "source"));
  }
  meter(name, used, limit) {
    const known = limit !== null && limit !== undefined && limit > 0, share = known ? used / limit : 0;
    return Kit.el("div", { class: "meter" }, Kit.el("span", {}, name),
      Kit.el("span", { class: "n" }, known ? `${Kit.number(used)} of ${Kit.number(limit)}` : Kit.number(used)),
      known ? Kit.el("div", { class: "track", "aria-hidden": "true" },
        Kit.el("div", { class: share >= 0.95 ? "full" : "", style: { width: `${Math.min(100, 100 * share)}%` } }))
        : null);
  }
  routeList(heading, name, routes, end) {
    const sorted = [...routes].sort((a, b) => b.spikes - a.spikes), sum = routes.reduce((all, r) => all + r.spikes, 0);
    const made = Kit.section(heading, routes.length ? `${Kit.number(sum)} spikes per step` : "",
      routes.length ? Kit.pages(sorted.length, (j) => {
      const route = sorted[j], more = `${Kit.number(route.spikes)} · ${Kit.counted(route.hops, "hop")}`;
      return route[end] === null ? { mark: Kit.square("page"), main: route.input, more,
        act: () => Kit.say(`from input ${route.input}`) } : { ...this.coreRow(route[end]), more };
    }, heading, 12) : Kit.el("p", { class: "note" }, "none"));
    made.querySelector("h3 > span").prepend(Kit.el("i", { style: { background: `var(--${name})` } }), " ");
    return made;
  }
}
