// Values of HDF5 datasets: type, shape, layout and filters are checked first, then the values are read and unpacked.

const FILTERS = { 4: "szip", 5: "nbit", 6: "scaleoffset" };
const LZF = 32000;
const FLOATS = { 2: [5, 10], 4: [8, 23], 8: [11, 52] };

class Hdf5Dataset {
  constructor(file, path, messages) {
    Object.assign(this, { file, path, bytes: file.bytes });
    const first = (type) => messages.find((each) => each.type === type);
    if (first(MESSAGE.external)) {
      throw this.refused("its data lie in another file", "other files are never read", "store the data in the file");
    }
    for (const type of [MESSAGE.type, MESSAGE.space]) {
      if (!first(type)) throw this.bytes.damaged("a dataset is without a type or a shape");
    }
    if (messages.some((each) => each.shared && each.type !== 12)) {
      throw this.refused("it is of a stored type", "types of their own are read", "store it as floats");
    }
    this.shape = this.readShape(first(MESSAGE.space).at);
    this.size = product(this.shape);
    this.readType(first(MESSAGE.type).at);
    this.fill = this.readFill(first(MESSAGE.fill));
    this.filters = first(MESSAGE.filters) ? this.readFilters(first(MESSAGE.filters).at) : [];
    this.readLayout(first(MESSAGE.layout).at);
  }

  refused(found, limit, hint) {
    return this.file.refused(this.path, found, limit, hint);
  }

  readShape(at) {
    const bytes = this.bytes;
    const [version, axes] = [bytes.u8(at), bytes.u8(at + 1)];
    if (version === 2 && bytes.u8(at + 3) === 2) {
      throw this.refused("it is empty (null)", "numbers or text are expected", "store a value or remove it");
    }
    if ((version !== 1 && version !== 2) || axes > 32) throw bytes.damaged("a shape is of an unknown form");
    const shape = Array.from({ length: axes }, (_, k) => bytes.u64(at + (version === 1 ? 8 : 4) + 8 * k));
    if (!Number.isSafeInteger(product(shape.map((n) => n || 1)))) {
      throw this.refused("it declares too many values", "2**53 can be counted", "write it again");
    }
    return shape;
  }

  /** Content (number, truth, text), name of the numbers, order and size of the bytes. */
  readType(at) {
    const bytes = this.bytes;
    const [kind, bits] = [bytes.u8(at) & 15, bytes.u8(at + 1)];
    this.width = bytes.u32(at + 4);
    this.little = (bits & 1) === 0;
    this.content = "number";
    if (kind === 0 && [1, 2, 4, 8].includes(this.width) && bytes.u32(at + 8) === this.width << 19) {
      this.type = `${bits & 8 ? "" : "u"}int${8 * this.width}`;
    } else if (kind === 1 && this.isPlainFloat(at)) this.type = `float${8 * this.width}`;
    else if (kind === 3 && this.width > 0) [this.content, this.type] = ["text", "fixed"];
    else if (kind === 9 && (bits & 15) === 1 && this.width === 16) [this.content, this.type] = ["text", "varying"];
    else if (kind === 8 && this.width === 1 && bytes.u16(at + 1) === 2) [this.content, this.type] = ["truth", "bool"];
    else {
      const limit = "real numbers of at most 64 bits, truth values or text are read";
      throw this.refused("its values are of an unusual type", limit, "store it as floats");
    }
  }

  isPlainFloat(at) {
    const bytes = this.bytes;
    const [exponent, fraction] = FLOATS[this.width] ?? [];
    const isWhole = bytes.u32(at + 8) === this.width << 19 && (bytes.u8(at + 1) & 64) === 0;
    return isWhole && bytes.u8(at + 13) === exponent && bytes.u8(at + 15) === fraction && bytes.u8(at + 14) === 0;
  }

  /** The bytes of one element that was never written; null: zeros. */
  readFill(message) {
    if (!message) return null;
    const bytes = this.bytes;
    const [at, version] = [message.at, bytes.u8(message.at)];
    const isDefined = version === 3 ? bytes.u8(at + 1) & 32 : version === 1 || bytes.u8(at + 3);
    const start = at + (version === 3 ? 2 : 4);
    if (!isDefined || bytes.u32(start) !== this.width) return null;
    const fill = bytes.part(start + 4, this.width);
    return fill.some((byte) => byte) ? fill : null;
  }

