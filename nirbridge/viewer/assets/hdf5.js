// HDF5 files as h5py writes them (HDF5 File Format Specification 3.0): no link is followed, every structure is visited
// once, and nothing is unpacked before its size is counted.

const HDF5_SIGNATURE = [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a];
const ITEMS_MAX = 500000;
const LEVELS_MAX = 72;
const BLOCKS_MAX = 1000;
const MESSAGES_MAX = 4e6;
const CHUNKS_MAX = 50000;
const TEXTS_MAX = 400000;
const TEXT_BYTES_MAX = 2 ** 20;
const ALL_TEXT_BYTES_MAX = 64 * 2 ** 20;
const MESSAGE = { space: 1, links: 2, type: 3, oldFill: 4, fill: 5, link: 6, external: 7, layout: 8, groupInfo: 10,
  filters: 11, continuation: 16, table: 17 }; // prettier-ignore

const isHdf5 = (array) => HDF5_SIGNATURE.every((byte, k) => array[k] === byte);

/** A group: its members by name. */
class Hdf5Group {
  constructor(path) {
    this.path = path;
    this.members = new Map();
  }

  group(name) {
    const member = this.members.get(name);
    return member instanceof Hdf5Group ? member : null;
  }

  dataset(name) {
    const member = this.members.get(name);
    return member instanceof Hdf5Dataset ? member : null;
  }
}

class Hdf5File {
  constructor(array, subject, budget) {
    this.bytes = new Bytes(array, subject);
    this.budget = budget;
    this.seen = new Set();
    this.heaps = new Map();
    Object.assign(this, { heapBytes: 0, textBytes: 0, items: 0, messagesRead: 0, chunks: 0 });
  }

  refused(path, found, limit, hint) {
    return new ViewerError(`${this.bytes.subject}, item ${quoted(path, 200)}`, found, limit, hint);
  }

  tooMany(noun, limit) {
    const allowed = `at most ${grouped(limit)} are shown`;
    return new ViewerError(this.bytes.subject, `it has too many ${noun}`, allowed, "use nirbridge inspect");
  }

  /** Notes a structure; a second visit is a cycle or a second name. */
  visit(address, path) {
    if (address === null) throw this.bytes.damaged("an address is undefined");
    if (this.seen.has(address)) {
      const limit = "each may be there once";
      throw this.refused(path, "it is a group or dataset that has another name too", limit, "store a copy of it");
    }
    this.seen.add(address);
    if (++this.items > ITEMS_MAX) throw this.tooMany("items", ITEMS_MAX);
    return address;
  }

  /** The root group with everything in it. */
  async root() {
    const bytes = this.bytes;
    const version = bytes.u8(8);
    const isOld = version < 2;
    if (version > 3) throw bytes.damaged(`version ${version} of its first block is not known`);
    if (bytes.u8(isOld ? 13 : 9) !== 8 || bytes.u8(isOld ? 14 : 10) !== 8) {
      throw new ViewerError(bytes.subject, "its addresses are not of 64 bits", "64 bits are read", "write it again");
    }
    const base = isOld ? 24 + 4 * version : 12;
    if (bytes.u64(base) !== 0) throw bytes.damaged("its addresses do not count from its start");
    const root = new Hdf5Group("");
    const todo = [[this.visit(bytes.u64(isOld ? base + 40 : 36), "/"), root, 0]];
    while (todo.length) {
      await this.addMembers(...todo.pop(), todo);
      await breath();
    }
    return root;
  }

