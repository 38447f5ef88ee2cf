// The graph of a .nir file: nodes with their parameters, subgraphs flattened, edges through their ports resolved.

const SMALL_FIELDS = ["shape", "stride", "padding", "dilation", "groups", "kernel_size", "input_shape", "start_dim",
  "end_dim", "input_type"]; // prettier-ignore
const DEPTH_MAX = 32;
const EDGES_MAX = 100000;
const SPLICED_MAX = 1e6;
const NOTES_MAX = 100;

/** Sentences on what was left out: the first hundred, and how many there are more. */
class Notes {
  constructor() {
    this.lines = [];
    this.more = 0;
  }

  add(line) {
    if (this.lines.length < NOTES_MAX) this.lines.push(line);
    else this.more++;
  }

  all() {
    return this.more ? [...this.lines, `and ${grouped(this.more)} notes more`] : this.lines;
  }
}

const realsOf = (values) =>
  values instanceof Float32Array || values instanceof Float64Array ? values : Float64Array.from(values);

const numberText = (value) => String(Number(value.toPrecision(7)));
const listText = (values) => {
  const shown = Array.from(values.slice(0, 8), (value) => (typeof value === "number" ? numberText(value) : value));
  return shown.join(", ") + (values.length > 8 ? `, … (${grouped(values.length)})` : "");
};

const PREFIXES = [["", 1], ["m", 1e-3], ["µ", 1e-6], ["n", 1e-9], ["p", 1e-12]];

/** A number of three digits with the prefix of its size: `1.51 µJ`. */
const figure = (value, unit) => {
  const [prefix, scale] = PREFIXES.find(([, least]) => Math.abs(value) >= least * (1 - 1e-9)) ?? PREFIXES[0];
  return `${Number((value / scale).toPrecision(3))} ${prefix}${unit}`;
};

const OWN_KEYS = "nirbridge:";

class NirReader {
  constructor(name, array) {
    this.subject = quoted(name);
    this.file = new Hdf5File(array, this.subject, new Budget());
    this.notes = new Notes();
    this.nodes = [];
    this.edges = [];
    this.ports = new Set();
    this.walked = 0;
    this.ids = new Set();
  }

  async document(name) {
    const root = await this.file.root();
    const top = root.group("node");
    const kind = top && (await this.kind(top));
    if (!kind) {
      throw new ViewerError(this.subject, "it holds no NIR graph", "a group 'node' is expected", "use nir.write");
    }
    if (kind !== "NIRGraph") {
      const hint = "wrap it with nir.NIRGraph.from_list";
      throw new ViewerError(this.subject, `its top node is a ${quoted(kind)}`, "a NIRGraph is expected", hint);
    }
    await this.addGraph(await this.drafted(top, "", 0));
    const edges = this.spliced();
    const nodes = this.nodes.filter((node) => !this.ports.has(node.id));
    const facts = [["nodes", grouped(nodes.length)], ["edges", grouped(edges.length)], ...parameterFacts(nodes)];
    const version = root.dataset("version");
    if (version?.content === "text" && version.size === 1) facts.push(["written with nir", (await version.texts())[0]]);
    facts.push(...(await this.metadata(top)));
    const [graph, notes] = [{ nodes, edges }, this.notes.all()];
    return { kind: "network", title: name, facts, notes, graph, plan: null, recording: null };
  }

  async kind(group) {
    const stored = group.dataset("type");
    return stored?.content === "text" && stored.size === 1 ? (await stored.texts())[0] : null;
  }

  /** A graph: its nodes by name (a subgraph is such a draft itself) and its edges as they are written. */
  async drafted(group, prefix, depth) {
    if (depth > DEPTH_MAX) {
      const limit = `at most ${DEPTH_MAX} are shown`;
      throw new ViewerError(this.subject, `graphs are nested ${depth} deep`, limit, "flatten the model");
    }
    const draft = { prefix, nodes: new Map(), edges: await this.pairs(group.dataset("edges"), prefix) };
    const inside = group.group("nodes");
    if (!inside) this.notes.add(`${prefix ? `subgraph ${quoted(prefix.slice(0, -1))}` : "the graph"} has no nodes`);
    for (const [name, item] of inside ? nodeGroups(inside, "") : []) {
      const kind = await this.kind(item);
      if (kind === null) this.notes.add(`node ${quoted(prefix + name)} has no type and is left out`);
      else if (kind !== "NIRGraph") draft.nodes.set(name, { kind, group: item });
      else draft.nodes.set(name, { kind, draft: await this.drafted(item, `${prefix}${name}.`, depth + 1) });
    }
    return draft;
  }

