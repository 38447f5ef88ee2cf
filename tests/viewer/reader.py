"""The page's own readers, run in Chromium: files in, documents out."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

READ = """async ([name, text]) => {
  const packed = (values) => {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    let text = "";
    for (let k = 0; k < bytes.length; k += 8192) text += String.fromCharCode(...bytes.subarray(k, k + 8192));
    return { array: values.constructor.name, bytes: btoa(text) };
  };
  const small = (key, value) => (ArrayBuffer.isView(value) ? (value.length < 2e6 ? packed(value) : null) : value);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  try {
    return { document: JSON.stringify(await nirbridge.readDocument(name, bytes), small) };
  } catch (error) {
    const { subject, found, limit, hint } = error;
    const kind = error instanceof nirbridge.ViewerError ? "ours" : String(error.stack);
    return { kind, message: error.message, parts: [subject, found, limit, hint] };
  }
}"""
TRY = """async ([files, times]) => {
  const results = [];
  for (const text of files) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    let [said, best] = ["", Infinity];
    for (let k = 0; k < times; k++) {
      const start = performance.now();
      try {
        await nirbridge.readDocument("model.nir", bytes);
      } catch (error) {
        said = error instanceof nirbridge.ViewerError ? error.message : `BUG ${error.stack}`;
      }
      best = Math.min(best, performance.now() - start);
    }
    results.push([said, best]);
  }
  return results;
}"""


class Refused(Exception):
    """A ``ViewerError`` of the page: its four parts."""

    def __init__(self, message: str, parts: Sequence[str]) -> None:
        super().__init__(message)
        self.parts = tuple(parts)


class Reader:
    """The readers of a page that is open."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def read(self, name: str, content: bytes) -> dict[str, Any]:
        """The document of a file, arrays as numpy's (of 2 million values None). Raises Refused."""
        answer = self.page.evaluate(READ, [name, base64.b64encode(content).decode()])
        if "document" in answer:
            return json.loads(answer["document"], object_hook=_array)
        assert answer["kind"] == "ours", answer["kind"]
        raise Refused(answer["message"], answer["parts"])

    def file(self, path: Path) -> dict[str, Any]:
        """The document of a file on disk. Raises Refused."""
        return self.read(path.name, path.read_bytes())

    def tried(self, contents: Sequence[bytes], times: int = 1) -> list[tuple[str, float]]:
        """What is said of each file ("": it was read), and the milliseconds of the quickest of several times."""
        files = [base64.b64encode(each).decode() for each in contents]
        return [tuple(row) for row in self.page.evaluate(TRY, [files, times])]


def _array(value: dict[str, Any]) -> Any:
    if set(value) != {"array", "bytes"}:
        return value
    dtype = value["array"].removesuffix("Array").lower()
    return np.frombuffer(base64.b64decode(value["bytes"]), dtype)