  readFilters(at) {
    const bytes = this.bytes;
    const [version, count] = [bytes.u8(at), bytes.u8(at + 1)];
    const filters = [];
    let next = at + (version === 1 ? 8 : 2);
    for (let k = 0; k < count; k++) {
      const code = bytes.u16(next);
      const named = version === 1 || code >= 256;
      const length = named ? bytes.u16(next + 2) : 0;
      const values = bytes.u16(next + (named ? 6 : 4));
      next += (named ? 8 : 6) + (version === 1 ? 8 * Math.ceil(length / 8) : length);
      next += 4 * (version === 1 ? values + (values % 2) : values);
      if (![1, 2, 3, LZF].includes(code)) {
        const found = `it is packed with ${FILTERS[code] ?? `filter ${code}`}`;
        throw this.refused(found, "gzip, lzf, shuffle and fletcher32 are read here", "store it again with nir.write");
      }
      filters.push(code);
    }
    return filters;
  }

  readLayout(at) {
    const bytes = this.bytes;
    const version = bytes.u8(at);
    if (version < 3 || version > 5) {
      const found = "it is stored in a form of before 2004";
      throw this.refused(found, "newer ones are read", "write it again with nir.write");
    }
    this.layout = ["compact", "contiguous", "chunked"][bytes.u8(at + 1)];
    if (this.layout === "compact") this.stored = [at + 4, bytes.u16(at + 2)];
    else if (this.layout === "contiguous") this.stored = [bytes.u64(at + 2), bytes.u64(at + 10)];
    else if (!this.layout) {
      const hint = "store the data itself in the file";
      throw this.refused("it is a virtual dataset", "other files are never read", hint);
    } else if (version === 3) this.readChunks(at + 11, bytes.u8(at + 2), 4, bytes.u64(at + 3));
    else this.readNewChunks(at);
  }

  readNewChunks(at) {
    const bytes = this.bytes;
    const [flags, axes, width] = [bytes.u8(at + 2), bytes.u8(at + 3), bytes.u8(at + 4)];
    if (width < 1 || width > 8) throw bytes.damaged("a chunk is of an unknown form");
    const next = at + 5 + axes * width;
    this.index = bytes.u8(next);
    if (this.index === 1 && flags & 2) this.single = [bytes.u64(next + 1), bytes.u32(next + 9)];
    const rest = { 1: flags & 2 ? 12 : 0, 2: 0, 3: 1 }[this.index];
    if (rest === undefined) {
      throw this.refused("its chunks can grow", "arrays of one size are read here", "store it again with nir.write");
    }
    this.readChunks(at + 5, axes, width, bytes.u64(next + 1 + rest));
  }

  /** Sizes of a chunk, `width` bytes each; the last of them is that of an element. */
  readChunks(at, axes, width, address) {
    const sizes = Array.from({ length: axes }, (_, k) => this.bytes.uint(at + k * width, width));
    this.chunk = sizes.slice(0, -1);
    this.address = address;
    this.chunkBytes = product(sizes);
    if (axes !== this.shape.length + 1 || sizes[axes - 1] !== this.width || sizes.some((n) => !n)) {
      throw this.bytes.damaged("a chunk has another form than its dataset");
    }
    this.grid = this.shape.map((n, k) => Math.ceil(n / this.chunk[k]));
    this.file.chunks += product(this.grid);
    if (this.file.chunks > CHUNKS_MAX) {
      const found = `it has ${grouped(this.file.chunks)} chunks with those before it`;
      throw this.refused(found, `at most ${grouped(CHUNKS_MAX)} of one file are read`, "store it in larger chunks");
    }
  }

  // -- values ----------------------------------------------------------------------------------------------------

  /** The reason why the values are left out, or nothing and they are counted. */
  refusal() {
    return this.file.budget.refusal(this.size, this.work());
  }

  /** Values that have to be unpacked: chunks may be larger than their dataset. */
  work() {
    return this.layout === "chunked" ? product(this.grid) * product(this.chunk) : this.size;
  }

