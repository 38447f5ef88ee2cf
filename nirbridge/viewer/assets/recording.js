"use strict";
/* A recording: rasters of spikes, counts over time, traces of chosen neurons; one axis of time for all. */
const Events = (() => {
  const SPIKES = /^(s|spikes?|z)$/i;
  const isSpikes = (node) => SPIKES.test(node.variable) || node.values instanceof Uint8Array;

  /**
   * Spikes of one sample. A mark is a neuron's one or more spikes in a step: `neurons` and `sizes` of marks in the order
   * of steps, `starts`: where each step begins; `at`: spikes of each step, `per`: of each neuron, `count`: of all.
   */
  function events(node, sample) {
    const samples = node.samples || 1, { steps, size, values } = node, starts = new Uint32Array(steps + 1),
      per = new Float64Array(size), at = new Float64Array(steps);
    let marks = 0;
    for (let t = 0; t < steps; t++) {
      const from = (t * samples + sample) * size;
      for (let n = 0; n < size; n++) if (values[from + n]) marks += 1;
      starts[t + 1] = marks;
    }
    const neurons = new Uint32Array(marks), sizes = new Float64Array(marks);
    for (let t = 0, k = 0; t < steps; t++) {
      const from = (t * samples + sample) * size;
      for (let n = 0; n < size; n++) if (values[from + n]) {
        const spikes = Number.isInteger(values[from + n]) ? values[from + n] : 1; // a graded spike is one
        neurons[k] = n; sizes[k++] = spikes; per[n] += spikes; at[t] += spikes;
      }
    }
    return { starts, neurons, sizes, per, at, count: at.reduce((all, n) => all + n, 0),
      busiest: at.reduce((most, n) => Math.max(most, n), 0) };
  }

  /** The spikes of a neuron in a step. */
  function spikes({ starts, neurons, sizes }, step, neuron) {
    for (let k = starts[step]; k < starts[step + 1]; k++) if (neurons[k] === neuron) return sizes[k];
    return 0;
  }
  return { isSpikes, events, spikes };
})();

/** The height of the axis of time. */
const TIME_AXIS = 42;

class RecordingView {
  constructor(app, recording, host) {
    this.app = app;
    this.recording = recording;
    this.sample = 0;
    this.selected = null;
    this.cursor = null;
    this.picked = [];
    this.known = new Map();
    this.images = new Map();
    this.height = 0;
    this.drawn = { bands: 0, marks: 0 };
    this.samples = Math.max(1, ...recording.nodes.map((node) => node.samples || 1));
    this.names = [...new Set(recording.nodes.map((node) => node.name))];
    const traced = new Map(recording.nodes.filter((node) => !Events.isSpikes(node)).map((node) => [node.name, node]));
    for (const node of traced.values()) for (const neuron of this.busiest(node)) this.picked.push({ name: node.name, neuron });
    this.stage = new Timeline(host, `Recording of ${Kit.counted(recording.steps, "time step")}. Left and right arrow keys pan, plus and minus zoom in time, Enter reads time steps out; the populations are listed beside it.`, this);
    this.tools(host);
  }
  tools(host) {
    const tools = Kit.el("div", { class: "tools" }, this.stage.buttons());
    if (this.samples > 1) {
      const input = Kit.el("input", { type: "number", min: 0, max: this.samples - 1, value: 0, on: { change: () => {
        this.sample = Math.min(this.samples - 1, Math.max(0, Math.floor(Number(input.value)) || 0));
        input.value = String(this.sample);
        this.known.clear();
        this.images.clear();
        this.panel();
        this.stage.redraw();
      } } });
      tools.append(Kit.el("div", { class: "set" },
        Kit.el("label", {}, "Sample", input, `0 to ${Kit.number(this.samples - 1)}`)));
    }
    host.append(tools);
  }
  recolour() { this.images.clear(); }
  bounds() { return { x: 0, y: 0, width: this.recording.steps, height: this.height }; }
  events(node) {
    if (!this.known.has(node)) this.known.set(node,
      Events.events(node, Math.min(this.sample, (node.samples || 1) - 1)));
    return this.known.get(node);
  }
  /** The three neurons with the most spikes; the first three where no spikes are recorded. */
  busiest({ name, size }) {
    const spiking = this.recording.nodes.find((node) => node.name === name && Events.isSpikes(node) && node.size === size),
      per = spiking ? this.events(spiking).per : new Float64Array(size);
    return [...per.keys()].sort((a, b) => per[b] - per[a] || a - b).slice(0, 3);
  }
  value(node, step, neuron) { const samples = node.samples || 1;
    return Number(node.values[(step * samples + Math.min(this.sample, samples - 1)) * node.size + neuron]); }

