"""Map files: written, read, compared; hostile files refused; the schema agrees with the reader."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirbridge.chips.model import CoreId
from nirbridge.errors import Bug, FileError
from nirbridge.mapping.storage.differences import map_differences
from nirbridge.mapping.storage.file import map_bytes, map_to_dict, read_map, write_document, write_map
from nirbridge.mapping.storage.record import map_from_dict
from nirbridge.partitioner.model import Slice
from tests.mapping.hand_made import chip_with, conv_net, dense_net, made

SHA = "ab" * 32
SCHEMA = json.loads(resources.files("nirbridge.mapping.storage").joinpath("map.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def mapped() -> Any:
    return made(dense_net(), chip_with(), [[Slice("fc1", ((0, 5),))], [Slice("out", ((0, 3),))]])


def document() -> dict[str, Any]:
    return json.loads(map_bytes(map_to_dict(mapped(), "a/net.nir", SHA)))


DOCUMENT = document()

# -- writing -----------------------------------------------------------------------------------------------------


def test_the_same_bytes_again(tmp_path: Path) -> None:
    write_map(mapped(), tmp_path / "a.json", "x/net.nir", SHA)
    write_map(mapped(), tmp_path / "b.json", "/y/net.nir", SHA)
    data = (tmp_path / "a.json").read_bytes()
    assert data == (tmp_path / "b.json").read_bytes()
    assert data.endswith(b"}\n")
    assert json.loads(data)["model"] == {"file": "net.nir", "sha256": SHA}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "b.json"]


def test_the_same_bytes_in_another_process() -> None:
    """No order of a hash gets into the file."""
    code = (
        "import hashlib, tests.mapping.storage.test_file as t; "
        "print(hashlib.sha256(t.map_bytes(t.map_to_dict(t.mapped(), 'n.nir', t.SHA))).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_one_line_per_entry() -> None:
    lines = map_bytes(map_to_dict(mapped(), "net.nir", SHA)).decode().splitlines()
    assert sum('"target_block"' in line for line in lines) == 3
    keys = [line.split('"')[1] for line in lines if line.startswith(' "')]
    assert keys == sorted(keys)


def test_content_of_the_contract() -> None:
    block = DOCUMENT["blocks"][0]
    assert block["id"] == 0
    assert block["core"] == {"chip": 0, "core": 0, "x": 0, "y": 0}
    assert block["slices"] == [{"box": [[0, 5]], "population": "fc1"}]
    assert block["used"]["input_axons"] == 11
    dense = {"kind": "Dense", "input_shape": [6], "output_shape": [5]}
    assert DOCUMENT["projections"][0]["operator"] == dense
    assert DOCUMENT["projections"][1]["is_back"] is True
    assert DOCUMENT["routes"][0] == {
        "source_block": None,
        "source_input": "in",
        "target_block": 0,
        "neurons": 6,
        "synapses": 30,
        "spikes_per_step": 6.0,
        "hops": 0,
    }
    assert DOCUMENT["totals"]["neurons"] == {"used": 8, "max": 5, "where_max": 0, "limit": 1024}
    assert DOCUMENT["proof"]["status"] == "feasible"
    assert DOCUMENT["chip"]["name"] == "loihi1"


def test_operator_of_a_convolution_is_described() -> None:
    net = conv_net()
    box = tuple((0, n) for n in (3, 4, 5))
    record = map_to_dict(
        made(net, chip_with(), [[Slice("c1", box)], [Slice("c2", ((0, 4), (0, 2), (0, 2)))]]), "net.nir", SHA
    )
    chain = record["projections"][1]["operator"]
    assert [part["kind"] for part in chain["parts"]] == ["SumPool", "Conv"]
    assert chain["parts"][0]["stride"] == [2, 2]
    assert chain["parts"][1] | {"kind": "Conv"} == {
        "kind": "Conv",
        "input_shape": [3, 2, 2],
        "output_shape": [4, 2, 2],
        "kernel": [3, 3],
        "stride": [1, 1],
        "padding": [[1, 1], [1, 1]],
        "dilation": [1, 1],
        "groups": 1,
    }
    VALIDATOR.validate(json.loads(map_bytes(record)))


def test_names_from_a_file_are_carried(tmp_path: Path) -> None:
    name = "fc\n1 '\"/../日本 \udc80\x1b[31m"
    net = dense_net()
    first = replace(net.populations[0], name=name)
    edges = tuple(
        replace(p, source=name if p.source == "fc1" else p.source, target=name if p.target == "fc1" else p.target)
        for p in net.projections
    )
    net = replace(net, populations=(first, net.populations[1]), projections=edges)
    write_map(
        made(net, chip_with(), [[Slice(name, ((0, 5),)), Slice("out", ((0, 3),))]]), tmp_path / "m.json", "n", SHA
    )
    assert read_map(tmp_path / "m.json").populations[0].name == name


def test_nothing_is_left_where_writing_fails(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="^map file 'm.json': its folder does not exist; create it$"):
        write_map(mapped(), tmp_path / "none" / "m.json", "net.nir", SHA)
    with pytest.raises(Bug, match="^map file 'm.json': Out of range float values are not JSON compliant"):
        write_document(DOCUMENT | {"chips": float("nan")}, tmp_path / "m.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(FileError, match="^map file .taken.: is a folder; name a file$"):
        write_document(DOCUMENT, tmp_path / "taken")
    (tmp_path / "taken").rmdir()
    assert list(tmp_path.iterdir()) == []


# -- reading -----------------------------------------------------------------------------------------------------


def test_round_trip(tmp_path: Path) -> None:
    write_map(mapped(), tmp_path / "m.json", "net.nir", SHA)
    record = read_map(tmp_path / "m.json")
    assert record.blocks[1].core == CoreId(0, 1, 0, 0)
    assert record.blocks[1].slices[0].box == ((0, 3),)
    assert record.routes[0].source_input == "in"
    assert map_bytes(record.raw) == (tmp_path / "m.json").read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "map file 'm.json': not JSON at line 1, column 1 (Expecting value)"),
        (b"\xff\xfe{}", "map file 'm.json': not UTF-8 at byte 0"),
        (b'{"a": 1', "map file 'm.json': not JSON at line 1, column 8"),
        (b'{"a": NaN}', "map file 'm.json': the number NaN is not allowed in JSON"),
        (b'{"a": -Infinity}', "map file 'm.json': the number -Infinity is not allowed in JSON"),
        (b'{"a": 1e999}', "map file 'm.json': the number '1e999' is not finite"),
        (b'{"a": 1, "a": 2}', "map file 'm.json': the key 'a' occurs twice"),
        (b"[" * 200_000, "map file 'm.json': nested too deeply"),
        (b'{"a": ' * 200_000, "map file 'm.json': nested too deeply"),
        (b"1" * 5000, "map file 'm.json': a whole number of thousands of digits, at most 64 bits"),
        (b"[]", "map file 'm.json': document: is a list, expected an object"),
        (b"null", "map file 'm.json': document: is null, expected an object"),
        (b" " * 2000 + b"{}", "map file 'm.json': more than 1,500 bytes, too large to be read"),
    ],
    ids=range(13),
)
def test_hostile_files(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "m.json").write_bytes(data)
    with pytest.raises(FileError) as caught:
        read_map(tmp_path / "m.json", max_bytes=1500 if data[:1] == b" " else 1 << 22)
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 2


def test_a_folder_is_no_map(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="Is a directory; check the path"):
        read_map(tmp_path)


def test_every_problem_is_listed(tmp_path: Path) -> None:
    wrong = copy.deepcopy(DOCUMENT)
    wrong["schema"] = 3
    del wrong["chips"]
    wrong["blocks"][0]["id"] = True
    wrong["blocks"][1]["slices"][0]["box"] = [[0, 1, 2]]
    wrong["proof"]["status"] = "best\x1b[2J"
    write_document(wrong, tmp_path / "m.json")
    with pytest.raises(FileError) as caught:
        read_map(tmp_path / "m.json")
    assert str(caught.value).splitlines() == [
        "map file 'm.json': schema: is 3, known: 1, 2",
        "map file 'm.json': chips: is missing",
        "map file 'm.json': blocks[0].id: is True, expected a whole number from 0 to 2**53",
        "map file 'm.json': blocks[1].slices[0].box[0]: has 3 entries, expected 2",
        "map file 'm.json': proof.status: is 'best\\x1b[2J', known: optimal, optimal-sliced, feasible",
    ]


def test_a_route_from_two_places() -> None:
    wrong = copy.deepcopy(DOCUMENT)
    wrong["routes"][0]["source_block"] = 1
    with pytest.raises(FileError, match=r"^map: routes\[0\]: has not exactly one of source_block and source_input"):
        map_from_dict(wrong)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a document, but not inside the chip."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        found += [] if path == ("chip",) else places(item, (*path, key))
    return found


PLACES = places(DOCUMENT)
ODD = st.sampled_from([None, True, -1, 0, 1.5, -0.5, 2**53 + 1, "", "x", [], [1], [[0, 1]], {}, {"a": 1}, "feasible"])


@given(st.sampled_from(PLACES), st.one_of(st.none(), st.tuples(ODD)))
@settings(max_examples=300, deadline=None)
def test_the_schema_and_the_reader_agree(path: tuple[Any, ...], value: tuple[Any] | None) -> None:
    wrong = copy.deepcopy(DOCUMENT)
    inner: Any = wrong
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value[0]
    try:
        map_from_dict(wrong)
    except FileError:
        assert not VALIDATOR.is_valid(wrong)
    else:
        assert VALIDATOR.is_valid(wrong)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(sorted(DOCUMENT)), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_document_gives_one_error_of_ours(value: Any) -> None:
    with pytest.raises(FileError):
        map_from_dict(value)


# -- comparing ---------------------------------------------------------------------------------------------------


def differences(a: dict[str, Any], b: Any) -> list[str]:
    other = map_from_dict(json.loads(map_bytes(map_to_dict(b, "net.nir", SHA))))
    return [str(each) for each in map_differences(map_from_dict(a), other)]


def test_a_map_differs_from_itself_in_nothing() -> None:
    assert differences(DOCUMENT, mapped()) == []


def test_another_model_and_another_core() -> None:
    other = replace(mapped(), cores=(CoreId(0, 0, 0, 0), CoreId(0, 0, 1, 2)))
    b = map_from_dict(json.loads(map_bytes(map_to_dict(other, "net2.nir", "cd" * 32))))
    assert [str(each) for each in map_differences(map_from_dict(DOCUMENT), b)] == [
        "model: 'net.nir' abababababababab / 'net2.nir' cdcdcdcdcdcdcdcd",
        "placement of 3 of 3 neurons of 'out': (0, 1, 0, 0) / (0, 0, 1, 2)",
    ]


def test_the_number_of_a_core_alone_is_no_difference() -> None:
    other = replace(mapped(), cores=mapped().cores)
    document = json.loads(map_bytes(map_to_dict(other, "net.nir", SHA)))
    document["blocks"] = [{**block, "id": 7 - block["id"]} for block in document["blocks"][::-1]]
    assert map_differences(map_from_dict(DOCUMENT), map_from_dict(document)) == ()


def test_other_slices_and_what_they_cost() -> None:
    one = made(
        dense_net(), chip_with(), [[Slice("fc1", ((0, 5),)), Slice("out", ((0, 2),))], [Slice("out", ((2, 3),))]]
    )
    found = differences(DOCUMENT, one)
    assert found[:2] == [
        "slices of 'out': [0:3] / [0:2] [2:3]",
        "placement of 2 of 3 neurons of 'out': (0, 1, 0, 0) / (0, 0, 0, 0) (0, 1, 0, 0)",
    ]
    assert "totals.neurons.max: 5 / 7" in found
    assert not any("where_max" in line for line in found)


def test_slices_that_share_another_core() -> None:
    three = [[Slice("fc1", ((0, 5),))], [Slice("out", ((0, 2),))], [Slice("out", ((2, 3),))]]
    a = map_to_dict(made(dense_net(), chip_with(), [[*three[0], *three[1]], three[2]]), "net.nir", SHA)
    found = differences(json.loads(map_bytes(a)), made(dense_net(), chip_with(), [[*three[0], *three[2]], three[1]]))
    assert found[0] == "slices on one core: 2 groups of its own / 2 groups of its own"


def test_marks() -> None:
    marked = replace(mapped(), placement_only=True, early_spikes=("fc1",))
    assert differences(DOCUMENT, marked) == ["placement_only: False / True", "early_spikes: [] / ['fc1']"]


def test_numpy_numbers_are_written_as_numbers() -> None:
    plain = map_bytes({"a": np.int64(3), "b": np.float64(0.1), "c": np.array([1, 2])})
    assert plain == b'{\n "a": 3,\n "b": 0.1,\n "c": [1, 2]\n}\n'


def test_the_page_of_the_map_file_has_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/map-file.md").read_text("utf-8")

    def keys(schema: Any) -> set[str]:
        inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
        mine = set(schema.get("properties", ())) if isinstance(schema, dict) else set()
        return mine.union(*(keys(item) for item in inner))

    assert len(keys(SCHEMA)) > 60
    assert sorted(key for key in keys(SCHEMA) if f"`{key}`" not in page) == []
    operators = {"kind", "input_shape", "kernel", "stride", "padding", "dilation", "groups", "parts", "pattern_sha256"}
    assert sorted(key for key in operators if f"`{key}`" not in page) == []


def test_the_code_of_the_page_runs() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/map-file.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "map-file.md", "exec"), {})
