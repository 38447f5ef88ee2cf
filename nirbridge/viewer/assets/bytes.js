// Bytes of a file that nobody vouches for: every access is checked, every size is counted before it is used.

/** The one error of the readers; the four parts that every message of nirbridge has. */
class ViewerError extends Error {
  constructor(subject, found, limit = "", hint = "") {
    super(`${subject}: ${found}${limit && `, ${limit}`}${hint && `; ${hint}`}`);
    Object.assign(this, { name: "ViewerError", subject, found, limit, hint });
  }
}

const FILE_BYTES_MAX = 256 * 2 ** 20;
const ARRAY_VALUES_MAX = 50e6;
const ALL_VALUES_MAX = 64e6;
const NODES_MAX = 100000;
const NAME_MAX = 1000;

const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");
const counted = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
const product = (sizes) => sizes.reduce((all, size) => all * size, 1);
const times = (shape) => shape.map(grouped).join("×");

/** A name from a file in a message: quoted, in one line, cut. */
const quoted = (name, limit = 80) => {
  const text = String(name);
  const short = text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
  return `'${short.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, "\ufffd")}'`;
};

/** Little-endian bytes; an access beyond their end is a ViewerError. */
class Bytes {
  constructor(array, subject) {
    this.array = array;
    this.view = new DataView(array.buffer, array.byteOffset, array.byteLength);
    this.length = array.byteLength;
    this.subject = subject;
  }

  damaged(found) {
    return new ViewerError(this.subject, `it is damaged (${found})`, "", "copy it again, or write it again");
  }

  place(at, size) {
    if (at === null || size === null) throw this.damaged("an address is undefined");
    if (!(at >= 0 && size >= 0 && at + size <= this.length)) {
      throw new ViewerError(this.subject, "it is damaged or cut off", "a part lies beyond its end", "copy it again");
    }
    return at;
  }

  u8(at) {
    return this.view.getUint8(this.place(at, 1));
  }

  u16(at) {
    return this.view.getUint16(this.place(at, 2), true);
  }

  u32(at) {
    return this.view.getUint32(this.place(at, 4), true);
  }

  /** A whole number of 64 bits; null where all bits are set, which is an undefined address. */
  u64(at) {
    this.place(at, 8);
    const low = this.view.getUint32(at, true);
    const high = this.view.getUint32(at + 4, true);
    if (low === 0xffffffff && high === 0xffffffff) return null;
    if (high >= 2 ** 21) throw this.damaged("a number is beyond 2**53");
    return high * 2 ** 32 + low;
  }

  /** A whole number of `size` bytes, at most 8. */
  uint(at, size) {
    if (size === 8) return this.u64(at);
    let value = 0;
    for (let k = size - 1; k >= 0; k--) value = value * 256 + this.u8(at + k);
    if (value > Number.MAX_SAFE_INTEGER) throw this.damaged("a number is beyond 2**53");
    return value;
  }

  part(at, size) {
    this.place(at, size);
    return this.array.subarray(at, at + size);
  }

  letters(at, size) {
    return String.fromCharCode(...this.part(at, size));
  }

