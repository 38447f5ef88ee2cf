"use strict";
/* What the views share: elements, numbers, colours, the tooltip, pages of lists, and a canvas with a camera. */
const Kit = (() => {
  /** An element; children are elements or texts, never markup. */
  function el(tag, options = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(options)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
      else if (key === "style") for (const [name, css] of Object.entries(value)) made.style.setProperty(name, css);
      else if (key === "class") made.className = value;
      else made.setAttribute(key, value === true ? "" : String(value));
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return made;
  }

  const SVG = "http://www.w3.org/2000/svg";
  /** A line drawing of 18 by 18 units. */
  function icon(path) {
    const svg = document.createElementNS(SVG, "svg"), line = document.createElementNS(SVG, "path");
    for (const [k, v] of [["width", 18], ["height", 18], ["viewBox", "0 0 18 18"], ["aria-hidden", "true"],
      ["focusable", "false"]]) svg.setAttribute(k, v);
    for (const [k, v] of [["d", path], ["fill", "none"], ["stroke", "currentColor"], ["stroke-width", 1.6],
      ["stroke-linecap", "round"], ["stroke-linejoin", "round"]]) line.setAttribute(k, v);
    svg.append(line);
    return svg;
  }
  const ICONS = { plus: "M9 3.5v11M3.5 9h11", minus: "M3.5 9h11",
    save: "M9 2.5v9M5 8l4 4 4-4M3 15.5h12", fit: "M3 6.5V3h3.5M11.5 3H15v3.5M15 11.5V15h-3.5M6.5 15H3v-3.5", right: "M2.5 9h12M10.5 4.5L15 9l-4.5 4.5",
    down: "M9 2.5v12M4.5 10.5L9 15l4.5-4.5", unfold: "M5 6l4-4 4 4M5 12l4 4 4-4", fold: "M5 2l4 4 4-4M5 16l4-4 4 4" };
  const button = (label, drawn, act, options = {}) =>
    el("button", { type: "button", "aria-label": label, title: label, on: { click: act }, ...options },
      typeof drawn === "string" && ICONS[drawn] ? icon(ICONS[drawn]) : drawn);

  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  /** A number as a person reads it: 16,384, 0.0312, 1.2e-7. */
  function number(value) {
    if (typeof value === "bigint") return value.toLocaleString("en-US");
    if (typeof value !== "number" || !Number.isFinite(value)) return String(value).replace("-", "−");
    const size = Math.abs(value);
    let said;
    if (Number.isInteger(value) && size < 1e12) said = whole.format(value);
    else if (size !== 0 && (size < 1e-4 || size >= 1e7)) said = value.toExponential(2).replace("e+", "e");
    else said = size >= 1000 ? whole.format(value) : String(Number(value.toPrecision(4)));
    return said.replace(/-/g, "−");
  }
  const percent = (share) => (share > 0 && share < 0.001 ? "< 0.1 %" : `${Number((100 * share).toPrecision(3))} %`);
  const counted = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;
  /** Marks that turn or hide what is beside them, and controls, are shown by their numbers. */
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
  const visible = (text) => text.replace(HIDDEN, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
  /** A name of at most `most` characters; its middle goes. */
  function short(text, most = 200) {
    const said = String(text);
    if (said.length <= most) return visible(said);
    const half = Math.floor((most - 1) / 2);
    return visible(`${said.slice(0, half)}…${said.slice(-half)}`);
  }

  /** The colours of the style sheet, as a canvas takes them. */
  const colours = new Map();
  let probe = null;
  function colour(name) {
    if (colours.has(name)) return colours.get(name);
    if (!probe) document.body.append((probe = el("span", { class: "unseen", "aria-hidden": "true" })));
    probe.style.color = `var(--${name})`;
    const found = getComputedStyle(probe).color;
    colours.set(name, found);
    return found;
  }
  /** Red, green and blue of a colour of the style sheet. */
  const channels = (name) => colour(name).match(/[\d.]+/g).slice(0, 3).map(Number);
  function mix(a, b, share) {
    const x = channels(a), y = channels(b);
    return `rgb(${x.map((v, k) => Math.round(v + (y[k] - v) * share)).join(",")})`;
  }
  /** The name of the colour of words that are read best on a colour: ink or page. */
  function on(name) {
    const light = (of) => channels(of).map((v) => ((v / 255 + 0.055) / 1.055) ** 2.4).reduce((sum, v, k) =>
      sum + [0.2126, 0.7152, 0.0722][k] * v, 0);
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const key = `on ${name}`;
    if (!colours.has(key)) colours.set(key,
      ratio(light("ink"), light(name)) >= ratio(light("page"), light(name)) ? "ink" : "page");
    return colours.get(key);
  }
  const FONT = 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
  const font = (size, weight = 400) => `${weight} ${size}px ${FONT}`;

  /** A text that fits `width`, its end cut; the measures are kept. */
  const fitted = new Map();
  function fit(context, text, width) {
    const key = `${context.font}|${Math.round(width)}|${text}`;
    const known = fitted.get(key);
    if (known !== undefined) return known;
    if (fitted.size > 20000) fitted.clear();
    let said = text;
    if (context.measureText(said).width > width) {
      let low = 0, high = said.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(`${said.slice(0, middle)}…`).width <= width) low = middle;
        else high = middle - 1;
      }
      said = low > 0 ? `${said.slice(0, low)}…` : "";
    }
    fitted.set(key, said);
    return said;
  }

  /** The tooltip beside the pointer: a heading and lines. */
  function tip(heading, lines, x, y) {
    const box = document.getElementById("tip");
    if (heading === null) { box.hidden = true; return; }
    box.replaceChildren(el("b", { class: "bidi" }, short(heading, 120)),
      ...lines.map((line) => el("div", { class: "bidi" }, short(line, 160))));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const left = x + 16 + width > innerWidth - 6 ? x - 14 - width : x + 16;
    const top = y + 18 + height > innerHeight - 6 ? y - 12 - height : y + 18;
    box.style.transform = `translate(${Math.max(6, left)}px, ${Math.max(6, top)}px)`;
  }
  const say = (text) => { document.getElementById("status").textContent = short(text, 300); };

  const facts = (pairs) => el("dl", { class: "facts" },
    pairs.flatMap(([label, value]) =>
    [el("dt", {}, short(label, 80)), el("dd", { class: "bidi" }, short(value, 300))]));
  const section = (heading, aside, ...children) =>
    el("section", {}, el("h3", {}, el("span", {}, heading), aside === null ? null : el("span", {}, aside)),
    ...children);
  const square = (name) => el("span",
    { class: "square", "aria-hidden": "true", style: { background: `var(--${name})` } });

  const PAGE = 50;
  /** A list of buttons in pages of 50: `row(k)` gives {mark, main, more, pressed, act}. */
  function pages(count, row, label, size = PAGE, first = 0) {
    const list = el("ul", { class: "rows", "aria-label": label }), box = el("div", {}, list);
    let page = Math.floor(first / size);
    const last = Math.max(0, Math.ceil(count / size) - 1);
    const said = el("span", { role: "status" });
    const back = el("button", { type: "button", on: { click: () => turn(-1) } }, "Previous");
    const next = el("button", { type: "button", on: { click: () => turn(1) } }, "Next");
    const show = () => {
      const from = page * size, to = Math.min(count, from + size), rows = [];
      for (let k = from; k < to; k++) rows.push(el("li", {}, line(row(k))));
      list.replaceChildren(...rows);
      said.textContent = `${number(from + 1)} to ${number(to)} of ${number(count)}`;
      back.disabled = page === 0;
      next.disabled = page === last;
    };
    const turn = (by) => { page = Math.min(last, Math.max(0, page + by)); show(); };
    if (count > size) box.append(el("div", { class: "pager" }, back, said, next));
    show();
    return box;
  }
  const line = ({ mark = null, main, more = "", pressed, act }) =>
    el("button", { type: "button", "aria-pressed": pressed === undefined ? null : String(pressed),
      title: short(main, 200), on: { click: act } },
      mark || el("span", {}), el("span", { class: "main" }, short(main, 120)),
        el("span", { class: "more" }, short(more, 60)));

  /** The two pixels per unit that a sharp picture needs, and the context that draws in units. */
  function sharpen(canvas, width, height) {
    const scale = window.devicePixelRatio || 1, across = Math.max(1, Math.round(width * scale)),
      down = Math.max(1, Math.round(height * scale));
    if (canvas.width !== across) canvas.width = across;
    if (canvas.height !== down) canvas.height = down;
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    return context;
  }
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  return { el, icon, button, number, percent, counted, short, colour, channels, mix, on, font, fit, tip, say, facts,
    section, square, pages, sharpen, still, forget: () => colours.clear() };
})();
