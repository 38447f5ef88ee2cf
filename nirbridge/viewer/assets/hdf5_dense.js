// Large groups of new HDF5 files: B-trees of version 2 and fractal heaps (h5py with libver="latest").

/** The places of all records of a B-tree of version 2. */
const recordsOfTree = (file, address, type, recordSize, path) => {
  const bytes = file.bytes;
  if (!bytes.has(address, "BTHD") || bytes.u8(address + 5) !== type || bytes.u16(address + 10) !== recordSize) {
    throw bytes.damaged("an index is missing");
  }
  const [nodeSize, depth] = [bytes.u32(address + 6), bytes.u16(address + 12)];
  const [root, count] = [bytes.u64(address + 16), bytes.u16(address + 24)];
  if (depth > 8) throw bytes.damaged("an index is too deep");
  const found = [];
  const todo = root === null ? [] : [[root, count, depth]];
  const widths = treeWidths(nodeSize, recordSize, depth);
  while (todo.length) {
    const [node, records, level] = todo.pop();
    file.visit(node, path);
    if (bytes.letters(node, 4) !== (level ? "BTIN" : "BTLF")) throw bytes.damaged("a part of an index is missing");
    if (found.length + records > ITEMS_MAX) throw file.tooMany("items", ITEMS_MAX);
    for (let k = 0; k < records; k++) found.push(bytes.place(node + 6 + k * recordSize, recordSize));
    if (!level) continue;
    const [own, all] = widths[level];
    const start = node + 6 + records * recordSize;
    for (let k = 0; k <= records; k++) {
      const pointer = start + k * (8 + own + all);
      todo.push([bytes.u64(pointer), bytes.uint(pointer + 8, own), level - 1]);
    }
  }
  return found;
};

const bytesOf = (value) => Math.max(1, Math.ceil(Math.log2(value + 1) / 8));

/** By level: bytes of the number of records of a child, and of that of all records below it. */
const treeWidths = (nodeSize, recordSize, depth) => {
  const leaf = Math.floor((nodeSize - 10) / recordSize);
  const widths = [[0, 0]];
  let total = leaf;
  for (let level = 1; level <= depth; level++) {
    const [own, all] = [bytesOf(leaf), level > 1 ? bytesOf(total) : 0];
    const records = Math.floor((nodeSize - 10 - (8 + own + all)) / (recordSize + 8 + own + all));
    total = (records + 1) * total + records;
    widths.push([own, all]);
  }
  return widths;
};

/** Objects of a heap of blocks that double in size; those of a group are the messages of its links. */
class FractalHeap {
  constructor(file, address) {
    this.file = file;
    const bytes = (this.bytes = file.bytes);
    if (!bytes.has(address, "FRHP")) throw bytes.damaged("a heap of links is missing");
    if (bytes.u16(address + 7)) throw bytes.damaged("a heap of links is packed");
    this.width = bytes.u16(address + 110);
    this.blockSize = bytes.u64(address + 112);
    this.largest = bytes.u64(address + 120);
    this.offsetBytes = Math.ceil(bytes.u16(address + 128) / 8);
    this.lengthBytes = Math.min(Math.ceil(Math.log2(this.largest) / 8), bytesOf(bytes.u32(address + 10)));
    this.root = bytes.u64(address + 132);
    this.rows = bytes.u16(address + 140);
    if (!(this.width > 0 && this.blockSize > 0 && this.largest >= this.blockSize) || this.rows > 64) {
      throw bytes.damaged("a heap of links is of an unknown form");
    }
  }

  /** Place and size of the object of an ID of 7 bytes. */
  object(id) {
    const bytes = this.bytes;
    if (bytes.u8(id) & 0xf0) throw bytes.damaged("a link is stored in an unknown way");
    const offset = bytes.uint(id + 1, this.offsetBytes);
    const size = bytes.uint(id + 1 + this.offsetBytes, this.lengthBytes);
    if (!this.rows) return [this.inside(this.root, offset, size, this.blockSize), size];
    let [table, rows, rest] = [this.root, this.rows, offset];
    for (let depth = 0; depth < 8; depth++) {
      if (!bytes.has(table, "FHIB")) throw bytes.damaged("a heap of links is damaged");
      const [row, column, into, blockSize] = this.entry(rest, rows);
      const start = table + 13 + this.offsetBytes;
      const child = bytes.u64(start + 8 * (row * this.width + column));
      if (blockSize <= this.largest) return [this.inside(child, into, size, blockSize), size];
      [table, rest, rows] = [child, into, this.rowsOf(blockSize)];
    }
    throw bytes.damaged("a heap of links is nested too deeply");
  }

  /** Row and column of the block that an offset lies in, the offset within it, and the size of the block. */
  entry(offset, rows) {
    let start = 0;
    for (let row = 0; row < rows; row++) {
      const size = this.sizeOf(row);
      if (offset < start + this.width * size) {
        const column = Math.floor((offset - start) / size);
        return [row, column, offset - start - column * size, size];
      }
      start += this.width * size;
    }
    throw this.bytes.damaged("a link lies beyond its heap");
  }

  sizeOf(row) {
    return this.blockSize * 2 ** Math.max(0, row - 1);
  }

  rowsOf(size) {
    return Math.log2(size / (this.blockSize * this.width)) + 1;
  }

  inside(block, offset, size, blockSize) {
    const bytes = this.bytes;
    if (!bytes.has(block, "FHDB") || offset + size > blockSize) throw bytes.damaged("a link is missing");
    return bytes.place(block + offset, size);
  }
}