  /** Whether these letters stand at a place. */
  has(at, letters) {
    this.place(at, letters.length);
    for (let k = 0; k < letters.length; k++) if (this.array[at + k] !== letters.charCodeAt(k)) return false;
    return true;
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Text of UTF-8 bytes. */
const decoded = (array, subject) => {
  try {
    return UTF8.decode(array);
  } catch {
    throw new ViewerError(subject, "it holds text that is not UTF-8", "", "write it again");
  }
};

/** Lets the page breathe (draw, take a click) where work takes longer than a twentieth of a second. */
const breath = () => {
  if (performance.now() - breath.last < 50) return undefined;
  return new Promise((resume) => setTimeout(resume)).then(() => (breath.last = performance.now()));
};
breath.last = 0;

/** Values that may still be read; arrays beyond it are left out. */
class Budget {
  constructor() {
    this.left = ALL_VALUES_MAX;
  }

  /** The reason why an array of so many values is left out; empty where it is not, and then they are counted. */
  refusal(values, work = values) {
    if (values > ARRAY_VALUES_MAX) {
      return `${grouped(values)} values are left out; at most ${grouped(ARRAY_VALUES_MAX)} of one array are shown`;
    }
    if (Math.max(values, work) > this.left) {
      return `${grouped(values)} values are left out; at most ${grouped(ALL_VALUES_MAX)} of one file are shown`;
    }
    this.left -= Math.max(values, work);
    return "";
  }
}

/** The browser's own way to unpack; browsers of 2023 and later have it. */
const decompression = (form, subject) => {
  try {
    return new DecompressionStream(form);
  } catch {
    const [found, limit] = ["it is packed, and this browser cannot unpack it", "browsers of 2023 and later can"];
    throw new ViewerError(subject, found, limit, "open it in a newer browser");
  }
};

/** The unpacked bytes of a stream of the browser: `size` of them, or a ViewerError, and never more in memory. */
const unpacked = async (packed, form, size, subject) => {
  const out = new Uint8Array(size);
  const fault = (found) => new ViewerError(subject, `it is damaged (${found})`, "", "copy it again, or write it again");
  const stream = decompression(form, subject);
  const writer = stream.writable.getWriter();
  const written = writer.write(packed).then(() => writer.close());
  written.catch(() => undefined); // the reader is told of the same fault
  const reader = stream.readable.getReader();
  let filled = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (filled + value.length > size) throw fault("it unpacks to more than it declares");
      out.set(value, filled);
      filled += value.length;
    }
  } catch (error) {
    reader.cancel().catch(() => undefined);
    throw error instanceof ViewerError ? error : fault("what is packed cannot be unpacked");
  }
  if (filled !== size) throw fault("it unpacks to less than it declares");
  return out;
};

// -- numbers -----------------------------------------------------------------------------------------------------

const halves = (bits) => {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
};

/** Readers of one element of a DataView by type: name, bytes, array that holds the values, access. */
const NUMBERS = {
  bool: [1, Uint8Array, (view, at) => (view.getUint8(at) ? 1 : 0)],
  int8: [1, Int8Array, (view, at) => view.getInt8(at)],
  uint8: [1, Uint8Array, (view, at) => view.getUint8(at)],
  int16: [2, Int16Array, (view, at, little) => view.getInt16(at, little)],
  uint16: [2, Uint16Array, (view, at, little) => view.getUint16(at, little)],
  int32: [4, Int32Array, (view, at, little) => view.getInt32(at, little)],
  uint32: [4, Uint32Array, (view, at, little) => view.getUint32(at, little)],
  int64: [8, Float64Array, (view, at, little) => Number(view.getBigInt64(at, little))],
  uint64: [8, Float64Array, (view, at, little) => Number(view.getBigUint64(at, little))],
  float16: [2, Float32Array, (view, at, little) => halves(view.getUint16(at, little))],
  float32: [4, Float32Array, (view, at, little) => view.getFloat32(at, little)],
  float64: [8, Float64Array, (view, at, little) => view.getFloat64(at, little)],
};

/** `count` numbers of a type as a typed array of their own; 64-bit whole numbers become reals of 64 bits. */
const numbersOf = (array, type, count, little = true) => {
  const [size, Values, read] = NUMBERS[type];
  const view = new DataView(array.buffer, array.byteOffset, count * size);
  const out = new Values(count);
  if (little && Values.BYTES_PER_ELEMENT === size && type !== "bool" && !/^u?int64$/.test(type)) {
    new Uint8Array(out.buffer).set(array.subarray(0, count * size));
    return out;
  }
  for (let k = 0; k < count; k++) out[k] = read(view, k * size, little);
  return out;
};
