"""``map my_net.py:net --sample-shape ...``: a module instead of a file, its framework inferred, weights from a file."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nirbridge._types import Progress
from nirbridge.cli.common import names_module
from nirbridge.cli.main import run
from nirbridge.cli.model_target import module_of
from nirbridge.errors import ExportWarning, FileError
from nirbridge.importers.weights import load_weights
from tests.packages import package

torch = pytest.importorskip("torch", reason="torch is not installed")
package("snntorch")

CODE = """
import warnings
warnings.simplefilter("ignore")
import torch, snntorch as snn
torch.manual_seed(0)
def Net():
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(16, 3), snn.Leaky(beta=0.9, init_hidden=True, reset_mechanism="zero"))
net = Net()
plain = torch.nn.Sequential(torch.nn.Linear(16, 3), torch.nn.ReLU())
"""
SHAPE = ("--sample-shape", "1,4,4")
COMMANDS = {
    "map": ("--chip", "loihi1"),
    "check": ("--chip", "loihi1"),
    "quantize": ("--chip", "loihi1", "-o", "m.q.npz"),
    "simulate": ("--input", "in.npy", "-o", "out.npz"),
    "verify": ("--chip", "loihi1", "--steps", "5"),
    "inspect": (),
    "emit": ("--to", "lava", "-o", "program"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    import numpy as np

    monkeypatch.chdir(tmp_path)
    Path("my_user_net.py").write_text(CODE)
    np.save("in.npy", np.ones((5, 1, 4, 4), np.uint8))
    yield tmp_path
    sys.modules.pop("my_user_net", None)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_a_model_takes_a_module(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "my_user_net.py:net", *SHAPE, "-o", "net.nir"]) == 0
    capsys.readouterr()
    documents = []
    for model in (("net.nir",), ("my_user_net.py:net", *SHAPE)):
        assert run([command, *model, *COMMANDS[command], "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0] == documents[1]
    assert not list(Path().glob("*nirbridge-*"))


def test_a_map_of_a_module_is_that_of_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", "my_user_net.py:net", *SHAPE, "--chip", "loihi1", "-o", "net.map.json"]) == 0
    assert run(["import", "my_user_net.py:net", *SHAPE, "-o", "net.nir"]) == 0
    assert run(["check", "net.nir", "--map", "net.map.json"]) == 0
    assert "legal: 'net.map.json' maps 'net.nir'" in capsys.readouterr().out


def test_code_is_run_only_where_it_is_named() -> None:
    named = ("a.py:net", "./a/b.py:net.inner", "C:a.py:net")
    assert all(names_module(text) for text in named)
    assert not any(names_module(text) for text in ("a.py", "a.nir", "a:b", "pkg.mod:net", "a.py:", "a.py:3", ":a", ""))


def test_a_file_needs_no_shape_and_a_module_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", "my_user_net.py:net", "--chip", "loihi1"]) == 2
    assert capsys.readouterr().err.startswith("error: --sample-shape: is missing")
    assert "my_user_net" not in sys.modules
    assert run(["map", "m.nir", "--chip", "loihi1", *SHAPE, "--from", "norse", "--weights", "w.pt"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in err] == ["--sample-shape", "--from", "--weights"]


@pytest.mark.parametrize("command", [("map", "--chip", "loihi1"), ("import", "-o", "o.nir")])
def test_nothing_is_converted_silently(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command[0], "my_user_net.py:plain", "--sample-shape", "16", *command[1:]]) == 2
    err = capsys.readouterr().err
    assert "no neurons that spike, a network without spikes is converted to spike rates only on request" in err
    assert "--calibrate DATA.npz" in err
    assert not Path("o.nir").exists()


@pytest.mark.parametrize("command", [("map", "--chip", "loihi1"), ("import", "-o", "o.nir")])
def test_an_import_tells_its_progress(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []

    @contextmanager
    def shown() -> Iterator[Progress]:
        yield lambda stage, done: stages.append(stage)

    for room in ("nirbridge.cli.model_target", "nirbridge.cli.commands.import_"):
        monkeypatch.setattr(f"{room}.progress_on_stderr", shown)
    assert run([command[0], "my_user_net.py:net", *SHAPE, *command[1:]]) == 0
    assert stages[0] == "running the module: operation 1"
    assert "building the network" in stages


def test_a_conversion_is_asked_for_by_its_data(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    np.save("data.npy", np.random.default_rng(0).random((20, 16), np.float32))
    assert (
        run(["import", "my_user_net.py:plain", "--sample-shape", "16", "-o", "o.nir", "--calibrate", "data.npy"]) == 0
    )
    assert "from torch" in capsys.readouterr().out
    assert run(["map", "my_user_net.py:plain", "--sample-shape", "16", "--from", "torch", "--chip", "loihi1"]) == 2
    assert "no neurons that spike" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("my_user_net.py", "nirbridge import my_user_net.py:ATTR --sample-shape SHAPE -o my_user_net.nir"),
        ("it's a.py", """nirbridge import 'it'"'"'s a.py':ATTR --sample-shape SHAPE -o 'it'"'"'s a.nir'"""),
        ("w.pt", "nirbridge import FILE.py:ATTR --weights w.pt --sample-shape SHAPE -o w.nir"),
        ("w.pth", "nirbridge import FILE.py:ATTR --weights w.pth --sample-shape SHAPE -o w.nir"),
        ("w.ckpt", "nirbridge import FILE.py:ATTR --weights w.ckpt --sample-shape SHAPE -o w.nir"),
        ("w.safetensors", "nirbridge import FILE.py:ATTR --weights w.safetensors --sample-shape SHAPE -o w.nir"),
        ("w.bin", "or .net file, or the module that it was made from, FILE.py:ATTR"),
        ("w.onnx", "or .net file, or the module that it was made from, FILE.py:ATTR"),
    ],
)
def test_code_and_weights_name_the_command_that_imports_them(
    name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_text(CODE)
    assert run(["map", name, "--chip", "loihi1"]) == 2
    assert capsys.readouterr().err.rstrip().endswith(command)


def test_a_real_file_of_weights_names_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(torch.nn.Linear(4, 3).state_dict(), "w.pt")
    way = "; import its module: nirbridge import FILE.py:ATTR --weights w.pt --sample-shape SHAPE -o w.nir"
    found = "it is a file of torch.save, a .nir file is HDF5"
    assert run(["map", "w.pt", "--chip", "loihi1"]) == 2
    assert capsys.readouterr().err.rstrip() == f"error: 'w.pt': {found}{way}"
    for command in ("inspect", "show"):
        assert run([command, "w.pt"]) == 2
        assert capsys.readouterr().err.rstrip() == f"error: 'w.pt': is a file of torch.save{way}"
    assert run(["import", "w.pt", "-o", "o.nir", *SHAPE]) == 2
    assert (
        capsys.readouterr()
        .err.rstrip()
        .endswith(f"names no module and attribute, PACKAGE.MODULE:ATTR or FILE.py:ATTR{way}")
    )
    with warnings.catch_warnings(action="ignore"):  # TorchScript is deprecated
        torch.jit.save(torch.jit.script(torch.nn.Linear(4, 3)), "compiled.pt")
    assert run(["map", "compiled.pt", "--chip", "loihi1"]) == 2
    assert capsys.readouterr().err.startswith("error: 'compiled.pt': it is a file of torch.save")
    Path("w.pt").rename("pytorch_model.bin")
    assert run(["map", "pytorch_model.bin", "--chip", "loihi1"]) == 2
    assert "import FILE.py:ATTR --weights pytorch_model.bin " in capsys.readouterr().err


# -- weights -----------------------------------------------------------------------------------------------------


def test_weights_of_a_file_are_those_of_the_import(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(7)
    other = module_of("my_user_net.py:Net", of_torch=True)
    with torch.no_grad():
        other[1].weight += 0.25
    torch.save(other.state_dict(), "w.pt")
    made = []
    for options in ((), ("--weights", "w.pt")):
        assert run(["import", "my_user_net.py:Net", *SHAPE, "-o", "net.nir", *options]) == 0
        made.append(Path("net.nir").read_bytes())
    import nir
    import numpy as np

    weights = next(node.weight for node in nir.read("net.nir").nodes.values() if hasattr(node, "weight"))
    assert np.array_equal(weights, other[1].weight.detach().numpy())
    assert made[0] != made[1]
    assert run(["map", "my_user_net.py:Net", *SHAPE, "--weights", "w.pt", "--chip", "loihi1", "-o", "m.json"]) == 0
    assert run(["check", "net.nir", "--map", "m.json"]) == 0


class Runs:
    """A pickle that would run code."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (open, ("was-run", "w"))


