// Documents as the readers make them, for tests of what shows them.
(() => {
  let seed = 1;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const weights = (n) => Float32Array.from({ length: n }, () => (random() < 0.2 ? 0 : random() + random() - 1));
  const empty = { facts: [["made", "by a test"]], notes: [], graph: null, plan: null, recording: null };
  const node = (id, type, shape, params = [], group = "") => ({ id, label: id, type, group, shape, facts: [], params });

  /** Layers of five nodes each, residual edges, some recurrence. */
  const residual = (layers) => {
    const nodes = [node("input", "Input", "2×32×32")], edges = [];
    const join = (...ids) => ids.slice(1).forEach((id, k) => edges.push({ source: ids[k], target: id, label: "" }));
    let last = "input";
    for (let k = 0; k < layers; k++) {
      const [conv, scale, flat, affine, lif] = ["conv", "scale", "flat", "affine", "lif"].map((name) => `layer${k}.${name}`);
      nodes.push(node(conv, "Conv2d", "16×32×32", [{ name: "weight", shape: [16, 16, 3, 3], dtype: "float32", values: weights(2304), note: "" }]),
        node(scale, "Scale", "16×32×32"), node(flat, "Flatten", "16384"), node(affine, "Affine", "64"), node(lif, "LIF", "64"));
      join(last, conv, scale, flat, affine, lif);
      if (k) join(last, affine);
      if (k % 10 === 3) join(lif, conv);
      last = lif;
    }
    nodes.push(node("output", "Output", "10"));
    join(last, "output");
    return { ...empty, kind: "network", title: "residual.nir", graph: { nodes, edges } };
  };

  /** Groups in groups, as nested graphs of NIR are. */
  const nested = () => {
    const nodes = [node("input", "Input", "64")], edges = [];
    for (const block of ["a", "b"]) for (const head of ["x", "y"]) {
      const group = `${block}/${head}`;
      nodes.push(node(`${group}/in`, "Affine", "64", [{ name: "weight", shape: [64, 64], dtype: "float32", values: weights(4096), note: "" }], group), node(`${group}/lif`, "LIF", "64", [], group));
      edges.push({ source: block === "a" ? "input" : `a/${head}/lif`, target: `${group}/in`, label: "" }, { source: `${group}/in`, target: `${group}/lif`, label: "" }, { source: `${group}/lif`, target: `${group}/in`, label: "later" });
    }
    return { ...empty, kind: "network", title: "nested.nir", graph: { nodes, edges } };
  };

  const map = (chips, used, count) => {
    const [width, height, coresPerTile] = [8, 8, 2], per = width * height * coresPerTile, cores = [], routes = [];
    const populations = Array.from({ length: count }, (_, k) => ({ name: `layer ${k}`, shape: [32, 32], neurons: 1024 }));
    for (let k = 0; k < used; k++) {
      const at = k % per, population = Math.floor((k * count) / used);
      const slices = [{ population, box: [[0, 16], [0, 32]], neurons: 512 }];
      if (k % 7 === 3) slices.push({ population: Math.min(count - 1, population + 1), box: [[0, 1], [0, 32]], neurons: 32 });
      cores.push({ chip: Math.floor(k / per), x: Math.floor(at / 2) % width, y: Math.floor(at / 2 / width), core: at % 2, slices, used: { neurons: 512, input_axons: 100 + (k % 1900) } });
      for (const by of [1, 9, 40]) if (k + by < used) routes.push({ source: k, input: null, target: k + by, spikes: 20 * random(), hops: by });
    }
    routes.push({ source: null, input: "input", target: 0, spikes: 3.5, hops: 2 });
    const plan = { chip: "chip", chips, width, height, coresPerTile, dead: [[0, 7, 7, 0]], populations, cores, limits: { neurons: 1024, input_axons: 2000, decay_profiles: null }, routes };
    return { ...empty, kind: "map", title: `${used}.map.json`, plan, graph: residual(2).graph };
  };

  const several = () => {
    const values = Float64Array.from({ length: 20 }, (_, k) => ({ 4: 7, 8: 2, 9: 3, 19: 1 })[k] || 0);
    const nodes = ["s", "v"].map((variable) => ({ name: "if", variable, steps: 4, samples: 1, shape: [5], size: 5, values }));
    return { ...empty, kind: "recording", title: "several.npz", recording: { dt: 1e-3, steps: 4, nodes } };
  };

  const recording = (steps, size, samples) => {
    const spikes = new Uint8Array(steps * samples * size), potential = new Float32Array(steps * samples * size);
    for (let k = 0; k < spikes.length; k++) { spikes[k] = random() < 0.05 ? 1 : 0; potential[k] = Math.sin(k / 50); }
    const made = (name, variable, values) => ({ name, variable, steps, samples, shape: [size], size, values });
    return { ...empty, kind: "recording", title: "run.npz", recording: { dt: 1e-3, steps, nodes: [made("lif", "s", spikes), made("lif", "v", potential)] } };
  };

  const NAMES = ['<img src=x onerror="alert(1)">', "\u202etxt.exe\u202d", "n".repeat(10000), "</script><b>", "constructor", "__proto__", "名前 🧠"];
  const hostile = (kind) => {
    const made = kind === "map" ? map(1, 7, 7) : kind === "recording" ? recording(20, 5, 1) : residual(1);
    const nodes = NAMES.map((name) => ({ ...node(name, name, name, [{ name, shape: [2], dtype: name, values: Float32Array.of(1, 2), note: name }]), facts: [[name, name]] }));
    const edges = NAMES.slice(1).map((name, k) => ({ source: NAMES[k], target: name, label: name }));
    if (kind === "map") NAMES.forEach((name, k) => { made.plan.populations[k].name = name; made.plan.routes[0].input = name; });
    if (kind === "recording") made.recording.nodes.forEach((each, k) => { each.name = NAMES[k]; });
    return { ...made, title: NAMES[0], facts: NAMES.map((name) => [name, name]), notes: NAMES, graph: kind === "network" ? { nodes, edges } : null };
  };
  globalThis.fakes = { residual, nested, map, recording, several, hostile };
})();
