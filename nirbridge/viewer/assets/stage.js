"use strict";
/* A canvas with a camera: drag, wheel, two fingers and keys move it; it draws on the next frame, once, and only when
 * something changed. */
class Stage {
  /** `does` has draw(context, camera, size), bounds() -> {x, y, width, height}, and may have home(), over(point),
   *  press(point), key(event), leave(). */
  constructor(host, label, does) {
    this.does = does;
    this.canvas = Kit.el("canvas", { tabindex: "0", role: "application", "aria-label": label,
      "aria-describedby": "status" });
    host.append(this.canvas);
    this.camera = { x: 0, y: 0, scale: 1 };
    this.size = { width: 1, height: 1 };
    this.least = 0.02;
    this.most = 4;
    this.frames = 0;
    this.asked = 0;
    this.held = new Map();
    this.moved = false;
    this.flight = null;
    this.ready = false;
    new ResizeObserver(() => this.resize()).observe(host);
    this.listen();
  }

  listen() {
    const on = (name, act, options) => this.canvas.addEventListener(name, act, options);
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.held.delete(event.pointerId));
    on("pointerleave", () => { Kit.tip(null); if (this.does.leave) this.does.leave(); });
    on("wheel", (event) => this.wheel(event), { passive: false });
    on("keydown", (event) => this.key(event));
    if (this.does.doubles) on("dblclick", (event) => this.zoom(event.shiftKey ? 0.5 : 2, this.place(event)));
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return;
    const before = this.size;
    this.size = { width: box.width, height: box.height };
    if (!this.ready) { this.ready = true; this.home(); }
    else {
      this.camera.x += (before.width - box.width) / 2 / this.camera.scale;
      this.camera.y += (before.height - box.height) / 2 / this.camera.scale;
    }
    this.redraw();
  }

  /** The first look: what `does.home` says, else everything. */
  home() { if (this.does.home) this.does.home(); else this.fit(false); }

  redraw() {
    if (!this.asked) this.asked = requestAnimationFrame((now) => { this.asked = 0; this.frame(now); });
  }

  frame(now) {
    if (this.flight) this.fly(now);
    if (!this.ready || !this.canvas.isConnected) return;
    const context = Kit.sharpen(this.canvas, this.size.width, this.size.height);
    context.clearRect(0, 0, this.size.width, this.size.height);
    this.does.draw(context, this.camera, this.size);
    this.frames += 1;
  }

  /** The part of the world that is seen. */
  seen(margin = 0) {
    const { x, y, scale } = this.camera;
    return { left: x - margin, top: y - margin, right: x + this.size.width / scale + margin,
      bottom: y + this.size.height / scale + margin };
  }
  world(point) { return { x: this.camera.x + point.x / this.camera.scale,
    y: this.camera.y + point.y / this.camera.scale }; }
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top, clientX: event.clientX, clientY: event.clientY };
  }

  /** The whole of a box in the window, with a margin. */
  framing(box, most = 1, margin = 40) {
    const scale = Math.max(this.least,
      Math.min(most, (this.size.width - 2 * margin) / box.width, (this.size.height - 2 * margin - 30) / box.height));
    return { scale, x: box.x + box.width / 2 - this.size.width / 2 / scale,
      y: box.y + box.height / 2 - (this.size.height - 30) / 2 / scale };
  }
  fit(flying = true) { this.go(this.framing(this.does.bounds(), this.does.nearest || 1.4), flying); }
  go(camera, flying = true) {
    if (!flying || Kit.still()) { this.flight = null; Object.assign(this.camera, camera); this.redraw(); return; }
    this.flight = { from: { ...this.camera }, to: camera, start: null };
    this.redraw();
  }
  /** A flight keeps what is in the middle on a straight way. */
  fly(now) {
    const { from, to } = this.flight;
    if (this.flight.start === null) this.flight.start = now;
    const t = Math.min(1, (now - this.flight.start) / 260), e = 1 - (1 - t) ** 3;
    const middle = (c, side) => c[side === "width" ? "x" : "y"] + this.size[side] / 2 / c.scale;
    const scale = from.scale * (to.scale / from.scale) ** e;
    this.camera.scale = scale;
    for (const [axis, side] of [["x", "width"], ["y", "height"]])
      this.camera[axis] = middle(from, side) + (
        middle(to, side) - middle(from, side)) * e - this.size[side] / 2 / scale;
    if (t < 1) this.redraw();
    else this.flight = null;
  }
  /** The box in the middle, at a scale that can be read; no move where it is seen well already. */
  reveal(box, scale = null, force = false) {
    const now = this.flight ? this.flight.to : this.camera;
    const to = scale === null ? now.scale : Math.max(now.scale, scale);
    const right = now.x + this.size.width / now.scale, bottom = now.y + this.size.height / now.scale;
    const inside = box.x >= now.x && box.y >= now.y && box.x + box.width <= right && box.y + box.height <= bottom;
    if (inside && to === now.scale && !force) { this.redraw(); return; }
    this.go({ scale: to, x: box.x + box.width / 2 - this.size.width / 2 / to,
      y: box.y + box.height / 2 - this.size.height / 2 / to });
  }
  zoom(by, at = { x: this.size.width / 2, y: this.size.height / 2 }) {
    this.flight = null;
    const fixed = this.world(at);
    this.camera.scale = Math.min(this.most, Math.max(this.least, this.camera.scale * by));
    this.camera.x = fixed.x - at.x / this.camera.scale;
    this.camera.y = fixed.y - at.y / this.camera.scale;
    this.redraw();
  }
  pan(x, y) {
    this.flight = null;
    this.camera.x += x / this.camera.scale;
    this.camera.y += y / this.camera.scale;
    this.keep();
    this.redraw();
  }
  /** Something stays in the window. */
  keep() {
    const box = this.does.bounds(), seen = this.seen(), slack = 60 / this.camera.scale;
    if (seen.right < box.x + slack) this.camera.x += box.x + slack - seen.right;
    if (seen.left > box.x + box.width - slack) this.camera.x -= seen.left - (box.x + box.width - slack);
    if (seen.bottom < box.y + slack) this.camera.y += box.y + slack - seen.bottom;
    if (seen.top > box.y + box.height - slack) this.camera.y -= seen.top - (box.y + box.height - slack);
  }

  down(event) {
    if (event.button > 1) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.held.set(event.pointerId, this.place(event));
    this.moved = this.held.size > 1;
    this.flight = null;
  }
  move(event) {
    const point = this.place(event), last = this.held.get(event.pointerId);
    if (!last) { this.hover(point); return; }
    if (this.held.size === 1) {
      if (!this.moved && Math.hypot(point.x - last.x, point.y - last.y) < 4) return;
      this.moved = true;
      Kit.tip(null);
      this.canvas.classList.add("held");
      this.pan(last.x - point.x, last.y - point.y);
    } else this.pinch(event.pointerId, point);
    this.held.set(event.pointerId, point);
  }
  pinch(id, point) {
    const [other] = [...this.held].filter(([key]) => key !== id).map(([, value]) => value), last = this.held.get(id);
    const before = Math.hypot(last.x - other.x, last.y - other.y),
      after = Math.hypot(point.x - other.x, point.y - other.y);
    this.pan((last.x - point.x) / 2, (last.y - point.y) / 2);
    if (before > 1) this.zoom(after / before, { x: (point.x + other.x) / 2, y: (point.y + other.y) / 2 });
  }
  up(event) {
    if (!this.held.delete(event.pointerId)) return;
    this.canvas.classList.remove("held");
    if (!this.moved && this.does.press) this.does.press(this.place(event), event);
    this.moved = this.held.size > 0;
  }
  hover(point) {
    const over = this.does.over ? this.does.over(point) : false;
    this.canvas.classList.toggle("over", Boolean(over));
  }
  /** A wheel of a mouse zooms; two fingers on a pad pan, and zoom where they pinch. */
  wheel(event) {
    event.preventDefault();
    Kit.tip(null);
    const mouse = event.deltaMode !== 0 || (event.deltaX === 0 && Math.abs(event.deltaY) >= 50);
    if (event.ctrlKey || mouse) this.zoom(
      Math.exp(-Math.max(-240, Math.min(240, event.deltaY * (event.deltaMode ? 30 : 1))) * (event.ctrlKey && !mouse
      ? 0.01 : 0.0018)), this.place(event));
    else this.pan(event.deltaX, event.deltaY);
  }
  key(event) {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    if (this.does.key && this.does.key(event)) { event.preventDefault(); return; }
    const step = event.shiftKey ? 320 : 80;
    const acts = {
      ArrowLeft: () => this.pan(-step, 0), ArrowRight: () => this.pan(step, 0), ArrowUp: () => this.pan(0, -step),
        ArrowDown: () => this.pan(0, step),
      "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), _: () => this.zoom(0.8),
        0: () => this.fit(),
    };
    if (!acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
  }
  /** The buttons that every picture has. */
  buttons() {
    return Kit.el("div", { class: "set" }, Kit.button("Zoom out", "minus", () => this.zoom(0.8)),
      Kit.button("Zoom in", "plus", () => this.zoom(1.25)), Kit.button("Show everything", "fit", () => this.fit()),
      Kit.button("Save the picture as PNG", "save", () => this.save()));
  }
  /** What a saved picture shows: everything, at a scale that can be read, as far as a canvas has room. */
  whole() {
    const box = this.does.bounds(), margin = 24, room = 6000;
    const scale = Math.min(Math.max(1, this.camera.scale), room / (box.width + 2 * margin),
      room / (box.height + 2 * margin));
    return { camera: { x: box.x - margin / scale, y: box.y - margin / scale, scale },
      size: { width: box.width * scale + 2 * margin, height: box.height * scale + 2 * margin } };
  }
  /** Downloads the picture as PNG. */
  save() {
    const { camera, size } = this, canvas = document.createElement("canvas");
    Object.assign(this, this.whole());
    const sharp = Math.max(1, Math.min(2, 6000 / Math.max(this.size.width, this.size.height)));
    canvas.width = Math.ceil(this.size.width * sharp);
    canvas.height = Math.ceil(this.size.height * sharp);
    const context = canvas.getContext("2d");
    context.fillStyle = Kit.colour("stage");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.scale(sharp, sharp);
    try { this.does.draw(context, this.camera, this.size); } finally { Object.assign(this, { camera, size }); }
    this.redraw();
    canvas.toBlob((data) => {
      const link = Kit.el("a", { href: URL.createObjectURL(data), download: `${this.does.app.document.title}.png` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
    Kit.say("the picture is saved");
  }
}

/** A stage whose camera is a span of time across and a scroll down. */
class Timeline extends Stage {
  get left() { return 62; }
  get room() { return Math.max(20, this.size.width - this.left - 16); }
  get steps() { return this.does.recording.steps; }
  resize() {
    const was = this.room, { scale } = this.camera, before = this.ready;
    super.resize();
    if (before && was !== this.room) { this.camera.scale = (scale * this.room) / was; this.keep(); this.redraw(); }
  }
  fit() { this.camera = { x: 0, y: 0, scale: this.room / this.steps }; this.redraw(); }
  home() { this.fit(); }
  whole() { return { camera: { ...this.camera }, size: this.size }; }
  step(x) { return this.camera.x + (x - this.left) / this.camera.scale; }
  across(step) { return this.left + (step - this.camera.x) * this.camera.scale; }
  zoom(by, at = { x: this.left + this.room / 2 }) {
    const fixed = this.step(at.x), least = this.room / this.steps;
    this.camera.scale = Math.max(least, Math.min(Math.max(least, 80), this.camera.scale * by));
    this.camera.x = fixed - (at.x - this.left) / this.camera.scale;
    this.keep();
    this.redraw();
  }
  pan(x, y) {
    this.camera.x += x / this.camera.scale;
    this.camera.y += y;
    this.keep();
    this.redraw();
  }
  keep() {
    this.camera.x = Math.max(0, Math.min(this.steps - this.room / this.camera.scale, this.camera.x));
    this.camera.y = Math.max(0, Math.min(this.does.height - this.size.height, this.camera.y));
  }
}

/** A small map of a large picture in a corner: where the window is, and a way to go elsewhere. */
class SmallMap {
  /** `paint(context, unit)` draws the whole picture at `unit` pixels per unit. */
  constructor(host, stage, paint) {
    this.stage = stage;
    this.paint = paint;
    this.kept = null;
    this.canvas = Kit.el("canvas", { class: "mini", "aria-hidden": "true", hidden: true });
    host.append(this.canvas);
    const go = (event) => { if (event.buttons) this.go(event); };
    this.canvas.addEventListener("pointerdown", (event) => { this.canvas.setPointerCapture(event.pointerId); go(event); });
    this.canvas.addEventListener("pointermove", go);
  }
  forget() { this.kept = null; }
  draw() {
    const { camera, size } = this.stage, whole = this.stage.does.bounds(), ratio = whole.width / whole.height;
    const large = whole.width * camera.scale > size.width * 1.6 || whole.height * camera.scale > size.height * 1.6;
    this.canvas.hidden = !large || size.width < 520;
    if (this.canvas.hidden) return;
    const width = Math.round(ratio > 8 ? 300 : Math.min(190, Math.max(90, 150 * ratio)));
    const height = Math.round(Math.min(190, Math.max(44, width / ratio)));
    const unit = Math.min((width - 12) / whole.width, (height - 12) / whole.height);
    this.at = { unit, left: (width - whole.width * unit) / 2, top: (height - whole.height * unit) / 2 };
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = Kit.sharpen(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    context.drawImage(this.picture(width, height), 0, 0, width, height);
    this.frame(context, width, height);
  }
  picture(width, height) {
    const { kept, canvas } = this;
    if (kept && kept.width === canvas.width && kept.height === canvas.height) return kept;
    this.kept = document.createElement("canvas");
    const context = Kit.sharpen(this.kept, width, height);
    context.translate(this.at.left, this.at.top);
    this.paint(context, this.at.unit);
    return this.kept;
  }
  /** The window. */
  frame(context, width, height) {
    const { unit, left, top } = this.at, seen = this.stage.seen();
    const x = Math.max(1, left + seen.left * unit), y = Math.max(1, top + seen.top * unit);
    const w = Math.max(5, Math.min(width - 1, left + seen.right * unit) - x);
    const h = Math.max(5, Math.min(height - 1, top + seen.bottom * unit) - y);
    context.strokeStyle = context.fillStyle = Kit.colour("accent");
    context.lineWidth = 1.5;
    context.strokeRect(x, y, w, h);
    context.globalAlpha = 0.12;
    context.fillRect(x, y, w, h);
    context.globalAlpha = 1;
  }
  go(event) {
    const box = this.canvas.getBoundingClientRect(), { unit, left, top } = this.at, { size, camera } = this.stage;
    const x = (event.clientX - box.left - left) / unit, y = (event.clientY - box.top - top) / unit;
    this.stage.go({ ...camera, x: x - size.width / 2 / camera.scale, y: y - size.height / 2 / camera.scale }, false);
  }
}