  /** The numbers as a typed array; call `refusal` first. */
  async numbers() {
    return numbersOf(await this.stuff(), this.type, this.size, this.little);
  }

  /** The texts of a dataset. */
  async texts() {
    if (this.size > TEXTS_MAX || this.file.budget.refusal(this.size * this.width, this.work() * this.width)) {
      const limit = `at most ${grouped(TEXTS_MAX)} are read`;
      throw this.refused(`it holds ${grouped(this.size)} texts`, limit, "shorten it");
    }
    const stuff = new Bytes(await this.stuff(), this.bytes.subject);
    return Array.from({ length: this.size }, (_, k) => {
      const part = stuff.part(k * this.width, this.width);
      if (this.type === "varying") return this.file.text(new Bytes(part, this.bytes.subject));
      return decoded(part, this.bytes.subject).replace(/\0.*$/s, "");
    });
  }

  /** All bytes of the values as they are declared, unpacked. */
  async stuff() {
    const size = this.size * this.width;
    if (this.layout === "chunked") return this.chunks(size);
    const [at, stored] = this.stored;
    if (at === null || (stored === 0 && size)) return this.blank(size);
    if (stored < size) throw this.bytes.damaged("a dataset holds less than it declares");
    return this.bytes.part(at, size);
  }

  blank(size) {
    const out = new Uint8Array(size);
    if (!this.fill || !size) return out;
    out.set(this.fill);
    for (let filled = this.width; filled < size; filled *= 2) {
      out.copyWithin(filled, 0, Math.min(filled, size - filled));
    }
    return out;
  }

  async chunks(size) {
    const out = this.blank(size);
    if (this.address === null || !size) return out;
    for (const { at, stored, mask, origin } of this.places()) {
      if (stored > this.chunkBytes + Math.ceil(this.chunkBytes / 64) + 1024) {
        throw this.bytes.damaged("a stored chunk is larger than the chunk it holds");
      }
      await breath();
      this.put(out, await this.unpack(this.bytes.part(at, stored), mask), origin);
    }
    return out;
  }

  /** Place, stored size, skipped filters and first element of every chunk. */
  places() {
    const bytes = this.bytes;
    if (this.index === undefined) {
      const keySize = 8 + 8 * (this.shape.length + 1);
      return this.file.treeChildren(this.address, 1, keySize, this.path).map(({ key, child }) => {
        const origin = this.shape.map((_, k) => bytes.u64(key + 8 + 8 * k));
        return { at: child, stored: bytes.u32(key), mask: bytes.u32(key + 4), origin };
      });
    }
    if (this.index === 3) return this.fixedArray();
    const [stored, mask] = this.single ?? [this.chunkBytes, 0];
    return Array.from({ length: product(this.grid) }, (_, k) => {
      return { at: this.address + k * this.chunkBytes, stored, mask, origin: this.origin(k) };
    });
  }

  origin(k) {
    const origin = [];
    for (let axis = this.grid.length - 1, rest = k; axis >= 0; axis--) {
      origin.unshift((rest % this.grid[axis]) * this.chunk[axis]);
      rest = Math.floor(rest / this.grid[axis]);
    }
    return origin;
  }

  /** Chunks of an index of fixed length, in pages where it is long. */
  fixedArray() {
    const bytes = this.bytes;
    const [head, width] = [this.address, bytes.u8(this.address + 6)];
    const [page, count, block] = [2 ** bytes.u8(head + 7), bytes.u64(head + 8), bytes.u64(head + 16)];
    const isPacked = bytes.u8(head + 5) === 1;
    const isSound = bytes.has(head, "FAHD") && count === product(this.grid) && width >= (isPacked ? 13 : 8);
    if (!isSound) throw bytes.damaged("an index of chunks is missing");
    if (block === null) return [];
    if (!bytes.has(block, "FADB")) throw bytes.damaged("an index of chunks is damaged");
    const pages = count > page ? Math.ceil(count / page) : 0;
    const start = block + 14 + (pages ? Math.ceil(pages / 8) + 4 : 0);
    const found = [];
    for (let k = 0; k < count; k++) {
      const number = pages ? Math.floor(k / page) : 0;
      if (pages && !(bytes.u8(block + 14 + (number >> 3)) & (128 >> (number & 7)))) continue;
      const entry = start + k * width + 4 * number;
      const at = bytes.u64(entry);
      if (at === null) continue;
      const stored = isPacked ? bytes.uint(entry + 8, width - 12) : this.chunkBytes;
      found.push({ at, stored, mask: isPacked ? bytes.u32(entry + width - 4) : 0, origin: this.origin(k) });
    }
    return found;
  }

