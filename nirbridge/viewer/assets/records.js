// Archives of nirbridge: networks, quantized networks, recordings and verifications (docs/reference/*-file.md).

const META_BYTES_MAX = 64 * 2 ** 20;
const SPLIT_ARRAYS = ["delay_steps", "target_delay_steps"];
const READABLE = "a network, a quantized network, a recording or a verification of nirbridge is shown";

/** The document of a .net.npz, .q.npz or recording: its `meta` tells which it is. */
const archiveDocument = async (name, array) => {
  const subject = quoted(name);
  const archive = new Archive(array, subject);
  const member = archive.members.get("meta");
  if (!member || member.size > META_BYTES_MAX) {
    const isTorch = [...archive.members.keys()].some((each) => each.endsWith("/data.pkl"));
    const found = isTorch ? "it is a file of torch.save" : "it is an archive without a readable 'meta'";
    throw new ViewerError(subject, found, READABLE, "convert it with nirbridge import, or record it again");
  }
  const meta = await archive.array("meta");
  const text = meta.text === undefined ? new Uint8Array(meta.values) : new TextEncoder().encode(meta.text);
  const record = parsedJson(text, `${subject}, meta`);
  const reader = new RecordReader(name, archive, record);
  if (!isObject(record) || record.schema !== 1) throw reader.refused("meta", "is of another form than schema 1");
  if (meta.text !== undefined) return reader.recordingDocument();
  if (record.kind === "nirbridge-network") return reader.networkDocument();
  if (record.kind === "nirbridge-quantized") return reader.quantizedDocument();
  if (record.kind === "nirbridge-verification") return reader.verificationDocument();
  throw new ViewerError(subject, `it is a file of kind ${quoted(record.kind)}`, READABLE);
};

class RecordReader {
  constructor(name, archive, record) {
    Object.assign(this, { name, archive, record, subject: quoted(name), budget: new Budget(), notes: new Notes() });
    this.nodes = [];
    this.edges = [];
    this.ids = new Map();
    this.totals = [];
  }

  refused(where, found = "is missing or of another form") {
    return new ViewerError(`${this.subject}, ${where}`, found, "", "write it again");
  }

  list(key, form, record = this.record, where = key) {
    const parts = record[key];
    if (!Array.isArray(parts)) throw this.refused(where);
    parts.forEach((part, k) => {
      if (!isObject(part)) throw this.refused(`${where}[${k}]`);
      for (const [field, test] of Object.entries(form)) {
        if (!test(part[field])) throw this.refused(`${where}[${k}].${field}`);
      }
    });
    return parts;
  }

  document(kind, facts, parts) {
    const stored = Array.isArray(this.record.notes) ? this.record.notes.filter(isText) : [];
    const assumed = Array.isArray(this.record.assumed) ? this.record.assumed.filter(isText) : [];
    for (const line of [...assumed, ...stored]) this.notes.add(line);
    const notes = this.notes.all();
    const stated = facts.filter(([, value]) => value);
    return { kind, title: this.name, facts: stated, notes, graph: null, plan: null, recording: null, ...parts };
  }

  // -- networks --------------------------------------------------------------------------------------------------

  async networkDocument() {
    const { dt, timing } = this.record;
    const populations = await this.addNodes((p) => p.neuron.kind);
    for (const p of this.projections("projections")) await this.addProjection(p);
    const settings = Object.entries(isObject(timing) ? timing : {}).filter(([, value]) => isText(value));
    const facts = [...this.sizes(populations), ["time step", isAmount(dt) ? figure(dt, "s") : ""], ...settings];
    return this.document("network", facts, { graph: { nodes: this.nodes, edges: this.edges } });
  }

  async quantizedDocument() {
    const { chip, dt, report } = this.record;
    const typeOf = (p) => (p.process === "lif" ? "LIF" : "LIF, custom");
    const populations = await this.addNodes((p) => (p.neuron.fires_above ? typeOf(p) : "readout"));
    const projections = this.projections("projections");
    for (const p of projections) await this.addProjection(p);
    for (const p of this.projections("reads")) await this.addProjection(p);
    for (const layer of Array.isArray(report) ? report : []) this.addReport(layer);
    const bits = [...new Set(projections.map((p) => p.weight_bits).filter(isCount))].sort((a, b) => a - b);
    const facts = [
      ["chip", isText(chip) ? chip : ""],
      ...this.sizes(populations),
      ["weight bits", bits.join(", ")],
      ["time step", isAmount(dt) ? figure(dt, "s") : ""],
    ];
    return this.document("quantized", facts, { graph: { nodes: this.nodes, edges: this.edges } });
  }

  sizes(populations) {
    const neurons = populations.reduce((all, p) => all + product(p.shape), 0);
    return [["populations", grouped(populations.length)], ["neurons", grouped(neurons)], ...parameterFacts(this.nodes)];
  }

  projections(key) {
    return this.list(key, { source: isText, target: isText, operator: isObject });
  }

