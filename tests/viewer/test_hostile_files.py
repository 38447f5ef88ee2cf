"""Files that are damaged, cut off or made to do harm: the page reads them or says what is wrong, at once."""

from __future__ import annotations

import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nir
import numpy as np
import pytest

import nirbridge as nb
from nirbridge.testing.examples import example_networks
from tests.importers.nirfile import hostile
from tests.viewer.files import FILES, MODELS, long_chain
from tests.viewer.reader import Reader, Refused

SLOW_MS, TRIES = 2000, 5


def mutated(content: bytes, seed: int) -> bytes:
    """A file with a few bytes changed, a part repeated, or its end missing."""
    rng = random.Random(seed)
    data = bytearray(content)
    kind = rng.randrange(4)
    if kind == 0:
        del data[rng.randrange(len(data)) :]
    elif kind == 1:
        start, size = rng.randrange(len(data)), rng.randrange(1, 64)
        data[start : start + size] = data[rng.randrange(len(data)) :][:size]
    for _ in range(rng.choice((1, 2, 8, 40)) if kind > 1 else 0):
        at = rng.randrange(min(len(data), 2048) if rng.random() < 0.5 else len(data))
        data[at] = rng.choice((0, 1, 255, 127, 128, rng.randrange(256), data[at] ^ 1 << rng.randrange(8)))
    return bytes(data)


