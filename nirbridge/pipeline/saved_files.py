"""Files that nirbridge writes, told apart by their content, whatever their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nirbridge.errors import FileError, quoted
from nirbridge.files.npy import UNREADABLE, open_archive, open_member
from nirbridge.files.records import stored_kind
from nirbridge.files.regular import open_regular
from nirbridge.network.model import Network
from nirbridge.network.storage import file as network_file
from nirbridge.simulators.types import Recording

if TYPE_CHECKING:
    from nirbridge.mapping.storage.record import MapRecord
    from nirbridge.quantization.model import QuantizedNetwork
    from nirbridge.verification.verify import Verification

Kind = Literal["map", "network", "quantized", "recording", "verification"]
KINDS: tuple[Kind, ...] = ("map", "network", "quantized", "recording", "verification")
_ZIP, _HDF5 = b"PK", b"\x89HDF\r\n\x1a\n"
_META = "meta.npy"
_TEXT_TYPE = b"<U"
_RECORDS: dict[str, Kind] = {network_file.FORMAT.kind: "network", "nirbridge-verification": "verification"}
_SHOWS = (
    "a map (.map.json), a network (.net.npz), a quantized network (.q.npz), a recording or a verification (.npz)"
    " is expected"
)


@dataclass(frozen=True, slots=True)
class SavedFile:
    """Content of a file: ``kind``, and the value of that kind."""

    kind: Kind
    value: MapRecord | Network | QuantizedNetwork | Recording | Verification


def load_saved(path: str | Path) -> SavedFile:
    """Reads a file of any kind that nirbridge saves; its name does not matter. Raises FileError."""
    kind = kind_of_file(path)
    if kind == "map":
        from nirbridge.mapping.storage import file

        return SavedFile(kind, file.read_map(path))
    if kind == "network":
        return SavedFile(kind, network_file.read_network(path))
    if kind == "quantized":
        from nirbridge.quantization.storage import file as quantized_file

        return SavedFile(kind, quantized_file.read_quantized(path))
    if kind == "verification":
        from nirbridge.verification import storage

        return SavedFile(kind, storage.read_verification(path))
    from nirbridge.simulators import recording_file

    return SavedFile(kind, recording_file.read_recording(path))


def kind_of_file(path: str | Path) -> Kind:
    """The kind of a file, from its first bytes; archives from their ``meta``. Raises FileError for any other."""
    subject = quoted(Path(path).name)
    start = _start_of(path, subject)
    if start.startswith(_HDF5):
        raise FileError.of(subject, "is a NIR file", _SHOWS, "see it with nirbridge inspect")
    if start.startswith(_ZIP):
        return _kind_of_archive(path, subject)
    if start.lstrip().startswith(b"{"):
        return "map"
    raise FileError.of(subject, "is not a file that nirbridge saves" if start else "is empty", _SHOWS, "check the path")


def _start_of(path: str | Path, subject: str) -> bytes:
    with open_regular(path, subject, "a file that nirbridge saved") as file:
        return file.read(64)


def _kind_of_archive(path: str | Path, subject: str) -> Kind:
    """The ``meta`` of a recording is a text, that of other archives a record."""
    try:
        with open_archive(path) as archive, open_member(archive, archive.getinfo(_META)) as member:
            header = member.read(256)
    except (KeyError, *UNREADABLE) as error:
        found = f"is an archive without a readable 'meta' ({quoted(error, 80)[1:-1]})"
        raise FileError.of(subject, found, _SHOWS, "make it again") from None
    if _TEXT_TYPE in header.partition(b"}")[0]:
        return "recording"
    return _RECORDS.get(stored_kind(path), "quantized")