  async addNodes(typeOf) {
    const form = { name: isText, shape: listOf(isCount) };
    for (const p of this.list("inputs", form)) this.addNode(p.name, "Input", p.shape, scalars(p), []);
    const populations = this.list("populations", { ...form, neuron: isObject });
    for (const p of populations) {
      const params = await this.params(p.neuron, "");
      this.addNode(p.name, String(typeOf(p)), p.shape, scalars(p.neuron), params);
    }
    for (const p of this.list("outputs", form)) this.addNode(p.name, "Output", p.shape, [], []);
    return populations;
  }

  addNode(id, type, shape, facts, params, label = id) {
    if (this.ids.has(id)) throw this.refused(`node ${quoted(id)}`, "occurs twice");
    if (this.ids.size >= NODES_MAX) throw this.refused("populations", `there are more than ${grouped(NODES_MAX)}`);
    const node = { id, label, type, group: "", shape: Array.isArray(shape) ? times(shape) : shape, facts, params };
    this.ids.set(id, node);
    this.nodes.push(node);
  }

  /** A projection: an edge where it passes values on as they are, else a node of its own with its weights. */
  async addProjection(p) {
    const { source, target, operator } = p;
    if (!this.ids.has(source) || !this.ids.has(target)) {
      throw this.refused(`projection ${quoted(source)} -> ${quoted(target)}`, "joins no two populations");
    }
    const parts = operator.kind === "Chain" ? this.list("parts", { kind: isText }, operator) : [operator];
    const own = await this.params(Object.fromEntries(Object.entries(p).filter(([key]) => key !== "operator")), "");
    const delays = own.filter(({ name }) => SPLIT_ARRAYS.includes(name));
    const late = delays.reduce((most, { values }) => most + (values ?? []).reduce((a, b) => Math.max(a, b), 0), 0);
    const delay = late ? `${counted(late, "step")} later` : "";
    const differs = (values) => values?.some((value) => value !== values[0]);
    const params = own.filter(({ name, values }) => !SPLIT_ARRAYS.includes(name) || differs(values));
    for (const [k, part] of parts.entries()) params.push(...(await this.params(part, parts.length > 1 ? `${k}.` : "")));
    if (!params.length && parts.every(({ kind }) => kind === "Identity")) {
      this.edges.push({ source, target, label: delay });
      return;
    }
    const id = this.unique(`${source} → ${target}`);
    const facts = [...scalars(p), ...parts.flatMap((part, k) => scalars(part, parts.length > 1 ? `${k}.` : ""))];
    const label = listOf(isText)(p.nodes) && p.nodes.length ? p.nodes.join(" + ") : id;
    const type = parts.map(({ kind }) => String(kind)).join(" + ");
    this.addNode(id, type, weightShape(params), delay ? [...facts, ["delay", delay]] : facts, params, label);
    this.edges.push({ source, target: id, label: "" }, { source: id, target, label: delay });
  }

  unique(id) {
    let name = id;
    for (let k = 2; this.ids.has(name); k++) name = `${id} (${k})`;
    return name;
  }

  /** The arrays of an object, those of objects in it too. */
  async params(record, start) {
    const params = [];
    for (const [key, value] of Object.entries(record)) {
      if (!isObject(value)) continue;
      if (isText(value.array)) params.push(await this.param(start + key, value));
      else if (key === "adaptation") params.push(...(await this.params(value, `${key}.`)));
    }
    return params;
  }

  async param(name, { array, shape }) {
    const stored = await this.archive.array(array);
    if (stored.text !== undefined) throw this.refused(`array ${quoted(array)}`, "is no array of numbers");
    const whole = shape === undefined ? stored.shape : shape;
    const fault = this.refused(`array ${quoted(array)}`, "is repeated to no shape");
    if (!listOf(isCount)(whole) || whole.length > 64) throw fault;
    const note = this.budget.refusal(product(whole));
    const values = note ? null : realsOf(repeated(stored, whole, fault));
    return { name, shape: whole, dtype: stored.type, values, note };
  }

  /** The proved ranges of a population and the errors of its weights, as facts of their nodes. */
  addReport(layer) {
    const node = this.ids.get(layer?.population);
    if (!node || !isObject(layer.bounds)) return;
    const origin = layer.bounds.proved ? "proved" : "on calibration data";
    for (const key of ["a_in", "u", "v"]) addRange(node, `${key}, ${origin}`, layer.bounds[key], grouped);
    for (const weights of Array.isArray(layer.weights) ? layer.weights.filter(isObject) : []) {
      const projection = this.ids.get(`${weights.source} → ${layer.population}`);
      if (!projection) continue;
      addRange(projection, "weights, real", weights.range, numberText);
      addRange(projection, "weights, integer", weights.integers, grouped);
      if (Number.isFinite(weights.error)) projection.facts.push(["relative weight error", numberText(weights.error)]);
    }
  }

  // -- recordings ------------------------------------------------------------------------------------------------

  async recordingDocument() {
    const nodes = [];
    for (const key of this.archive.members.keys()) {
      if (key === "meta") continue;
      const slash = key.lastIndexOf("/");
      const name = decodedName(key.slice(0, Math.max(slash, 0)), this.subject);
      await this.addTrace(nodes, name, key.slice(slash + 1), key, this.record);
    }
    return this.traces(nodes, this.record, recordingFacts(this.record));
  }