def bases(folder: Path) -> dict[str, bytes]:
    """A file of each kind."""
    for name in ("digits_mlp", "all-filters", "lzf", "latest-array-of-chunks", "nested", "latest-compact"):
        FILES[name](folder / name)
    long_chain("latest", 40)(folder / "chain")
    nb.save(example_networks()[0], folder / "model.net.npz")
    nb.quantize(MODELS / "digits_mlp.nir", "loihi1").save(folder / "model.q.npz")
    nb.map(MODELS / "digits_mlp.nir", "loihi1").save(folder / "model.map.json")
    run = nb.simulate(MODELS / "digits_mlp.nir", np.ones((6, 64)), record="*:s,v")
    nb.save(run, folder / "run.npz")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_mutated_files_are_read_or_refused_at_once(reader: Reader, tmp_path: Path) -> None:
    said = set()
    for name, content in bases(tmp_path).items():
        files = [mutated(content, seed) for seed in range(60)]
        for (message, milliseconds), file in zip(reader.tried(files), files, strict=True):
            assert not message.startswith("BUG"), (name, zlib.crc32(file), message)
            if milliseconds > SLOW_MS:  # perhaps of other work on the machine
                milliseconds = reader.tried([file], TRIES)[0][1]
            assert milliseconds < SLOW_MS, (name, zlib.crc32(file), message)
            said.add(message)
    assert "" in said
    assert len(said) > 30


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (hostile.link("node/nodes/lif/tau", h5py.SoftLink("/node/nodes/lif/r")), "it is a soft link"),
        (hostile.link("node/nodes/lif/tau", h5py.ExternalLink("b.h5", "/x")), "it is a link to another file"),
        (hostile.link("node/nodes/lif/sub", h5py.SoftLink("/node")), "it is a soft link"),
        (hostile.alias("node/nodes/lif/tau", "node/nodes/lif/r"), "that has another name too"),
        (hostile.alias("node/nodes/again", "node"), "that has another name too"),
        (hostile.virtual, "'node/nodes/lif/tau': it is a virtual dataset"),
        (hostile.external_storage, "its data lie in another file"),
        (hostile.references, "its values are of an unusual type"),
        (hostile.put("node/nodes/lif/tau", np.ones(4, complex)), "its values are of an unusual type"),
        (hostile.stored_type, "it is a stored type"),
        (hostile.empty_value, "it is empty (null)"),
        (hostile.deep_groups, "groups are nested 73 deep, at most 72 levels are read"),
        (hostile.deep_graphs, "graphs are nested 33 deep"),
        (hostile.not_utf8, "it holds text that is not UTF-8"),
        (hostile.unknown_filter, "it is packed with filter 333"),
        (hostile.put("node/nodes/lif/tau", np.ones(4), chunks=(2,), scaleoffset=3), "it is packed with scaleoffset"),
        (hostile.put("node/nodes/lif/tau", np.ones(4), maxshape=(None,)), ""),
        (hostile.swollen_chunk, "it unpacks to more than it declares"),
        (hostile.drop("node/type"), "it holds no NIR graph"),
        (hostile.drop("node"), "it holds no NIR graph"),
        (hostile.put("node/type", "Affine"), "its top node is a 'Affine'"),
        (hostile.put("node/edges", np.ones((3, 2))), "its edges are no pairs of node names"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_what_a_model_file_may_not_hold(
    libver: str, spoil: Callable[[Any], None], message: str, reader: Reader, tmp_path: Path
) -> None:
    nir.write(tmp_path / "good.nir", hostile.good_graph())
    with h5py.File(tmp_path / "good.nir") as good, h5py.File(tmp_path / "bad.nir", "w", libver=libver) as file:
        good.copy("node", file)
        spoil(file)
    if not message and libver == "earliest":
        assert reader.file(tmp_path / "bad.nir")["kind"] == "network"
        return
    with pytest.raises(Refused) as refused:
        reader.file(tmp_path / "bad.nir")
    assert (message or "its chunks can grow") in str(refused.value)
    assert str(refused.value).startswith("'bad.nir'")
    assert all(isinstance(part, str) for part in refused.value.parts)


def test_a_heap_of_texts_that_does_not_end(reader: Reader, tmp_path: Path) -> None:
    nir.write(tmp_path / "model.nir", hostile.good_graph())
    hostile.damage_heap(tmp_path / "model.nir")
    with pytest.raises(Refused, match="it is damaged"):
        reader.file(tmp_path / "model.nir")


def test_sizes_that_a_file_only_declares(reader: Reader, tmp_path: Path) -> None:
    """Values beyond the limits are left out with a note, however small the file."""
    nir.write(tmp_path / "model.nir", hostile.good_graph())
    with h5py.File(tmp_path / "model.nir", "r+") as file:
        for k in range(30):
            group = file.create_group(f"node/nodes/huge_{k:02}")
            group["type"] = "Linear"
            group.create_dataset("weight", (7000, 7000), "f4", chunks=(7000, 100), compression="gzip")
        group = file.create_group("node/nodes/larger")
        group["type"] = "Linear"
        group.create_dataset("weight", (2**26, 2**20), "f8")
    document = reader.file(tmp_path / "model.nir")
    notes = [p["note"] for n in document["graph"]["nodes"] for p in n["params"] if n["type"] == "Linear"]
    assert notes[0] == ""
    assert notes[1] == "49,000,000 values are left out; at most 64,000,000 of one file are shown"
    assert "70,368,744,177,664 values are left out; at most 50,000,000 of one array are shown" in notes


def test_dangling_edges_and_unknown_types_are_shown_with_a_note(reader: Reader, tmp_path: Path) -> None:
    nir.write(tmp_path / "model.nir", hostile.good_graph())
    with h5py.File(tmp_path / "model.nir", "r+") as file:
        hostile.edges(*hostile.GOOD_EDGES, ("lif", "nowhere"))(file)
        hostile.put("node/nodes/lif/type", "Odd<script>")(file)
    document = reader.file(tmp_path / "model.nir")
    assert document["notes"] == ["edge 'lif' -> 'nowhere' is left out: one of its ends is no node, or several"]
    assert "Odd<script>" in {node["type"] for node in document["graph"]["nodes"]}
    assert len(document["graph"]["edges"]) == 3


def test_a_chain_of_five_thousand_nodes_takes_less_than_two_seconds(reader: Reader, tmp_path: Path) -> None:
    long_chain("latest", 5000)(tmp_path / "model.nir")
    said, milliseconds = reader.tried([(tmp_path / "model.nir").read_bytes()], TRIES)[0]
    assert said == ""
    assert milliseconds < SLOW_MS


# -- archives ----------------------------------------------------------------------------------------------------------


def archive(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path.read_bytes()


def npy(array: Any) -> bytes:
    """The bytes of an array as numpy writes them."""
    import io

    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version=(1, 0), allow_pickle=True)
    return out.getvalue()


RUN = npy(np.array(json.dumps({"schema": 1, "dt": 1e-3, "steps": 3})))
EMPTY = b'{"schema": 1, "kind": "nirbridge-network"}'


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"x.npy": npy(np.ones(3))}, "it is an archive without a readable 'meta'"),
        ({"model/data.pkl": b"x"}, "it is a file of torch.save"),
        ({"meta.npy": RUN, "a/s.npy": npy(np.array([{}], object))}, "is no array of plain numbers"),
        ({"meta.npy": RUN, "a/s.npy": b""}, "is no array of plain numbers"),
        ({"meta.npy": RUN, "a/s.npy": npy(np.ones(3))[:-1]}, "an array ends early"),
        ({"meta.npy": RUN, "a/s.npy": npy(np.float64(3))}, "has no axis of time"),
        ({"meta.npy": RUN, "a/x.npy": npy(np.ones(3))}, "is no NODE/VARIABLE"),
        ({"meta.npy": npy(np.array("[1]"))}, "is of another form than schema 1"),
        ({"meta.npy": npy(np.array("{"))}, "it is no JSON text"),
        ({"meta.npy": npy(np.frombuffer(b'{"schema": 1, "kind": "other"}', np.uint8))}, "it is a file of kind 'other'"),
        ({"meta.npy": npy(np.frombuffer(EMPTY, np.uint8))}, "inputs: is missing"),
    ],
)  # fmt: skip
def test_archives_that_are_refused(members: dict[str, bytes], message: str, reader: Reader, tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        reader.read("model.npz", archive(tmp_path / "model.npz", members))
    assert message in str(refused.value)


def test_other_packings_and_bombs(reader: Reader, tmp_path: Path) -> None:
    content = archive(tmp_path / "model.npz", {"meta.npy": RUN}, zipfile.ZIP_LZMA)
    with pytest.raises(Refused, match="is encrypted or packed in an unknown way"):
        reader.read("model.npz", content)
    good = archive(tmp_path / "model.npz", {"meta.npy": RUN, "a/s.npy": npy(np.zeros(10**6))})
    for size, message in (
        (1000, "it unpacks to more than it declares"),
        (10**9, "at most 536,870,912 bytes are shown"),
    ):
        data = bytearray(good)
        for signature, offset in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
            at = data.rindex(signature)
            data[at + offset : at + offset + 4] = struct.pack("<I", size)
        with pytest.raises(Refused, match=message):
            reader.read("model.npz", bytes(data))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "^'model.x': it is empty, a .nir, .net.npz, .map.json or .q.npz file, or a recording, is shown; copy it"),
        (b"{}", "^'model.x': it is no map"),
        (b"[" * 100_000, "it is of no kind that is known"),
        (b'{"a":' * 100_000, "it is no JSON text"),
        (b'{"blocks": []}', "'model.x', schema: is neither 1 nor 2"),
        (b'{"blocks": \xff}', "text that is not UTF-8"),
        (b"\x89HDF\r\n\x1a\n", "it is damaged or cut off"),
        (b"PK", "it is damaged or cut off"),
        (b"GIF89a", "it is of no kind that is known"),
    ],
)
def test_files_of_other_kinds(content: bytes, message: str, reader: Reader) -> None:
    with pytest.raises(Refused, match=message):
        reader.read("model.x", content)


