// A file of any kind as a document of the viewer; its content tells which kind it is.

const parsedJson = (array, subject) => {
  try {
    return JSON.parse(decoded(array, subject));
  } catch (error) {
    if (error instanceof ViewerError) throw error;
    throw new ViewerError(subject, "it is no JSON text", "", "copy it again, or write it again");
  }
};

const READS = "a .nir, .net.npz, .map.json or .q.npz file, or a recording, is shown";

/** Throws where a file is larger than is shown, before it is read into memory. */
const checkSize = (name, size) => {
  if (size <= FILE_BYTES_MAX) return;
  const limit = `at most ${grouped(FILE_BYTES_MAX)} are shown`;
  throw new ViewerError(quoted(name), `it has ${grouped(size)} bytes`, limit, "use nirbridge inspect or show");
};

const documentOf = async (name, array) => {
  const subject = quoted(name);
  checkSize(name, array.length);
  if (!array.length) throw new ViewerError(subject, "it is empty", READS, "copy it again");
  if (isHdf5(array)) return new NirReader(name, array).document(name);
  if (isZip(array)) return archiveDocument(name, array);
  if (array[0] === 0x7b || array[0] === 0x20 || array[0] === 0x0a) {
    const record = parsedJson(array, subject);
    if (!isObject(record) || !("blocks" in record)) throw new ViewerError(subject, "it is no map", READS);
    return new MapReader(name, record).document(name);
  }
  throw new ViewerError(subject, "it is of no kind that is known", READS, "convert it with nirbridge import");
};

/** The document of a file; whatever the file holds, nothing but a ViewerError is thrown. */
const readDocument = async (name, bytes) => {
  try {
    return await documentOf(String(name), bytes);
  } catch (error) {
    if (error instanceof ViewerError) throw error;
    const found = `it cannot be read (${String(error?.message ?? error).slice(0, 200)})`;
    throw new ViewerError(quoted(name), found, "", "copy it again, or write it again");
  }
};

/** Name and bytes of the file that the page holds; null where it holds none. */
const embeddedFile = () => {
  const element = document.getElementById("file");
  if (!element) return null;
  const text = atob(element.textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return { name: element.dataset.name, bytes };
};

globalThis.nirbridge = { readDocument, embeddedFile, ViewerError };