  // -- places --------------------------------------------------------------------------------------------------------

  /** Bands from the top down: of spikes a heading, counts and a raster; of others a heading and traces. */
  bands() {
    const { nodes } = this.recording, room = this.stage.size.height - TIME_AXIS - 66,
      wants = nodes.map((node) => (Events.isSpikes(node) ? Math.max(26, Math.min(240, node.size * 5)) : 110));
    const fixed = nodes.map((node) => 28 + (Events.isSpikes(node) ? 34 : 0) + 20),
      sum = wants.reduce((a, b) => a + b, 0), spare = room - fixed.reduce((a, b) => a + b, 0);
    const grow = spare > sum ? Math.min(3, spare / sum) : 1;
    let y = TIME_AXIS + 4;
    const bands = nodes.map((node, k) => {
      const spikes = Events.isSpikes(node),
        band = { node, spikes, y, counts: y + 28, top: y + 28 + (spikes ? 34 : 0),
        height: Math.round(wants[k] * grow) };
      y = band.top + band.height + 20;
      return band;
    });
    this.height = y + 62;
    return bands;
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  draw(context, camera, size) {
    this.placed = this.bands();
    this.stage.keep();
    this.drawn = { bands: 0, marks: 0 };
    context.fillStyle = Kit.colour("page");
    context.fillRect(0, 0, size.width, size.height);
    context.save();
    context.translate(0, -camera.y);
    for (const band of this.placed) {
      if (band.top + band.height < camera.y || band.y > camera.y + size.height) continue;
      this.drawn.bands += 1;
      this.drawHeading(context, band, size);
      if (band.spikes) { this.drawCounts(context, band); this.drawRaster(context, band); this.drawPicks(context, band);
        } else this.drawTraces(context, band);
    }
    context.restore();
    this.drawTime(context, size);
    if (this.cursor !== null) this.drawCursor(context, size);
    if (this.height > size.height) { context.fillStyle = Kit.colour("line"); context.beginPath();
      context.roundRect(size.width - 8, TIME_AXIS + 4 + (camera.y / this.height) * (size.height - TIME_AXIS - 8), 5,
      Math.max(24, ((size.height - TIME_AXIS - 8) * size.height) / this.height), 3); context.fill(); }
  }
  drawHeading(context, { node, spikes, y }, size) {
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.font = Kit.font(13, 600);
    context.fillStyle = Kit.colour(this.selected === node ? "accent" : "text");
    const name = Kit.fit(context, Kit.short(node.name, 80), size.width * 0.5), wide = context.measureText(name).width;
    context.fillText(name, this.stage.left, y + 18);
    context.font = Kit.font(12);
    context.fillStyle = Kit.colour("muted");
    const picks = this.of(node).slice(0, 8),
      said = spikes ? `${Kit.counted(node.size, "neuron")} · ${Kit.counted(this.events(node).count, "spike")}`
      : `${node.variable} of ${picks.length ? "neuron" : "no chosen neuron"}`;
    let x = this.stage.left + wide + 12;
    const put = (text) => { context.fillText(Kit.fit(context, text, size.width - x - 16), x, y + 18);
      x += context.measureText(text).width + 7; };
    put(said);
    context.font = Kit.font(12, 650);
    if (!spikes) for (const pick of picks) { context.fillStyle = Kit.colour(this.tone(pick));
      put(String(pick.neuron)); }
  }
  range() {
    const { x, scale } = this.stage.camera;
    return [Math.max(0, Math.floor(x)), Math.min(this.recording.steps, Math.ceil(x + this.stage.room / scale))];
  }
  frame(context, top, height) {
    context.fillStyle = Kit.colour("stage");
    context.fillRect(this.stage.left, top, this.stage.room, height);
  }
  clipped(context, top, height, act) {
    context.save();
    context.beginPath();
    context.rect(this.stage.left, top, this.stage.room, height);
    context.clip();
    act();
    context.restore();
  }
  /** Spikes per time step; a column of pixels shows the greatest of its steps. */
  drawCounts(context, { node, counts }) {
    const { at, busiest } = this.events(node), [from, to] = this.range(), height = 28,
      { scale } = this.stage.camera;
    context.fillStyle = Kit.colour("level2");
    let last = -1, most = 0;
    const put = () => { const size = busiest ? (height * most) / busiest : 0;
      if (size) context.fillRect(this.stage.left + last, counts + height - Math.max(1, size),
      Math.max(1, scale < 3 ? scale : scale - 1), Math.max(1, size)); };
    this.clipped(context, counts, height, () => {
      for (let t = from; t < Math.min(to, node.steps); t++) {
        const x = scale < 1 ? Math.floor((t - this.stage.camera.x) * scale) : (t - this.stage.camera.x) * scale,
          n = at[t];
        if (scale < 1 && x === last) { most = Math.max(most, n); continue; }
        put();
        last = x;
        most = n;
      }
      put();
    });
    context.font = Kit.font(10.5);
    context.fillStyle = Kit.colour("muted");
    context.textAlign = "right";
    context.fillText(Kit.number(busiest), this.stage.left - 8, counts + 9);
    context.fillText("per step", this.stage.left - 8, counts + 24);
  }
  drawRaster(context, band) {
    const { node, top, height } = band, { scale } = this.stage.camera, row = height / node.size;
    this.frame(context, top, height);
    if (row >= 2.5 && scale >= 2) this.drawMarks(context, band, row);
    else context.drawImage(this.binned(node, height), this.stage.left, top, this.stage.room, height);
    context.font = Kit.font(10.5);
    context.fillStyle = Kit.colour("muted");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText("0", this.stage.left - 8, top + Math.min(6, row / 2));
    if (node.size > 1) context.fillText(Kit.number(node.size - 1), this.stage.left - 8,
      top + height - Math.min(6, row / 2));
    context.textBaseline = "alphabetic";
  }
  drawMarks(context, { node, top, height }, row) {
    const { starts, neurons } = this.events(node), [from, to] = this.range(), { scale } = this.stage.camera,
      wide = Math.max(1.5, Math.min(scale - 1, 14)), tall = Math.max(1.5, Math.min(row - (row > 5 ? 2 : 0.5), 14));
    context.fillStyle = Kit.colour("fill");
    this.clipped(context, top, height, () => {
      for (let t = from; t < Math.min(to, node.steps); t++) {
        const x = this.stage.across(t + 0.5) - wide / 2;
        for (let k = starts[t]; k < starts[t + 1]; k++) context.fillRect(x, top + (neurons[k] + 0.5) * row - tall / 2,
          wide, tall);
        this.drawn.marks += starts[t + 1] - starts[t];
      }
    });
  }
  /** A picture of bins of time and neurons: no spike is left out, more spikes are darker. */
  binned(node, height) {
    const { x, scale } = this.stage.camera, ratio = Math.min(2, window.devicePixelRatio || 1),
      across = Math.max(1, Math.round(Math.min(this.stage.room * ratio, 4000))),
      down = Math.max(1, Math.min(Math.round(height * ratio), node.size)),
      key = `${x}|${scale}|${across}|${down}|${this.sample}`;
    const kept = this.images.get(node);
    if (kept && kept.key === key) return kept.image;
    const { starts, neurons, sizes } = this.events(node), [from, to] = this.range(), counts = new Uint32Array(across * down),
      per = across / this.stage.room, wide = scale * per, gap = wide >= 5 ? Math.floor(wide * 0.2) : 0;
    for (let t = from; t < Math.min(to, node.steps); t++) {
      const column = Math.floor((t - x) * wide), end = Math.max(column + 1, Math.floor((t + 1 - x) * wide) - gap);
      for (let k = starts[t]; k < starts[t + 1]; k++) {
        const line = Math.floor((neurons[k] * down) / node.size) * across;
        for (let c = Math.max(0, column); c < Math.min(across, end); c++) counts[line + c] += sizes[k];
      }
      this.drawn.marks += starts[t + 1] - starts[t];
    }
    const image = document.createElement("canvas"), data = new ImageData(across, down),
      points = new Uint32Array(data.data.buffer), [red, green, blue] = Kit.channels("fill");
    let most = 1;
    for (let k = 0; k < counts.length; k++) if (counts[k] > most) most = counts[k];
    image.width = across;
    image.height = down;
    const ink = (blue << 16) | (green << 8) | red;
    for (let k = 0; k < counts.length;
      k++) if (counts[k]) points[k] = (((70 + 185 * Math.sqrt(counts[k] / most)) << 24) | ink) >>> 0;
    image.getContext("2d").putImageData(data, 0, 0);
    this.images.set(node, { key, image });
    return image;
  }
  of(node) { return this.picked.filter((pick) => pick.name === node.name && pick.neuron < node.size); }
  tone(pick) { return `t${this.picked.filter((each) => each.name === pick.name).indexOf(pick) % 6}`; }
  drawPicks(context, { node, top, height }) {
    const row = height / node.size;
    for (const pick of this.of(node)) {
      const y = top + (pick.neuron + 0.5) * row;
      context.fillStyle = Kit.colour(this.tone(pick));
      context.beginPath();
      context.moveTo(this.stage.left, y);
      context.lineTo(this.stage.left - 6, y - 4);
      context.lineTo(this.stage.left - 6, y + 4);
      context.fill();
    }
  }
  drawTraces(context, { node, top, height }) {
    const picks = this.of(node), { low, high, unit } = this.scaleOf(node, picks), [from, to] = this.range(),
      y = (v) => top + height - 6 - ((v - low) / (high - low)) * (height - 12);
    this.frame(context, top, height);
    context.font = Kit.font(10.5);
    context.textBaseline = "middle";
    for (let v = Math.ceil(low / unit) * unit; v <= high + unit * 1e-6; v += unit) {
      context.fillStyle = Kit.colour(Math.abs(v) < unit * 1e-6 ? "edge" : "track");
      context.fillRect(this.stage.left, y(v) - 0.5, this.stage.room, 1);
      context.fillStyle = Kit.colour("muted");
      context.textAlign = "right";
      context.fillText(Kit.number(Math.abs(v) < unit * 1e-6 ? 0 : Number(v.toPrecision(6))), this.stage.left - 8, y(v));
    }
    context.textBaseline = "alphabetic";
    context.lineJoin = "round";
    this.clipped(context, top, height,
      () => { for (const pick of picks) this.drawTrace(context, node, pick, from, to, y); });
  }
  /** A line through every step; of a column of pixels with many steps the least and the greatest. */
  drawTrace(context, node, pick, from, to, y) {
    context.strokeStyle = Kit.colour(this.tone(pick));
    context.lineWidth = 1.6;
    context.beginPath();
    let column = -1, low = 0, high = 0;
    for (let t = Math.max(0, from - 1); t < Math.min(to + 1, node.steps); t++) {
      const v = this.value(node, t, pick.neuron), x = this.stage.across(t + 0.5);
      if (!Number.isFinite(v)) continue;
      if (this.stage.camera.scale >= 0.5) { context.lineTo(x, y(v)); continue; }
      if (Math.floor(x) !== column) { if (column >= 0) { context.lineTo(column + 0.5, y(low));
        context.lineTo(column + 0.5, y(high)); } column = Math.floor(x); low = high = v; }
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    context.stroke();
  }
  /** The span of the chosen neurons, and steps of an axis that are 1, 2 or 5. */
  scaleOf(node, picks) {
    const key = `${this.sample}|${picks.map((p) => p.neuron).join()}`;
    this.scales ||= new Map();
    if (this.scales.get(node)?.key !== key) {
      let low = Infinity, high = -Infinity;
      for (const pick of picks) for (let t = 0; t < node.steps; t++) { const v = this.value(node, t, pick.neuron);
        if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); } }
      if (!(high >= low)) { low = 0; high = 1; }
      if (high === low) { low -= 0.5; high += 0.5; }
      const raw = (high - low) / 4, ten = 10 ** Math.floor(Math.log10(raw)),
        unit = [1, 2, 5, 10].map((m) => m * ten).find((u) => u >= raw);
      this.scales.set(node, { key, low, high, unit });
    }
    return this.scales.get(node);
  }
  drawTime(context, size) {
    const { scale } = this.stage.camera, raw = 90 / scale, ten = 10 ** Math.floor(Math.log10(raw)),
      unit = Math.max(1, [1, 2, 5, 10].map((m) => m * ten).find((u) => u >= raw)), [from, to] = this.range();
    context.fillStyle = Kit.colour("page");
    context.fillRect(0, 0, size.width, TIME_AXIS);
    context.fillStyle = Kit.colour("line");
    context.fillRect(0, TIME_AXIS, size.width, 1);
    context.font = Kit.font(11.5);
    context.textBaseline = "alphabetic";
    context.fillStyle = Kit.colour("muted");
    context.textAlign = "right";
    context.fillText("step", this.stage.left - 8, 16);
    context.font = Kit.font(10.5);
    if (this.recording.dt) context.fillText("time", this.stage.left - 8, 30);
    for (let t = Math.ceil(from / unit) * unit; t <= to; t += unit) {
      const x = this.stage.across(t + (scale > 8 ? 0.5 : 0));
      if (x < this.stage.left - 1 || x > this.stage.left + this.stage.room + 1) continue;
      context.textAlign = x > size.width - 70 ? "right" : x < this.stage.left + 20 ? "left" : "center";
      context.font = Kit.font(11.5);
      context.fillStyle = Kit.colour("text");
      context.fillText(Kit.number(t), x, 16);
      context.font = Kit.font(10.5);
      context.fillStyle = Kit.colour("muted");
      if (this.recording.dt) context.fillText(this.time(t), x, 30);
      context.fillStyle = Kit.colour("edge");
      context.fillRect(x, TIME_AXIS - 5, 1, 5);
    }
  }
  time(t) { const s = t * this.recording.dt; if (!s) return "0";
    return s < 1 ? `${Kit.number(Number((s * 1e3).toPrecision(5)))} ms` : `${Kit.number(Number(s.toPrecision(5)))} s`; }
  drawCursor(context, size) {
    const x = this.stage.across(this.cursor + 0.5);
    if (x < this.stage.left || x > this.stage.left + this.stage.room) return;
    context.fillStyle = Kit.colour("out");
    context.fillRect(x - 0.5, TIME_AXIS, 1, size.height);
  }