  async addMembers(address, group, level, todo) {
    if (level > LEVELS_MAX) {
      const limit = `at most ${LEVELS_MAX} levels are read`;
      throw this.refused(group.path, `groups are nested ${level} deep`, limit, "flatten the model where it was made");
    }
    const links = this.links(this.messages(address), group.path).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const { name, kind, address: place } of links) {
      const path = group.path ? `${group.path}/${name}` : name;
      const hint = "store the data itself in the file";
      if (kind) throw this.refused(path, `it is ${kind}`, "links are never followed", hint);
      if (this.items % 1000 === 0) await breath();
      const messages = this.messages(this.visit(place, path));
      const types = new Set(messages.map((each) => each.type));
      if (types.has(MESSAGE.layout)) group.members.set(name, new Hdf5Dataset(this, path, messages));
      else if ([MESSAGE.table, MESSAGE.links, MESSAGE.groupInfo].some((type) => types.has(type))) {
        const member = new Hdf5Group(path);
        group.members.set(name, member);
        todo.push([place, member, level + 1]);
      } else throw this.refused(path, "it is a stored type", "only groups and datasets are read", "remove it");
    }
  }

  // -- object headers --------------------------------------------------------------------------------------------

  /** The messages of an object: type, place and size of the data, and whether they are stored elsewhere. */
  messages(address) {
    const bytes = this.bytes;
    const isNew = bytes.has(address, "OHDR");
    if (bytes.u8(isNew ? address + 4 : address) !== (isNew ? 2 : 1)) throw bytes.damaged("an object is missing");
    const flags = isNew ? bytes.u8(address + 5) : 0;
    const start = isNew ? address + 6 + (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0) : address + 16;
    const width = isNew ? 1 << (flags & 3) : 0;
    const blocks = [[start + width, isNew ? bytes.uint(start, width) : bytes.u32(address + 8)]];
    const found = [];
    for (let k = 0; k < blocks.length; k++) {
      if (k > BLOCKS_MAX) throw bytes.damaged("the description of an object does not end");
      this.blockMessages(blocks[k], isNew, isNew ? 4 + (flags & 4 ? 2 : 0) : 8, found, blocks);
    }
    return found;
  }

  blockMessages([start, size], isNew, lead, found, blocks) {
    const bytes = this.bytes;
    const end = bytes.place(start, size) + size;
    for (let at = start; at + lead <= end; ) {
      const type = isNew ? bytes.u8(at) : bytes.u16(at);
      const length = bytes.u16(at + (isNew ? 1 : 2));
      const data = at + lead;
      if (data + length > end) throw bytes.damaged("the description of an object is too long");
      if (++this.messagesRead > MESSAGES_MAX) throw this.tooMany("properties", MESSAGES_MAX);
      if (type === MESSAGE.continuation) blocks.push(this.continuation(bytes.u64(data), bytes.u64(data + 8), isNew));
      else if (type) found.push({ type, at: data, size: length, shared: (bytes.u8(at + (isNew ? 3 : 4)) & 2) !== 0 });
      at = data + length;
    }
  }

  continuation(address, size, isNew) {
    if (address === null || size === null || (isNew && size < 8)) throw this.bytes.damaged("an address is undefined");
    return isNew ? [address + 4, size - 8] : [address, size];
  }

  // -- groups ----------------------------------------------------------------------------------------------------

  /** The links of a group: name, what it is (empty: an object of this file), and the address of the object. */
  links(messages, path) {
    const found = [];
    for (const { type, at, size } of messages) {
      if (type === MESSAGE.link) found.push(this.link(at, size, path));
      else if (type === MESSAGE.table) this.tableLinks(this.bytes.u64(at), this.bytes.u64(at + 8), path, found);
      else if (type === MESSAGE.links) this.denseLinks(at, path, found);
    }
    return found;
  }

  /** A link message: a hard, soft or external link. */
  link(at, size, path) {
    const bytes = this.bytes;
    const flags = bytes.u8(at + 1);
    let next = at + 2;
    const kind = flags & 8 ? bytes.u8(next++) : 0;
    next += (flags & 4 ? 8 : 0) + (flags & 16 ? 1 : 0);
    const width = 1 << (flags & 3);
    const length = bytes.uint(next, width);
    const name = this.name(next + width, length, path);
    const kinds = { 0: "", 1: "a soft link", 64: "a link to another file" };
    next += width + length;
    if (next + (kind ? 0 : 8) > at + size) throw bytes.damaged("a link is cut off");
    return { name, kind: kinds[kind] ?? "an unknown link", address: kind ? null : bytes.u64(next) };
  }

  name(at, length, path) {
    if (length > NAME_MAX) {
      const found = `a name in it has ${grouped(length)} bytes`;
      throw this.refused(path, found, `at most ${grouped(NAME_MAX)}`, "rename it");
    }
    return decoded(this.bytes.part(at, length), this.bytes.subject);
  }

  /** Links of a symbol table: a B-tree of leaves, their names in a local heap. */
  tableLinks(tree, heap, path, found) {
    const bytes = this.bytes;
    if (!bytes.has(heap, "HEAP")) throw bytes.damaged("the names of a group are missing");
    const [names, size] = [bytes.u64(heap + 24), bytes.u64(heap + 8)];
    bytes.place(names, size);
    for (const leaf of this.treeChildren(tree, 0, 8, path)) {
      if (!bytes.has(leaf.child, "SNOD")) throw bytes.damaged("a part of a group is missing");
      const count = bytes.u16(leaf.child + 6);
      if (found.length + count > ITEMS_MAX) throw this.tooMany("items", ITEMS_MAX);
      for (let k = 0; k < count; k++) {
        const entry = leaf.child + 8 + 40 * k;
        const start = names + bytes.u64(entry);
        const length = bytes.part(start, Math.max(0, Math.min(NAME_MAX + 1, names + size - start))).indexOf(0);
        const isLink = bytes.u32(entry + 16) === 2;
        const name = this.name(start, length < 0 ? NAME_MAX + 1 : length, path);
        found.push({ name, kind: isLink ? "a soft link" : "", address: bytes.u64(entry + 8) });
      }
    }
  }

  /** The leaves of a B-tree of version 1, in order: each child with the place of its key. */
  treeChildren(address, type, keySize, path) {
    const bytes = this.bytes;
    const leaves = [];
    const todo = [[address, null]];
    while (todo.length) {
      const [node, above] = todo.pop();
      this.visit(node, path);
      const level = bytes.u8(node + 5);
      if (!bytes.has(node, "TREE") || bytes.u8(node + 4) !== type || (above !== null && level !== above - 1)) {
        throw bytes.damaged("an index is missing");
      }
      const count = bytes.u16(node + 6);
      const below = [];
      for (let k = 0; k < count; k++) {
        const key = node + 24 + (keySize + 8) * k;
        const child = bytes.u64(key + keySize);
        if (level) below.push([child, level]);
        else leaves.push({ key, child: this.visit(child, path) });
      }
      todo.push(...below.reverse());
    }
    return leaves;
  }

  /** Links of a large group of a new file: records of a B-tree of version 2 point into a fractal heap. */
  denseLinks(at, path, found) {
    const bytes = this.bytes;
    const [flags, place] = [bytes.u8(at + 1), at + 2 + (bytes.u8(at + 1) & 1 ? 8 : 0)];
    if (flags > 3) throw bytes.damaged("a group is of an unknown form");
    const [heap, tree] = [bytes.u64(place), bytes.u64(place + 8)];
    if (heap === null || tree === null) return;
    const objects = new FractalHeap(this, heap);
    for (const record of recordsOfTree(this, tree, 5, 11, path)) {
      const [start, size] = objects.object(record + 4);
      found.push(this.link(start, size, path));
    }
  }

  // -- text of varying length ------------------------------------------------------------------------------------

  /** The text that a reference of 16 bytes points to, in a global heap. */
  text(reference) {
    const length = reference.u32(0);
    if (!length) return "";
    this.textBytes += length;
    if (length > TEXT_BYTES_MAX) throw this.tooMany("bytes in one text", TEXT_BYTES_MAX);
    if (this.textBytes > ALL_TEXT_BYTES_MAX) throw this.tooMany("bytes of text", ALL_TEXT_BYTES_MAX);
    const [start, size] = this.heapObjects(reference.u64(4)).get(reference.u32(12)) ?? [0, -1];
    if (size < length) throw this.bytes.damaged("a text is not where its reference points");
    const all = this.bytes.part(start, length);
    const end = all.indexOf(0);
    return decoded(end < 0 ? all : all.subarray(0, end), this.bytes.subject);
  }

  heapObjects(address) {
    if (this.heaps.has(address)) return this.heaps.get(address);
    const bytes = this.bytes;
    if (address === null || !bytes.has(address, "GCOL")) throw bytes.damaged("a heap of texts is missing");
    const size = bytes.u64(address + 8);
    bytes.place(address, size);
    this.heapBytes += size;
    if (this.heapBytes > 2 * bytes.length) throw bytes.damaged("its heaps of texts overlap");
    const objects = new Map();
    for (let at = address + 16; at + 16 <= address + size; ) {
      const [index, length] = [bytes.u16(at), bytes.u64(at + 8)];
      if (!index) break; // the free space at the end
      if (at + 16 + length > address + size) throw bytes.damaged("a heap of texts is damaged");
      objects.set(index, [at + 16, length]);
      at += 16 + 8 * Math.ceil(length / 8);
    }
    this.heaps.set(address, objects);
    return objects;
  }
}
