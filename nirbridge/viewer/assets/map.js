// The floor plan of a .map.json file: cores with their slices, routes, limits (docs/reference/map-file.md).

const RESOURCES = ["neurons", "input_axons", "output_axons", "synapse_words", "decay_profiles", "threshold_profiles"];
const ENERGIES = { synaptic_op_j: "synaptic operations", neuron_access_j: "neuron accesses",
  neuron_update_j: "neuron updates", spike_j: "spikes", axon_out_j: "axons out", hop_x_j: "hops x",
  hop_y_j: "hops y" }; // prettier-ignore
const CORES_MAX = 4e6;
const isFlag = (value) => typeof value === "boolean";
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isText = (value) => typeof value === "string";
const isAmount = (value) => Number.isFinite(value) && value >= 0;
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const orNull = (test) => (value) => value === null || value === undefined || test(value);
const listOf = (test) => (value) => Array.isArray(value) && value.every(test);

const PLACE = { chip: isCount, x: isCount, y: isCount, core: isCount };
const MESH = { width_tiles: isCount, height_tiles: isCount, cores_per_tile: isCount };
const isBox = (pair) => listOf(isCount)(pair) && pair.length === 2 && pair[0] < pair[1];
const FORMS = {
  populations: { name: isText, shape: listOf(isCount), neurons: isCount, kind: isText, relay: isFlag },
  blocks: { id: isCount, core: isObject, slices: Array.isArray, used: isObject },
  projections: { source: isText, target: isText, operator: isObject, delay_steps: isCount, synapses: isCount },
  routes: {
    source_block: orNull(isCount), source_input: orNull(isText), target_block: isCount, spikes_per_step: isAmount,
    hops: isCount,
  }, // prettier-ignore
  inputs: { name: isText, shape: listOf(isCount) },
  outputs: { name: isText, shape: listOf(isCount) },
};

class MapReader {
  constructor(name, record) {
    this.subject = quoted(name);
    this.record = record;
  }

  refused(where, found = "is missing or of another form") {
    return new ViewerError(`${this.subject}, ${where}`, found, "", "write it again with nirbridge map … -o");
  }

  /** Raises where a part lacks a key of its form. */
  check(part, form, where) {
    if (!isObject(part)) throw this.refused(where);
    for (const [key, test] of Object.entries(form)) if (!test(part[key])) throw this.refused(`${where}.${key}`);
    return part;
  }

  document(name) {
    const record = this.record;
    if (record.schema !== 1 && record.schema !== 2) throw this.refused("schema", "is neither 1 nor 2");
    for (const [key, form] of Object.entries(FORMS)) {
      if (!Array.isArray(record[key])) throw this.refused(key);
      record[key].forEach((part, k) => this.check(part, form, `${key}[${k}]`));
    }
    for (const key of ["chip", "totals", "proof"]) if (!isObject(record[key])) throw this.refused(key);
    const plan = this.plan();
    const notes = ["assumed", "notes"].flatMap((key) => (Array.isArray(record[key]) ? record[key].filter(isText) : []));
    return { kind: "map", title: name, facts: this.facts(plan), notes, graph: this.graph(), plan, recording: null };
  }

  facts({ chip, chips, cores, populations }) {
    const { totals, proof, timing, model } = this.record;
    const neurons = populations.reduce((all, each) => all + each.neurons, 0);
    const { energy_per_step_j: energy, multicast_hops: hops, cores_available: available } = totals;
    const { approximate } = this.record;
    const rough = listOf(isText)(approximate) && approximate.some((key) => key.startsWith("energy.")) ? "~" : "";
    const missing = Object.keys(ENERGIES).filter((key) => !isAmount(this.record.chip.energy?.[key]));
    const partial = missing.length ? ` (partial: no data for ${missing.map((key) => ENERGIES[key]).join(", ")})` : "";
    const rows = [
      ["chip", chips > 1 ? `${chips} × ${chip}` : chip],
      ["model", isText(model?.file) ? model.file : ""],
      ["cores", grouped(cores.length) + (isCount(available) ? ` of ${grouped(available)}` : "")],
      ["neurons", grouped(neurons)],
      ["proof", proofText(proof, cores.length)],
      ["time step", isAmount(timing?.dt) ? figure(timing.dt, "s") : ""],
      ["traffic", isAmount(hops) ? `${Number(hops.toPrecision(4))} hops per time step` : ""],
      ["energy", isAmount(energy) ? `${rough}${figure(energy, "J")} per time step${partial}` : "not known"],
      ["nirbridge", isText(this.record.nirbridge) ? this.record.nirbridge : ""],
    ];
    return rows.filter(([, value]) => value);
  }

