"use strict";
/* A canvas with a camera: drag, wheel, two fingers and keys move it; it draws on the next frame, once, and only when something changed. */
class Stage {
  /** `does` has draw(context, camera, size), bounds() -> {x, y, width, height}, and may have over(point), press(point), key(event), leave(). */
  constructor(host, label, does) {
    this.does = does;
    this.canvas = Kit.el("canvas", { tabindex: "0", role: "application", "aria-label": label, "aria-describedby": "status" });
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
    return { left: x - margin, top: y - margin, right: x + this.size.width / scale + margin, bottom: y + this.size.height / scale + margin };
  }
  world(point) { return { x: this.camera.x + point.x / this.camera.scale, y: this.camera.y + point.y / this.camera.scale }; }
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top, clientX: event.clientX, clientY: event.clientY };
  }

  /** The whole of a box in the window, with a margin. */
  framing(box, most = 1, margin = 40) {
    const scale = Math.max(this.least, Math.min(most, (this.size.width - 2 * margin) / box.width, (this.size.height - 2 * margin - 30) / box.height));
    return { scale, x: box.x + box.width / 2 - this.size.width / 2 / scale, y: box.y + box.height / 2 - (this.size.height - 30) / 2 / scale };
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
      this.camera[axis] = middle(from, side) + (middle(to, side) - middle(from, side)) * e - this.size[side] / 2 / scale;
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
    this.go({ scale: to, x: box.x + box.width / 2 - this.size.width / 2 / to, y: box.y + box.height / 2 - this.size.height / 2 / to });
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
    const before = Math.hypot(last.x - other.x, last.y - other.y), after = Math.hypot(point.x - other.x, point.y - other.y);
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
    if (event.ctrlKey || mouse) this.zoom(Math.exp(-Math.max(-240, Math.min(240, event.deltaY * (event.deltaMode ? 30 : 1))) * (event.ctrlKey && !mouse ? 0.01 : 0.0018)), this.place(event));
    else this.pan(event.deltaX, event.deltaY);
  }
  key(event) {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    if (this.does.key && this.does.key(event)) { event.preventDefault(); return; }
    const step = event.shiftKey ? 320 : 80;
    const acts = {
      ArrowLeft: () => this.pan(-step, 0), ArrowRight: () => this.pan(step, 0), ArrowUp: () => this.pan(0, -step), ArrowDown: () => this.pan(0, step),
      "+": () => this.zoom(1.25), "=": () => this.zoom(1.25), "-": () => this.zoom(0.8), _: () => this.zoom(0.8), 0: () => this.fit(),
    };
    if (!acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
  }
  /** The buttons that every picture has. */
  buttons() {
    return Kit.el("div", { class: "set" }, Kit.button("Zoom out", "minus", () => this.zoom(0.8)), Kit.button("Zoom in", "plus", () => this.zoom(1.25)), Kit.button("Show everything", "fit", () => this.fit()));
  }
}