  async pairs(stored, prefix) {
    if (!stored?.size) return [];
    const isPairs = stored.content === "text" && stored.shape.length === 2 && stored.shape[1] === 2;
    if (!isPairs || stored.shape[0] > EDGES_MAX) {
      const found = isPairs ? `it has ${grouped(stored.shape[0])} edges` : "its edges are no pairs of node names";
      const limit = isPairs ? `at most ${grouped(EDGES_MAX)} of a graph are shown` : "";
      throw new ViewerError(`${this.subject}${prefix && `, subgraph ${quoted(prefix.slice(0, -1))}`}`, found, limit);
    }
    const texts = await stored.texts();
    return Array.from({ length: stored.shape[0] }, (_, k) => [texts[2 * k], texts[2 * k + 1]]);
  }

  /** Adds the nodes and edges of a draft under full names. */
  async addGraph(draft) {
    for (const [name, node] of draft.nodes) {
      if (node.draft) await this.addGraph(node.draft);
      else await this.addNode(draft.prefix, name, node);
    }
    for (const [from, to] of draft.edges) {
      const source = this.resolved(from, draft, "Output");
      const target = this.resolved(to, draft, "Input");
      if (source !== null && target !== null) this.edges.push([source, target]);
      else {
        const shown = `${quoted(draft.prefix + from)} -> ${quoted(draft.prefix + to)}`;
        this.notes.add(`edge ${shown} is left out: one of its ends is no node, or several`);
      }
    }
  }

  async addNode(prefix, name, { kind, group }) {
    const id = prefix + name;
    if (this.ids.has(id)) return this.notes.add(`a second node ${quoted(id)} is left out`);
    if (this.ids.size >= NODES_MAX) {
      const limit = `at most ${grouped(NODES_MAX)} are shown`;
      throw new ViewerError(this.subject, "it has too many nodes", limit, "use nirbridge inspect");
    }
    this.ids.add(id);
    await breath();
    if (prefix && (kind === "Input" || kind === "Output")) this.ports.add(id);
    const [params, facts] = [[], []];
    for (const [field, stored] of group.members) {
      if (field === "type" || !(stored instanceof Hdf5Dataset)) continue;
      if (stored.content === "text") facts.push([field, listText(await stored.texts())]);
      else if (SMALL_FIELDS.includes(field) && stored.size <= 32) {
        facts.push([field, listText(await this.values(stored))]);
      } else params.push(await this.param(field, stored));
    }
    facts.push(...(await this.metadata(group)));
    const [inside, shape] = [prefix.slice(0, -1), shapeText(params, facts)];
    this.nodes.push({ id, label: name, type: kind, group: inside, shape, facts, params });
  }

  async values(stored) {
    const refusal = stored.refusal();
    if (refusal) throw new ViewerError(this.subject, refusal);
    return realsOf(await stored.numbers());
  }

  async param(name, stored) {
    const note = stored.refusal();
    const values = note ? null : realsOf(await stored.numbers());
    return { name, shape: stored.shape, dtype: stored.type, values, note };
  }

  async metadata(group, start = "") {
    const facts = [];
    const inside = start ? group : group.group("metadata");
    for (const [name, member] of inside?.members ?? []) {
      const label = (start + name).replace(OWN_KEYS, "");
      if (member instanceof Hdf5Group) facts.push(...(await this.metadata(member, `${label}.`)));
      else if (member.content === "text") facts.push([label, listText(await member.texts()).slice(0, 2000)]);
      else if (member.size <= 64) facts.push(numbersFact(name, label, await this.values(member)));
      else facts.push([label, `${member.type} ${times(member.shape)}`]);
    }
    return facts;
  }

  // -- edges -----------------------------------------------------------------------------------------------------