  graph() {
    const { inputs, outputs, populations, projections } = this.record;
    const node = (id, type, shape, facts) => {
      return { id, label: id, type, group: "", shape: times(shape), facts, params: [] };
    };
    const nodes = [
      ...inputs.map((port) => node(port.name, "Input", port.shape, [])),
      ...populations.map((p) => node(p.name, p.relay ? "relay" : p.kind, p.shape, [["neurons", grouped(p.neurons)]])),
      ...outputs.map((port) => node(port.name, "Output", port.shape, [])),
    ];
    if (nodes.length > NODES_MAX) throw this.refused("populations", `there are ${grouped(nodes.length)}`);
    const ids = new Set(nodes.map(({ id }) => id));
    if (ids.size < nodes.length) throw this.refused("populations", "two have one name");
    projections.forEach((p, k) => {
      if (!ids.has(p.source) || !ids.has(p.target)) throw this.refused(`projections[${k}]`, "joins no two populations");
    });
    return { nodes, edges: projections.map((p) => ({ source: p.source, target: p.target, label: projectionText(p) })) };
  }

  // -- plan ------------------------------------------------------------------------------------------------------

  plan() {
    const { chip, chips, populations, totals } = this.record;
    const mesh = this.check(chip.mesh, MESH, "chip.mesh");
    const [width, height, coresPerTile] = [mesh.width_tiles, mesh.height_tiles, mesh.cores_per_tile];
    if (!isCount(chips) || !(chips * width * height * coresPerTile <= CORES_MAX)) {
      throw this.refused("chip.mesh", `it has more than ${grouped(CORES_MAX)} cores`);
    }
    this.size = { chip: chips, x: width, y: height, core: coresPerTile };
    this.populations = new Map(populations.map((p, k) => [p.name, k]));
    const blocks = new Map(this.record.blocks.map((block, k) => [block.id, k]));
    const named = populations.map(({ name, shape, neurons }) => ({ name, shape, neurons }));
    const cores = this.record.blocks.map((block, k) => this.core(block, `blocks[${k}]`));
    const limitOf = (name) => (isCount(totals[name]?.limit) ? totals[name].limit : null);
    const limits = Object.fromEntries(RESOURCES.map((name) => [name, limitOf(name)]));
    return {
      chip: isText(chip.name) ? chip.name : "a chip without a name", chips, width, height, coresPerTile,
      places: this.places(), dead: this.dead(), populations: named, cores, limits, routes: this.routes(blocks),
    }; // prettier-ignore
  }

  /** Column and row of every chip: a chain along x where the chip does not say otherwise. */
  places() {
    const { chip, chips } = this.record;
    const places = chip.board?.places;
    const isGiven = listOf((place) => listOf(isCount)(place) && place.length === 2)(places) && places.length >= chips;
    return isGiven ? places.slice(0, chips) : Array.from({ length: chips }, (_, k) => [k, 0]);
  }

  dead() {
    const dead = this.record.chip.dead_cores ?? [];
    if (!listOf((core) => listOf(isCount)(core) && core.length === 4)(dead)) throw this.refused("chip.dead_cores");
    return dead.filter(([chip]) => chip < this.record.chips);
  }

  core(block, where) {
    const place = this.check(block.core, PLACE, `${where}.core`);
    for (const [axis, size] of Object.entries(this.size)) {
      if (place[axis] >= size) throw this.refused(`${where}.core`, "lies outside of the chip");
    }
    const slices = block.slices.map((slice, k) => this.slice(slice, `${where}.slices[${k}]`));
    const used = Object.fromEntries(Object.entries(block.used).filter(([, count]) => isCount(count)));
    return { chip: place.chip, x: place.x, y: place.y, core: place.core, slices, used };
  }

  slice(slice, where) {
    this.check(slice, { population: isText, box: listOf(isBox) }, where);
    const population = this.populations.get(slice.population);
    const shape = this.record.populations[population]?.shape;
    const fits = shape?.length === slice.box.length && slice.box.every(([, stop], axis) => stop <= shape[axis]);
    if (!fits) throw this.refused(where, "is no part of a population");
    return { population, box: slice.box, neurons: product(slice.box.map(([start, stop]) => stop - start)) };
  }

  routes(blocks) {
    return this.record.routes.map((route, k) => {
      const [source, target] = [blocks.get(route.source_block) ?? null, blocks.get(route.target_block)];
      const input = route.source_input ?? null;
      const isWhole = target !== undefined && (source === null) !== (input === null);
      if (!isWhole) throw this.refused(`routes[${k}]`, "joins no two blocks");
      return { source, input, target, spikes: route.spikes_per_step, hops: route.hops };
    });
  }
}

const proofText = ({ status, cores_lower_bound: bound }, cores) => {
  if (status === "optimal") return `optimal: no map uses fewer than ${counted(cores, "core")}`;
  if (status === "optimal-sliced") return "optimal among partitions into rectangular slices";
  return isCount(bound) ? `feasible; no map uses fewer than ${counted(bound, "core")}` : "";
};

const projectionText = ({ operator, delay_steps: delay }) => {
  const kind = isText(operator.kind) ? operator.kind : "";
  const isChain = kind === "Chain" && Array.isArray(operator.parts);
  const parts = isChain ? operator.parts.map((part) => part?.kind).filter(isText) : [kind];
  return parts.join(" + ") + (delay ? `, ${counted(delay, "step")} later` : "");
};
