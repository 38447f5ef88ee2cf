"use strict";
/* Parameters of a node: figures, a histogram, the matrix of weights as a heat map, kernels of convolutions. */
const Parameters = (() => {
  const BINS = 48, LEVELS = 256, KERNELS = 48;
  const known = new WeakMap();

  /** Least, greatest, mean, deviation and the share of zeros; values that are no finite numbers are counted apart. */
  function figures(values) {
    if (known.has(values)) return known.get(values);
    let low = Infinity, high = -Infinity, sum = 0, square = 0, zeros = 0, finite = 0;
    for (let k = 0; k < values.length; k++) {
      const v = Number(values[k]);
      if (!Number.isFinite(v)) continue;
      finite += 1;
      if (v < low) low = v;
      if (v > high) high = v;
      if (v === 0) zeros += 1;
      sum += v;
      square += v * v;
    }
    const mean = finite ? sum / finite : NaN;
    const found = { count: values.length, finite, low, high, mean,
      deviation: finite ? Math.sqrt(Math.max(0, square / finite - mean * mean)) : NaN,
      zeros: finite ? zeros / finite : 0 };
    known.set(values, found);
    return found;
  }

  /** The step of values that lie on a grid; 0 where they do not, or have more than `LEVELS` different ones. */
  function stepOf(values) {
    const seen = new Set();
    for (let k = 0; k < values.length && seen.size <= LEVELS; k++) {
      const v = Number(values[k]);
      if (Number.isFinite(v)) seen.add(v);
    }
    const whole = !(values instanceof Float32Array || values instanceof Float64Array);
    if (whole || seen.size > LEVELS || seen.size < 2) return whole ? 1 : 0;
    const sorted = [...seen].sort((a, b) => a - b), gaps = sorted.slice(1).map((v, k) => v - sorted[k]),
      least = Math.min(...gaps), step = (sorted.at(-1) - sorted[0]) / Math.round((sorted.at(-1) - sorted[0]) / least);
    return gaps.every((gap) => Math.abs(gap / step - Math.round(gap / step)) < 0.01) ? step : 0;
  }
  const counts = new WeakMap();
  /** At most `most` bars of equal width: how many values are in each. On a grid every bar has equally many levels,
   *  since bars of 5 and of 6 levels would look like a comb; `level` is the grid's step, else 0. */
  function histogram(values, most = BINS) {
    const kept = counts.get(values) || new Map();
    counts.set(values, kept);
    if (kept.has(most)) return kept.get(most);
    const { low, high } = figures(values), level = stepOf(values);
    const levels = level ? Math.round((high - low) / level) + 1 : most, each = Math.ceil(levels / most),
      bars = Math.ceil(levels / each), width = level ? each * level : (high - low) / bars,
      from = level ? low - level / 2 - Math.floor((bars * each - levels) / 2) * level : low;
    const found = { from, width, level, each, bars: new Float64Array(bars) };
    for (let k = 0; k < values.length; k++) {
      const v = Number(values[k]);
      if (Number.isFinite(v)) found.bars[Math.min(bars - 1, Math.max(0, Math.floor((v - from) / width)))] += 1;
    }
    kept.set(most, found);
    return found;
  }

  const smalls = new WeakMap();
  /** A few bars for a box of the graph: of the first parameter with more than one value; null where there is none,
   *  undefined where `budget` is spent. */
  function small(node, budget) {
    if (smalls.has(node)) return smalls.get(node);
    const of = node.params.find((p) => p.values && p.values.length > 1 && figuresWithin(p.values, budget)
      && known.get(p.values).high > known.get(p.values).low);
    if (of === undefined && budget.left < 0) return undefined;
    let found = null;
    if (of) {
      budget.left -= of.values.length;
      const { bars } = histogram(of.values, 12), most = Math.max(...bars);
      found = Array.from(bars, (n) => Math.sqrt(n / most));
    }
    smalls.set(node, found);
    return found;
  }
  function figuresWithin(values, budget) {
    if (!known.has(values)) { if (budget.left < 0) return false; budget.left -= values.length; }
    figures(values);
    return true;
  }

  const shape = (param) => (param.shape.length ? param.shape.join(" × ") : "one value");

  const size = (param) => (param.values && figures(param.values).high > figures(param.values).low
    ? param.values.length : 0);
  /** The part of the panel for one node: the greatest parameter first. */
  function panel(node) {
    if (!node.params.length) return Kit.section("Parameters", null,
      Kit.el("p", { class: "note" }, "This node has none."));
    const several = node.params.some(size);
    const redraw = [], log = Kit.el("input",
      { type: "checkbox", on: { change: () => redraw.forEach((act) => act(log.checked)) } });
    const heading = several ? Kit.el("label", { class: "switch" }, log, "log counts")
      : Kit.counted(node.params.length, "value");
    return Kit.section("Parameters", heading,
      [...node.params].sort((a, b) => size(b) - size(a)).map((param) => block(param, redraw)));
  }

  function block(param, redraw) {
    const box = Kit.el("div", { class: "param" },
      Kit.el("h4", {}, Kit.el("b", { class: "bidi" }, Kit.short(param.name, 80)),
      Kit.el("span", {}, `${shape(param)} · ${param.dtype}`)));
    if (param.note) box.append(Kit.el("p", { class: "note bidi" }, Kit.short(param.note, 400)));
    if (!param.values || !param.values.length) return box;
    if (param.values.length === 1) { box.append(Kit.el("p", { class: "one" }, Kit.number(param.values[0])));
      return box; }
    const f = figures(param.values);
    if (!(f.high > f.low)) box.append(Kit.el("p", { class: "one" }, f.finite ? Kit.number(f.low) : "no finite value"),
      Kit.el("p", { class: "note" }, `in all ${Kit.number(f.count)} places`));
    else {
      const canvas = Kit.el("canvas", { role: "img",
        "aria-label": `Histogram of ${Kit.short(param.name, 80)}: ${Kit.number(f.count)} values from ${Kit.number(f.low)} to ${Kit.number(f.high)}, mean ${Kit.number(f.mean)}` });
      canvas.style.height = "104px";
      let log = false;
      const draw = () => drawHistogram(canvas, param.values, log);
      redraw.push((on) => { log = on; draw(); });
      hoverHistogram(canvas, param.values);
      box.append(canvas, stats(f));
      later(canvas, draw);
      const picture = matrix(param, f) || kernels(param, f);
      if (picture) box.append(...picture);
    }
    if (f.finite < f.count) box.append(
      Kit.el("p", { class: "warn" }, `${Kit.counted(f.count - f.finite, "value")} of ${Kit.number(f.count)} ${f.count - f.finite === 1 ? "is" : "are"} not finite.`));
    return box;
  }
  /** Once the canvas is in the page and has a width; and again where that changes. */
  function later(canvas, draw) {
    new ResizeObserver(() => { if (canvas.clientWidth) draw(); }).observe(canvas);
    canvas.redraw = draw;
  }
  function stats(f) {
    const cell = (label, value) => Kit.el("div", {}, Kit.el("dt", {}, label), Kit.el("dd", { title: value }, value));
    return Kit.el("dl", { class: "stats" }, cell("min", Kit.number(f.low)), cell("max", Kit.number(f.high)),
      cell("mean", Kit.number(f.mean)), cell("zeros", Kit.percent(f.zeros)));
  }

  const PLOT = { left: 0, right: 0, top: 14, bottom: 18 };
  function drawHistogram(canvas, values, log) {
    const width = canvas.clientWidth, height = 104, context = Kit.sharpen(canvas, width, height), f = figures(values),
      { bars: found, from, width: bar } = histogram(values), n = found.length;
    context.clearRect(0, 0, width, height);
    const most = Math.max(...found), top = log ? Math.log1p(most) : most, base = height - PLOT.bottom,
      high = base - PLOT.top, step = width / n;
    context.fillStyle = Kit.colour("soft");
    context.fillRect(0, PLOT.top, width, high);
    context.fillStyle = Kit.colour("fill");
    for (let k = 0; k < n; k++) {
      if (!found[k]) continue;
      const size = Math.max(1, (high * (log ? Math.log1p(found[k]) : found[k])) / top);
      context.fillRect(k * step + 0.5, base - size, Math.max(1, step - 1), size);
    }
    context.fillStyle = Kit.colour("line");
    context.fillRect(0, base, width, 1);
    context.font = Kit.font(11);
    context.fillStyle = Kit.colour("muted");
    context.textBaseline = "alphabetic";
    context.fillText(Kit.number(f.low), 0, height - 4);
    context.textAlign = "right";
    context.fillText(Kit.number(f.high), width, height - 4);
    context.fillText(`${Kit.number(most)} in the fullest bar${log ? ", log" : ""}`, width, 9);
    const zero = ((0 - from) / (n * bar)) * width;
    if (f.low < 0 && f.high > 0) {
      context.fillStyle = Kit.colour("muted");
      context.fillRect(zero - 0.5, PLOT.top, 1, high);
      context.textAlign = "center";
      if (zero > 60 && zero < width - 60) context.fillText("0", zero, height - 4);
    }
  }
  function hoverHistogram(canvas, values) {
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect(), { bars, from, width, level, each } = histogram(values),
        n = bars.length;
      const k = Math.min(n - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * n))),
        first = from + k * width + level / 2, last = from + (k + 1) * width - level / 2;
      Kit.tip(Kit.counted(bars[k], "value"), [level && each === 1 ? Kit.number(first)
        : `${Kit.number(first)} to ${Kit.number(last)}`], event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => Kit.tip(null));
  }

  /** Colour of a signed value: one hue below zero, another above, the page between. */
  function shades() {
    const low = Kit.channels("low"), high = Kit.channels("high"), none = Kit.channels("soft");
    return (v) => { const to = v < 0 ? low : high, s = Math.min(1, Math.abs(v)) ** 0.7;
      return [0, 1, 2].map((c) => none[c] + (to[c] - none[c]) * s); };
  }
  const reach = (f) => Math.max(Math.abs(f.low), Math.abs(f.high)) || 1;
  function legend(f, said) {
    const most = Kit.number(reach(f));
    return [Kit.el("p", { class: "ends" }, Kit.el("span", {}, said),
      Kit.el("span", {}, f.low < 0 ? `−${most} to ${most}` : `0 to ${most}`))];
  }

  /** A heat map of a matrix of weights: where it has more places than the picture, the greatest of each part. */
  function matrix(param, f) {
    if (param.shape.length !== 2 || Math.min(...param.shape) < 2) return null;
    const [rows, columns] = param.shape, across = Math.min(columns, 306),
      down = Math.min(rows, Math.max(24, Math.min(220, Math.round((306 * rows) / columns))), 220);
    const canvas = Kit.el("canvas", { role: "img",
      "aria-label": `Heat map of ${Kit.short(param.name, 80)}, ${rows} rows and ${columns} columns` });
    canvas.style.height = `${Math.max(24, Math.min(220, Math.round((306 * rows) / columns)))}px`;
    canvas.style.imageRendering = "pixelated";
    later(canvas, () => {
      const peak = peaks(param.values, rows, columns, down, across), shade = shades(), most = reach(f);
      canvas.width = across;
      canvas.height = down;
      const image = new ImageData(across, down);
      peak.forEach((v, k) => { image.data.set(shade(v / most), 4 * k); image.data[4 * k + 3] = 255; });
      canvas.getContext("2d").putImageData(image, 0, 0);
    });
    return [canvas, ...legend(f, `${Kit.number(rows)} rows × ${Kit.number(columns)}`)];
  }
  /** The value farthest from zero in each part of a matrix. */
  function peaks(values, rows, columns, down, across) {
    const found = new Float64Array(down * across);
    for (let r = 0; r < rows; r++) {
      const line = Math.floor((r * down) / rows) * across;
      for (let c = 0; c < columns; c++) {
        const at = line + Math.floor((c * across) / columns), v = Number(values[r * columns + c]);
        if (Math.abs(v) > Math.abs(found[at])) found[at] = v;
      }
    }
    return found;
  }

  /** Kernels of a convolution, the first of them: one square for each pair of channels. */
  function kernels(param, f) {
    if (param.shape.length !== 4 && param.shape.length !== 3) return null;
    const high = param.shape.length === 4 ? param.shape[2] : 1, wide = param.shape[param.shape.length - 1],
      all = param.shape[0] * param.shape[1];
    if (high > 64 || wide > 306 || high * wide < 2) return null;
    const shown = Math.min(all, KERNELS), gap = 3, most = reach(f);
    const canvas = Kit.el("canvas", { role: "img",
      "aria-label": `Kernels of ${Kit.short(param.name, 80)}: ${shown} of ${all}, ${high} by ${wide}` });
    later(canvas, () => {
      const width = canvas.clientWidth,
        unit = Math.max(2, Math.min(9, Math.floor((width / Math.min(shown, 8) - gap) / wide))),
        row = Math.max(1, Math.floor((width + gap) / (wide * unit + gap)));
      const height = Math.ceil(shown / row) * (high * unit + gap) - gap, context = Kit.sharpen(canvas, width, height),
        shade = shades();
      if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
      context.clearRect(0, 0, width, height);
      for (let k = 0; k < shown; k++)
        for (let j = 0; j < high * wide; j++) {
          context.fillStyle = `rgb(${shade(Number(param.values[k * high * wide + j]) / most).map(Math.round).join(",")})`;
          context.fillRect((k % row) * (wide * unit + gap) + (j % wide) * unit,
            Math.floor(k / row) * (high * unit + gap) + Math.floor(j / wide) * unit, unit, unit);
        }
    });
    return [canvas, ...legend(f, shown < all ? `${shown} of ${Kit.number(all)} kernels` : Kit.counted(all, "kernel"))];
  }

  return { panel, small, figures, shape };
})();