  // -- hands ---------------------------------------------------------------------------------------------------------

  spot(point) {
    const y = point.y + this.stage.camera.y, step = Math.floor(this.stage.step(point.x));
    if (point.x < this.stage.left || step < 0 || step >= this.recording.steps || point.y < TIME_AXIS) return null;
    const band = (this.placed || []).find((b) => y >= b.y && y < b.top + b.height + 12);
    return { step, band, neuron: band && band.spikes && y >= band.top && y < band.top + band.height
      ? Math.floor(((y - band.top) * band.node.size) / band.height) : null };
  }
  over(point) {
    const at = this.spot(point);
    if (!at || !at.band) { this.cursor = null; Kit.tip(null); this.stage.redraw(); return false; }
    this.cursor = at.step;
    const { node, spikes } = at.band,
      lines = [`step ${Kit.number(at.step)}${this.recording.dt ? ` · ${this.time(at.step)}` : ""}`];
    if (spikes && at.step < node.steps) {
      const events = this.events(node);
      if (at.neuron !== null) lines.push(`neuron ${Kit.number(at.neuron)}: ${Kit.counted(
        Events.spikes(events, at.step, at.neuron), "spike")} here, ${Kit.number(events.per[at.neuron])} in all`);
      lines.push(`${Kit.counted(events.at[at.step], "spike")} in this step`);
    } else if (at.step < node.steps) for (const pick of this.of(node).slice(0, 6)) lines.push(
      `neuron ${pick.neuron}: ${Kit.number(this.value(node, at.step, pick.neuron))}`);
    Kit.tip(node.name, lines, point.clientX, point.clientY);
    this.stage.redraw();
    return at.neuron !== null;
  }
  leave() { this.cursor = null; this.stage.redraw(); }
  press(point) {
    const at = this.spot(point);
    if (!at || !at.band) { this.select(null); return; }
    if (at.neuron !== null) this.pick(at.band.node.name, at.neuron);
    this.select(at.band.node, false);
  }
  pick(name, neuron) {
    const at = this.picked.findIndex((each) => each.name === name && each.neuron === neuron);
    if (at >= 0) this.picked.splice(at, 1);
    else this.picked.push({ name, neuron });
    Kit.say(`neuron ${neuron} of ${name} ${at >= 0 ? "is no longer chosen" : "chosen"}`);
    this.stage.redraw();
  }
  key(event) {
    if (event.key === "Escape") { const had = this.cursor !== null || this.selected; this.cursor = null;
      this.select(null); return Boolean(had); }
    if (event.key === "Enter") { this.read(Math.floor(this.stage.step(this.stage.left + this.stage.room / 2)));
      return true; }
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (this.cursor === null || !by || event.shiftKey) return false;
    this.read(Math.max(0, Math.min(this.recording.steps - 1, this.cursor + by)));
    return true;
  }
  /** A time step in words, and the line at it. */
  read(step) {
    this.cursor = step;
    const [from, to] = this.range();
    if (step < from || step >= to) { this.stage.camera.x = step - (to - from) / 2; this.stage.keep(); }
    const said = this.recording.nodes.filter((node) => step < node.steps).map((node) => Events.isSpikes(node)
      ? `${node.name} ${Kit.counted(this.events(node).at[step], "spike")}`
        : this.of(node).map((p) => `${node.name} ${node.variable} of neuron ${p.neuron} ${Kit.number(this.value(node, step, p.neuron))}`).join(", "));
    Kit.say(`step ${step}: ${said.filter(Boolean).join(", ")}`);
    this.stage.redraw();
  }
  select(node, moves = true) {
    this.selected = node;
    if (node && moves) { const band = (this.placed || this.bands()).find((each) => each.node === node);
      this.stage.camera.y = band.y - TIME_AXIS - 4; this.stage.keep(); }
    if (node) Kit.say(`${node.name}, ${node.variable}, ${Kit.counted(node.size, "neuron")}`);
    this.panel();
    this.stage.redraw();
  }