  async unpack(packed, mask) {
    let data = packed;
    for (let k = this.filters.length - 1; k >= 0; k--) {
      if ((mask >>> k) & 1) continue;
      if (this.filters[k] === 3) data = this.checked(data);
      else if (this.filters[k] === 2) data = this.unshuffled(data);
      else if (this.filters[k] === LZF) data = this.unpackedLzf(data);
      else data = await unpacked(data, "deflate", this.chunkBytes, this.bytes.subject);
    }
    if (data.length !== this.chunkBytes) throw this.bytes.damaged("a chunk holds more or less than it declares");
    return data;
  }

  /** LZF of h5py: runs of new bytes, and copies of bytes before them. */
  unpackedLzf(packed) {
    const [out, from] = [new Uint8Array(this.chunkBytes), new Bytes(packed, this.bytes.subject)];
    let at = 0;
    for (let k = 0; k < packed.length; ) {
      const control = packed[k++];
      if (control < 32) {
        if (at + control + 1 > out.length) throw this.bytes.damaged("it unpacks to more than it declares");
        out.set(from.part(k, control + 1), at);
        [k, at] = [k + control + 1, at + control + 1];
        continue;
      }
      const length = (control >> 5) + 2 + (control >> 5 === 7 ? from.u8(k++) : 0);
      const start = at - (control & 31) * 256 - from.u8(k++) - 1;
      if (start < 0 || at + length > out.length) throw this.bytes.damaged("what is packed cannot be unpacked");
      for (let copied = 0; copied < length; copied++) out[at++] = out[start + copied];
    }
    return out.subarray(0, at);
  }

  unshuffled(data) {
    const [out, count] = [new Uint8Array(data.length), Math.floor(data.length / this.width)];
    for (let byte = 0; byte < this.width; byte++) {
      for (let k = 0; k < count; k++) out[k * this.width + byte] = data[byte * count + k];
    }
    out.set(data.subarray(count * this.width), count * this.width);
    return out;
  }

  /** The data without its Fletcher checksum of 4 bytes, which has to be right. */
  checked(data) {
    const size = data.length - 4;
    if (size < 0) throw this.bytes.damaged("a checksum is missing");
    let [a, b] = [0, 0];
    for (let k = 0; k < size; k += 2) {
      a = (a + data[k] * 256 + (k + 1 < size ? data[k + 1] : 0)) % 65535;
      b = (b + a) % 65535;
    }
    const stored = new Bytes(data.subarray(size), this.bytes.subject);
    const isRight = stored.u16(0) % 65535 === a && stored.u16(2) % 65535 === b;
    if (!isRight) throw this.bytes.damaged("a checksum does not match");
    return data.subarray(0, size);
  }

  /** Copies the part of a chunk that lies within the dataset. */
  put(out, piece, origin) {
    const counts = this.chunk.map((n, k) => Math.min(n, this.shape[k] - origin[k]));
    if (counts.some((n) => !(n > 0)) || origin.some((n, k) => n % this.chunk[k])) {
      throw this.bytes.damaged("a chunk lies outside of its dataset");
    }
    const last = counts.length - 1;
    const rows = product(counts.slice(0, -1));
    for (let row = 0; row < rows; row++) {
      let [rest, from, to, stepFrom, stepTo] = [row, 0, origin[last], this.chunk[last], this.shape[last]];
      for (let axis = last - 1; axis >= 0; axis--) {
        const k = rest % counts[axis];
        rest = Math.floor(rest / counts[axis]);
        [from, to] = [from + k * stepFrom, to + (origin[axis] + k) * stepTo];
        [stepFrom, stepTo] = [stepFrom * this.chunk[axis], stepTo * this.shape[axis]];
      }
      out.set(piece.subarray(from * this.width, (from + counts[last]) * this.width), to * this.width);
    }
  }
}