  async verificationDocument() {
    const nodes = [];
    const ways = this.list("recordings", { way: isText, meta: isObject });
    for (const { way, meta, arrays } of ways) {
      for (const each of this.list("arrays", { node: isText, variable: isText, values: isObject }, { arrays })) {
        await this.addTrace(nodes, `${way}: ${each.node}`, each.variable, each.values.array, meta);
      }
    }
    const meta = ways[0]?.meta ?? {};
    const chip = isText(this.record.chip) ? this.record.chip : "";
    const facts = [["chip", chip], ["ways", ways.map(({ way }) => way).join(", ")]];
    return this.traces(nodes, meta, [...facts, ...recordingFacts(meta)]);
  }

  async addTrace(nodes, name, variable, key, meta) {
    if (variable === "count") return this.totals.push(quoted(name));
    if (!["s", "u", "v", "i"].includes(variable)) throw this.refused(`array ${quoted(key)}`, "is no NODE/VARIABLE");
    const { shape, values } = await this.archive.array(key);
    const isBatched = meta.batch === true || (isCount(meta.batch) && meta.batch > 0);
    if (!shape || shape.length < (isBatched ? 2 : 1)) throw this.refused(`array ${quoted(key)}`, "has no axis of time");
    const own = shape.slice(isBatched ? 2 : 1);
    const samples = isBatched ? shape[1] : 1;
    nodes.push({ name, variable, steps: shape[0], samples, shape: own, size: product(own), values });
  }

  traces(nodes, meta, facts) {
    const dt = isAmount(meta.dt) ? meta.dt : null;
    const steps = isCount(meta.steps) ? meta.steps : nodes.reduce((most, node) => Math.max(most, node.steps), 0);
    const samples = nodes.reduce((most, node) => Math.max(most, node.samples), 0);
    const sizes = [["time steps", grouped(steps)], ["samples", grouped(samples)]];
    const rows = [...sizes, ["time step", dt ? figure(dt, "s") : ""], ...facts];
    if (this.totals.length) {
      const more = this.totals.length > 3 ? ` and ${grouped(this.totals.length - 3)} more` : "";
      const names = this.totals.slice(0, 3).join(", ") + more;
      this.notes.add(`spike counts of ${names} are not drawn: they are sums over time, without time steps`);
    }
    return this.document("recording", rows, { recording: { dt, steps, nodes } });
  }
}

const recordingFacts = ({ backend, device, reading, every }) => {
  const rows = [["back end", backend], ["device", device], ["input", reading]].filter(([, value]) => isText(value));
  const kept = isObject(every) ? Object.entries(every).filter(([, n]) => isCount(n) && n > 1) : [];
  return [...rows, ...kept.map(([node, n]) => [`kept of ${node}`, `the last of every ${counted(n, "step")}`])];
};

const addRange = (node, label, range, text) => {
  if (listOf(Number.isFinite)(range) && range.length === 2) node.facts.push([label, range.map(text).join(" to ")]);
};

/** The plain values of an object as facts. */
const scalars = (record, start = "") => {
  const facts = [];
  for (const [key, value] of Object.entries(record)) {
    if (["name", "shape", "source", "target", "kind", "nodes", "delay_nodes", "index", "parts"].includes(key)) continue;
    const isPlain = ["number", "string", "boolean"].includes(typeof value);
    if (isPlain) facts.push([start + key, typeof value === "number" ? numberText(value) : String(value)]);
    else if (Array.isArray(value) && value.length) facts.push([start + key, listText(value.flat(2))]);
  }
  return facts;
};

const weightShape = (params) => {
  const weight = params.filter(({ name }) => /(^|\.)weight$/.test(name)).map(({ shape }) => shape);
  if (weight.length !== 1 || weight[0].length < 2) return "";
  const [post, pre, ...kernel] = weight[0];
  return `${grouped(pre)} → ${grouped(post)}${kernel.length ? `, ${times(kernel)}` : ""}`;
};

/** Values with those of axes of length 1 repeated, as numpy.broadcast_to does. */
const repeated = ({ shape, values }, whole, fault) => {
  const missing = whole.length - shape.length;
  const own = [...Array(Math.max(missing, 0)).fill(1), ...shape];
  if (missing < 0 || own.some((n, axis) => n !== 1 && n !== whole[axis])) throw fault;
  if (product(own) === product(whole)) return values;
  const out = new values.constructor(product(whole));
  const strides = own.map((n, axis) => (n === 1 ? 0 : product(own.slice(axis + 1))));
  const index = whole.map(() => 0);
  for (let k = 0, from = 0; k < out.length; k++) {
    out[k] = values[from];
    for (let axis = whole.length - 1; axis >= 0; axis--) {
      from += strides[axis];
      if (++index[axis] < whole[axis]) break;
      from -= strides[axis] * whole[axis];
      index[axis] = 0;
    }
  }
  return out;
};