def state(**changes: object) -> dict[str, object]:
    return {"weight": torch.zeros(3, 4), "bias": torch.zeros(3), **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"weight": Runs()}, "'weight' is an object, tensors and plain containers alone are read (weights_only=True)"),
        (torch.nn.Linear(4, 3), "it is a whole module, pickled, reading it would run its code; where its code is: "),
        ({"model": torch.nn.Linear(4, 3)}, "'model' is a whole module, pickled"),
        ([1, 2], "holds a list, a dictionary of tensors by name"),
        ({"epoch": 3, "weights": [state()]}, "'epoch' is of type int, a dictionary of tensors by name"),
        (state(bias=3.0), "'bias' is of type float, a dictionary of tensors by name"),
    ],
    ids=["code", "module", "module inside", "list", "checkpoint", "number"],
)
def test_only_weights_are_read(content: object, message: str) -> None:
    torch.save(content, "w.pt")
    with pytest.raises(FileError) as caught:
        load_weights(torch.nn.Linear(4, 3), "w.pt")
    assert message in str(caught.value)
    assert not Path("was-run").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no pickle", b"\x80\x02c"])
def test_files_that_torch_did_not_write(content: bytes) -> None:
    Path("w.pt").write_bytes(content)
    with pytest.raises(FileError, match=r"^weights 'w.pt': cannot be read \(.*weights_only=True"):
        load_weights(torch.nn.Linear(4, 3), "w.pt")