def test_a_file_beyond_the_limit_is_not_looked_at(reader: Reader) -> None:
    said = reader.page.evaluate(
        "nirbridge.readDocument('big.nir', new Uint8Array(2 ** 28 + 1)).catch((error) => error.message)"
    )
    assert said == ("'big.nir': it has 268,435,457 bytes, at most 268,435,456 are shown; use nirbridge inspect or show")


def test_maps_that_contradict_themselves(reader: Reader, tmp_path: Path) -> None:
    nb.map(MODELS / "digits_mlp.nir", "loihi1").save(tmp_path / "model.map.json")
    good = json.loads((tmp_path / "model.map.json").read_text(encoding="utf-8"))
    spoiled: list[tuple[str, Callable[[Any], None], str]] = [
        ("core", lambda m: m["blocks"][0]["core"].update(x=8), "blocks[0].core: lies outside of the chip"),
        ("box", lambda m: m["blocks"][0]["slices"][0].update(box=[[0, 65]]), "slices[0]: is no part of a population"),
        ("axes", lambda m: m["blocks"][0]["slices"][0].update(box=[]), "slices[0]: is no part of a population"),
        ("name", lambda m: m["blocks"][0]["slices"][0].update(population="x"), "is no part of a population"),
        ("route", lambda m: m["routes"][0].update(target_block=9), "routes[0]: joins no two blocks"),
        ("mesh", lambda m: m["chip"]["mesh"].update(width_tiles=2**40), "chip.mesh: it has more than 4,000,000 cores"),
        ("end", lambda m: m["projections"][0].update(target="x"), "projections[0]: joins no two populations"),
        ("twice", lambda m: m["populations"].append(m["populations"][0]), "populations: two have one name"),
        ("kind", lambda m: m.update(routes={}), "routes: is missing or of another form"),
    ]
    for _, spoil, message in spoiled:
        record = json.loads(json.dumps(good))
        spoil(record)
        with pytest.raises(Refused) as refused:
            reader.read("model.map.json", json.dumps(record).encode())
        assert message in str(refused.value)