  // -- words ---------------------------------------------------------------------------------------------------------

  search(text) {
    return this.recording.nodes.filter((node) => node.name.toLowerCase().includes(text)).map((node) =>
      ({ main: node.name, more: node.variable, act: () => this.select(node) }));
  }
  panel() {
    if (this.selected) this.nodePanel(this.selected);
    else this.app.overview(this.nodeList(), this.pickList());
  }
  nodeList() {
    const { nodes } = this.recording;
    return Kit.section("Recorded", Kit.number(nodes.length), Kit.pages(nodes.length, (k) => ({
      mark: Kit.square(Events.isSpikes(nodes[k]) ? "fill" : "t1"), main: nodes[k].name,
        more: Events.isSpikes(nodes[k]) ? Kit.counted(this.events(nodes[k]).count, "spike") : nodes[k].variable,
        act: () => this.select(nodes[k]),
    }), "Recorded"));
  }
  pickList(name = null) {
    const shown = this.picked.filter((pick) => name === null || pick.name === name);
    if (!shown.length) return Kit.section("Chosen neurons", null,
      Kit.el("p", { class: "note" }, this.recording.nodes.some((node) => !Events.isSpikes(node))
      ? "A click on a raster chooses a neuron; its traces are drawn." : "A click on a raster chooses a neuron."));
    return Kit.section("Chosen neurons", "click to remove", Kit.pages(shown.length, (k) => ({
      mark: Kit.square(this.tone(shown[k])), main: `neuron ${Kit.number(shown[k].neuron)}`, more: shown[k].name,
        act: () => { this.pick(shown[k].name, shown[k].neuron); this.panel(); },
    }), "Chosen neurons", 12));
  }
  adder(node) {
    const input = Kit.el("input", { type: "number", min: 0, max: node.size - 1, value: 0, "aria-label": "Neuron" });
    const add = () => { const n = Math.min(node.size - 1, Math.max(0, Math.floor(Number(input.value)) || 0));
      if (!this.of(node).some((p) => p.neuron === n)) this.pick(node.name, n); this.panel(); };
    return Kit.el("form", { class: "set adder", on: { submit: (event) => { event.preventDefault(); add(); } } },
      Kit.el("label", {}, "Neuron", input), Kit.el("button", { type: "submit" }, "Choose"));
  }
  nodePanel(node) {
    const pairs = [["neurons", `${Kit.number(node.size)}${node.shape && node.shape.length > 1 ? ` (${node.shape.join(" × ")})` : ""}`], ["time steps", Kit.number(node.steps)]], sections = [];
    if (Events.isSpikes(node)) {
      const { per, count } = this.events(node), silent = per.reduce((n, c) => n + (c === 0), 0),
        order = [...per.keys()].sort((a, b) => per[b] - per[a] || a - b);
      pairs.push(["spikes", Kit.number(count)], ["per neuron", Kit.number(count / node.size)]);
      if (this.recording.dt) pairs.push(
        ["mean rate", `${Kit.number(Number((count / node.size / (node.steps * this.recording.dt)).toPrecision(3)))} Hz`]);
      pairs.push(["silent", `${Kit.number(silent)} (${Kit.percent(silent / node.size)})`]);
      sections.push(Kit.section("Neurons", "most spikes first", Kit.pages(order.length, (k) => ({
        mark: Kit.square(this.of(node).some((p) => p.neuron === order[k])
          ? this.tone(this.of(node).find((p) => p.neuron === order[k])) : "track"),
          main: `neuron ${Kit.number(order[k])}`, more: Kit.counted(per[order[k]], "spike"),
          pressed: this.of(node).some((p) => p.neuron === order[k]),
          act: () => { this.pick(node.name, order[k]); this.panel(); },
      }), "Neurons", 20)));
    }
    this.app.detail(node.name, [`recorded: ${node.variable}`], () => this.select(null),
      Kit.el("section", {}, Kit.facts(pairs)), this.pickList(node.name), this.adder(node), ...sections);
  }
}