  /** The full name of the node that an end of an edge means; null where it is none, or not one alone. */
  resolved(end, draft, port) {
    const node = draft.nodes.get(end);
    const names = !node ? [] : node.draft ? portsOf(node.draft, port).map((each) => `${end}.${each}`) : [end];
    for (let dot = end.indexOf("."); dot >= 0; dot = end.indexOf(".", dot + 1)) {
      const sub = draft.nodes.get(end.slice(0, dot))?.draft;
      if (sub?.nodes.get(end.slice(dot + 1))?.kind === port) names.push(end);
    }
    return names.length === 1 && this.ids.has(draft.prefix + names[0]) ? draft.prefix + names[0] : null;
  }

  /** Edges between nodes, where ports of subgraphs are passed through. */
  spliced() {
    const into = new Map([...this.ports].map((port) => [port, []]));
    for (const [source, target] of this.edges) into.get(target)?.push(source);
    const starts = new Map();
    const found = [];
    for (const [source, target] of this.edges) {
      if (this.ports.has(target)) continue;
      if (!starts.has(source)) starts.set(source, this.ports.has(source) ? this.sourcesOf(source, into) : [source]);
      for (const start of starts.get(source)) found.push({ source: start, target, label: "" });
      if (found.length > SPLICED_MAX) throw this.file.tooMany("edges through subgraphs", SPLICED_MAX);
    }
    return found;
  }

  /** The nodes that a port hears, through other ports; a loop of ports alone adds nothing. */
  sourcesOf(port, into) {
    const [found, seen, todo] = [[], new Set([port]), [...into.get(port)].reverse()];
    while (todo.length) {
      const source = todo.pop();
      if (++this.walked > 10 * SPLICED_MAX) throw this.file.tooMany("ways through subgraphs", 10 * SPLICED_MAX);
      if (!into.has(source)) found.push(source);
      else if (!seen.has(source)) {
        seen.add(source);
        todo.push(...[...into.get(source)].reverse());
      }
    }
    return found;
  }
}

/** Metadata that are numbers; the time step that nirbridge stores with its unit. */
const numbersFact = (name, label, values) =>
  name === `${OWN_KEYS}dt` && values.length === 1 ? ["time step", figure(values[0], "s")] : [label, listText(values)];

const portsOf = (draft, port) => [...draft.nodes].filter(([, node]) => node.kind === port).map(([name]) => name);

/** The groups of nodes with their names; HDF5 stores a node called `a/b` as group `b` in group `a`. */
const nodeGroups = (group, start) => {
  const found = [];
  for (const [name, item] of group.members) {
    if (!(item instanceof Hdf5Group)) continue;
    const inside = [...item.members.values()];
    const isPath = inside.length > 0 && inside.every((member) => member instanceof Hdf5Group);
    if (!isPath) found.push([start + name, item]);
    const nested = new Hdf5Group(item.path);
    for (const [key, member] of item.members) {
      const isNode = member instanceof Hdf5Group && !["nodes", "metadata"].includes(key) && member.members.has("type");
      if (isPath || isNode) nested.members.set(key, member);
    }
    found.push(...nodeGroups(nested, `${start}${name}/`));
  }
  return found;
};

/** The shape of a node in a picture: of a port its own, of a matrix "in → out", of neurons that of their parameters. */
const shapeText = (params, facts) => {
  const fact = new Map(facts);
  if (fact.has("shape")) return fact.get("shape").split(", ").join("×");
  const weight = params.find((param) => param.name === "weight")?.shape;
  if (weight?.length === 2) return `${grouped(weight[1])} → ${grouped(weight[0])}`;
  if (weight?.length > 2) return `${grouped(weight[1])} → ${grouped(weight[0])}, ${times(weight.slice(2))}`;
  if (fact.has("kernel_size")) return fact.get("kernel_size").split(", ").join("×");
  return times(params.reduce((longest, param) => (param.shape.length > longest.length ? param.shape : longest), []));
};

const parameterFacts = (nodes) => {
  const count = nodes.reduce((all, node) => all + node.params.reduce((sum, param) => sum + product(param.shape), 0), 0);
  return count ? [["parameters", grouped(count)]] : [];
};