def test_names_that_do_not_match_are_listed() -> None:
    torch.save({"wieght": torch.zeros(3, 4), "bias": torch.zeros(4)}, "w.pt")
    module = torch.nn.Linear(4, 3)
    before = module.bias.clone()
    with pytest.raises(FileError) as caught:
        load_weights(module, "w.pt")
    assert [problem.found for problem in caught.value.problems] == [
        *("'weight' is missing", "'wieght' is unexpected", "'bias' is of shape (4,)"),
    ]
    assert torch.equal(module.bias, before)


def test_weights_that_are_not_there() -> None:
    with pytest.raises(FileError, match="^weights 'w.pt': it can ?not be opened"):
        load_weights(torch.nn.Linear(4, 3), "w.pt")
    with pytest.raises(FileError, match="it is a folder, a file of torch.save is expected"):
        load_weights(torch.nn.Linear(4, 3), ".")


def test_what_was_found_in_a_checkpoint_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    own = module_of("my_user_net.py:Net", of_torch=True).state_dict()
    torch.save({"epoch": 3, "state_dict": {f"module.{name}": value for name, value in own.items()}}, "w.ckpt")
    command = ["import", "my_user_net.py:Net", *SHAPE, "-o", "net.nir", "--weights", "w.ckpt"]
    assert run(command) == 0
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: weights")] == [
        "note: weights 'w.ckpt': its part 'state_dict' is read",
        "note: weights 'w.ckpt': 'module.' is removed from the start of its names",
    ]
    assert run([*command, "--quiet"]) == 0
    assert "note:" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["check", "--chip", "loihi1"],
        ["map", "--chip", "loihi1"],
        ["quantize", "--chip", "loihi1", "-o", "n.q.npz"],
        ["verify", "--chip", "loihi1", "--steps", "3"],
        ["profile", "--chip", "loihi1", "--input", "in.npy"],
    ],
    ids=lambda command: command[0],
)
def test_how_a_model_was_read_is_told_by_inspect_alone(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "my_user_net.py:net", *SHAPE]) == 0
    assert "was read as" in " ".join(capsys.readouterr().out.split())
    assert run([command[0], "my_user_net.py:net", *SHAPE, *command[1:]]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "was read as" not in said
    assert ("see --verbose" if command[0] == "map" else "how the model was read: see nirbridge inspect (") in said


# -- other tools -------------------------------------------------------------------------------------------------


def test_other_tools_are_spoken_of_when_asked_and_when_saving_for_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExportWarning)
        assert run(["map", "my_user_net.py:net", *SHAPE, "--chip", "loihi1"]) == 0
        assert "other tools" not in "".join(capsys.readouterr())
        assert run(["import", "my_user_net.py:net", *SHAPE, "-o", "net.nir"]) == 0
        said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("other tools: ")]
        assert len(said) == 1
        more = "nirbridge inspect net.nir --portability lists them"
        assert said[0].endswith(f"points in which they would run this file differently; {more}")
        assert run(["inspect", "net.nir"]) == 0
        assert "other tools" not in capsys.readouterr().out
        assert run(["inspect", "net.nir", "--portability"]) == 0
        out = capsys.readouterr().out
    listed = [line for line in out.partition("\nother tools\n")[2].splitlines() if line.startswith("- ")]
    assert said[0].split()[2] == str(len(listed)) != "0"
