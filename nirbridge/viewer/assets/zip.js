// ZIP archives of .npy arrays: members that are stored or deflated, plain numbers and one text; sizes come first.

const MEMBERS_MAX = 100000;
const UNPACKED_MAX = 512 * 2 ** 20;
const NPY_TYPE = "(\\|b1|\\|[iu]1|[<>][iu][248]|[<>]f[248])";
const NPY_SHAPE = "\\(((?:\\d{1,15}(?:, \\d{1,15})*,?)?)\\)";
const NPY_NUMBERS = new RegExp(
  `^\\{'descr': '${NPY_TYPE}', 'fortran_order': (True|False), 'shape': ${NPY_SHAPE},? *\\}\\s*$`,
);
const NPY_TEXT = /^\{'descr': '<U(\d{1,8})', 'fortran_order': False, 'shape': \(\),? *\} *\s*$/;
const NPY_KINDS = { b: "bool", i: "int", u: "uint", f: "float" };

const isZip = (array) => array[0] === 0x50 && array[1] === 0x4b;

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let k = 0; k < 8; k++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

const crcOf = (array) => {
  let crc = 0xffffffff;
  for (let k = 0; k < array.length; k++) crc = CRC_TABLE[(crc ^ array[k]) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
};

class Archive {
  constructor(array, subject) {
    this.bytes = new Bytes(array, subject);
    this.subject = subject;
    this.left = UNPACKED_MAX;
    this.arrays = new Map();
    this.members = new Map();
    this.readDirectory();
  }

  readDirectory() {
    const bytes = this.bytes;
    const least = Math.max(0, bytes.length - 65557);
    let end = bytes.length - 22;
    while (end >= least && bytes.u32(end) !== 0x06054b50) end--;
    if (end < least) {
      throw new ViewerError(this.subject, "it is damaged or cut off", "its directory is missing", "copy it again");
    }
    const [count, start] = [bytes.u16(end + 10), bytes.u32(end + 16)];
    if (count === 0xffff || start === 0xffffffff) {
      const limit = `at most ${grouped(0xffff)} are shown`;
      throw new ViewerError(this.subject, "it has too many arrays", limit, "use nirbridge show");
    }
    for (let k = 0, at = start; k < count && k < MEMBERS_MAX; k++) {
      if (bytes.u32(at) !== 0x02014b50) throw bytes.damaged("its directory is cut off");
      const sizes = [bytes.u16(at + 28), bytes.u16(at + 30), bytes.u16(at + 32)];
      const name = decoded(bytes.part(at + 46, sizes[0]), this.subject).replace(/\.npy$/, "");
      if (this.members.has(name)) throw new ViewerError(`${this.subject}, array ${quoted(name)}`, "occurs twice");
      this.members.set(name, {
        name, flags: bytes.u16(at + 8), method: bytes.u16(at + 10), crc: bytes.u32(at + 16), packed: bytes.u32(at + 20),
        size: bytes.u32(at + 24), at: bytes.u32(at + 42),
      }); // prettier-ignore
      at += 46 + sizes[0] + sizes[1] + sizes[2];
    }
  }

  /** The bytes of a member, unpacked; their checksum has to be right. */
  async content(member) {
    const { bytes, subject } = this;
    const { at, size } = member;
    if (member.flags & 1 || (member.method !== 0 && member.method !== 8)) {
      const found = "is encrypted or packed in an unknown way";
      throw new ViewerError(`${subject}, array ${quoted(member.name)}`, found, "", "write it with numpy.savez");
    }
    this.left -= size;
    if (this.left < 0) {
      const limit = `at most ${grouped(UNPACKED_MAX)} bytes are shown`;
      const found = `it unpacks to more than ${grouped(UNPACKED_MAX - this.left - 1)} bytes`;
      throw new ViewerError(subject, found, limit, "record fewer nodes");
    }
    if (bytes.u32(at) !== 0x04034b50) throw bytes.damaged("an array is missing");
    const data = bytes.part(at + 30 + bytes.u16(at + 26) + bytes.u16(at + 28), member.packed);
    if (member.method === 0 && member.packed !== size) throw bytes.damaged("an array is cut off");
    const out = member.method ? await unpacked(data, "deflate-raw", size, subject) : data;
    if (crcOf(out) !== member.crc) throw bytes.damaged("a checksum does not match");
    return out;
  }

  /** An array by its name: `{shape, type, values}`, or `{text}`; each is unpacked once. */
  async array(name) {
    if (!this.arrays.has(name)) {
      const member = this.members.get(name);
      const subject = `${this.subject}, array ${quoted(name)}`;
      if (!member) throw new ViewerError(subject, "is missing", "", "write the file again");
      this.arrays.set(name, npyArray(await this.content(member), subject));
    }
    return this.arrays.get(name);
  }
}

/** A .npy file of format 1.0, as numpy writes it. */
const npyArray = (array, subject) => {
  const bytes = new Bytes(array, subject);
  const isNpy = bytes.length > 10 && bytes.letters(1, 5) === "NUMPY" && bytes.u8(0) === 0x93 && bytes.u16(6) === 1;
  const length = isNpy ? bytes.u16(8) : 0;
  const header = isNpy ? bytes.letters(10, length) : "";
  const [text, numbers] = [NPY_TEXT.exec(header), NPY_NUMBERS.exec(header)];
  const data = array.subarray(10 + length);
  if (text) return { text: textOf(data, Number(text[1]), subject) };
  if (!numbers) {
    throw new ViewerError(subject, "is no array of plain numbers", "", "save plain numbers with numpy.savez");
  }
  const shape = (numbers[3].match(/\d+/g) ?? []).map(Number);
  const [, kind, size] = numbers[1];
  const type = kind === "b" ? "bool" : `${NPY_KINDS[kind]}${8 * Number(size)}`;
  const count = product(shape);
  const isWhole = count <= 8 * ARRAY_VALUES_MAX && count * NUMBERS[type][0] <= data.length;
  if (!isWhole) throw bytes.damaged("an array ends early");
  const values = numbersOf(data, type, count, numbers[1][0] !== ">");
  return { shape, type, values: numbers[2] === "True" ? rowMajor(values, shape) : values };
};

const textOf = (data, length, subject) => {
  const bytes = new Bytes(data, subject);
  const points = [];
  for (let k = 0; k < length; k++) {
    const point = bytes.u32(4 * k);
    if (point > 0x10ffff) throw bytes.damaged("a text is none");
    points.push(String.fromCodePoint(point));
  }
  return points.join("").replace(/\0+$/, "");
};

/** Values that are stored with the first axis fastest, with the last axis fastest. */
const rowMajor = (values, shape) => {
  const out = new values.constructor(values.length);
  const index = shape.map(() => 0);
  const strides = shape.map((_, axis) => product(shape.slice(0, axis)));
  for (let k = 0, from = 0; k < values.length; k++) {
    out[k] = values[from];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      from += strides[axis];
      if (++index[axis] < shape[axis]) break;
      from -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return out;
};

/** The node's name of the name of an array in a recording: `%XX` are bytes of UTF-8, `%` alone an empty segment. */
const decodedName = (name, subject) => {
  const text = name.split("/").map((part) => (part === "%" ? "" : part)).join("/");
  const bytes = new TextEncoder().encode(text);
  const out = [];
  for (let k = 0; k < bytes.length; k++) {
    const pair = String.fromCharCode(...bytes.subarray(k + 1, k + 3));
    const isHex = bytes[k] === 37 && /^[0-9a-fA-F]{2}$/.test(pair);
    out.push(isHex ? parseInt(pair, 16) : bytes[k]);
    if (isHex) k += 2;
  }
  return decoded(Uint8Array.from(out), subject);
};
