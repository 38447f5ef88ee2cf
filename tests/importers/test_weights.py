"""Weights as people save them: prefixes of wrappers, checkpoints, objects beside the tensors; nothing is run."""

from __future__ import annotations

import argparse
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from nirbridge.errors import FileError
from nirbridge.importers.weights import load_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def net() -> Any:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def weights() -> dict[str, Any]:
    torch.manual_seed(5)
    return dict(net().state_dict())


def under(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in state.items()}


def is_loaded(content: Any, module: Any = None) -> tuple[str, ...]:
    """The notes of a file, after its weights were found in the module."""
    module, expected = net() if module is None else module, weights()
    torch.save(content, "w.pt")
    notes = load_weights(module, "w.pt")
    found = list(module.state_dict().values())
    assert len(found) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(found, expected.values(), strict=True))
    return tuple(note.removeprefix("weights 'w.pt': ") for note in notes)


# -- prefixes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["module.", "model.", "net.", "model.module.", "model.net.module."])
def test_a_prefix_of_a_wrapper_is_removed_and_named(prefix: str) -> None:
    assert is_loaded(under(prefix, weights())) == (f"{prefix!r} is removed from the start of its names",)


@pytest.mark.parametrize(
    ("before", "after"), [("_orig_mod.", ""), ("module._orig_mod.", "module."), ("_orig_mod.model.", "model.")]
)
def test_the_prefix_of_a_compiled_module_is_removed(before: str, after: str) -> None:
    notes = is_loaded(under(before, weights()))
    assert notes[0] == "'_orig_mod.' is removed from its names"
    assert notes[1:] == ((f"{after!r} is removed from the start of its names",) if after else ())


def test_parts_that_were_compiled_alone_are_found() -> None:
    state = {name.replace("0.", "0._orig_mod."): value for name, value in weights().items()}
    assert is_loaded(state) == ("'_orig_mod.' is removed from its names",)


def test_names_as_they_are_need_no_note() -> None:
    assert is_loaded(weights()) == ()
    assert is_loaded(under("net.", weights()), nn.ModuleDict({"net": net()})) == ()


def test_names_as_they_are_keep_the_versions_of_their_modules() -> None:
    class Versioned(nn.Linear):
        _version = 7
        seen: Any = None

        def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any) -> None:
            self.seen = local_metadata.get("version")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    module = Versioned(4, 3)
    torch.save(module.state_dict(), "w.pt")
    load_weights(module, "w.pt")
    assert module.seen == 7


def test_a_wrapper_takes_the_weights_of_what_it_holds() -> None:
    notes = is_loaded(weights(), nn.ModuleDict({"net": net()}))
    assert notes == ("'net.' is added to the start of its names",)


def test_other_parts_of_a_training_module_are_left_out_and_named() -> None:
    state = {**under("model.", weights()), "loss.weight": torch.zeros(2), "metric.total": torch.zeros(1)}
    assert is_loaded(state)[1:] == ("left out: 2 names without it, 'loss.weight' first",)


def test_names_that_do_not_match_after_a_prefix_say_so() -> None:
    state = under("module.", weights())
    del state["module.2.bias"]
    torch.save({**state, "loss.weight": torch.zeros(2)}, "w.pt")
    with pytest.raises(FileError) as caught:
        load_weights(net(), "w.pt")
    assert [(problem.subject, problem.found) for problem in caught.value.problems] == [
        ("weights 'w.pt', names after 'module.'", "'2.bias' is missing"),
        ("weights 'w.pt', names after 'module.'", "'loss.weight' is unexpected"),
    ]


@pytest.mark.filterwarnings("ignore")  # what torch.compile warns of is not this project's
def test_a_compiled_module_takes_its_own_names() -> None:
    module = torch.compile(net())
    torch.save(under("_orig_mod.", weights()), "w.pt")
    assert load_weights(module, "w.pt") == ()


# -- checkpoints ---------------------------------------------------------------------------------------------------


HOME = "lightning.fabric.utilities.data"


def saved_by_lightning(content: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with hyperparameters of Lightning's class, which is importable only while the file is written."""
    kind = type("AttributeDict", (dict,), {"__module__": HOME})
    parts = HOME.split(".")
    with monkeypatch.context() as context:
        for k in range(len(parts)):
            context.setitem(sys.modules, ".".join(parts[: k + 1]), types.ModuleType(parts[k]))
        context.setattr(sys.modules[HOME], "AttributeDict", kind, raising=False)
        torch.save({**content, "hyper_parameters": kind(options)}, "w.pt")


def test_a_checkpoint_of_lightning_is_read_without_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {
        "epoch": 4,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": under("model.", weights()),
        "optimizer_states": [torch.optim.Adam(net().parameters()).state_dict()],
        "callbacks": {"ModelCheckpoint{'monitor': 'loss'}": {"best_model_score": torch.tensor(0.5)}},
    }
    options = {"lr": 0.1, "folder": Path("runs"), "args": argparse.Namespace(seed=3)}
    saved_by_lightning(content, options, monkeypatch)
    assert HOME.encode() in Path("w.pt").read_bytes()
    module = net()
    assert [note.partition(": ")[2] for note in load_weights(module, "w.pt")] == [
        "its part 'state_dict' is read",
        "'model.' is removed from the start of its names",
    ]
    assert all(torch.equal(a, b) for a, b in zip(module.state_dict().values(), weights().values(), strict=True))


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "net"])
def test_the_part_of_a_checkpoint_is_found(key: str) -> None:
    assert is_loaded({"epoch": 1, key: weights()}) == (f"its part {key!r} is read",)


class Calls:
    """A pickle that would run code."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


CALLS = (Calls(open, "was-run", "w"), Calls(eval, "open('was-run', 'w')"), Calls(torch.load, "w.pt"))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.call[0].__name__)
def test_objects_beside_the_weights_are_not_run(call: Calls) -> None:
    assert is_loaded({"state_dict": weights(), "extra": call}) == ("its part 'state_dict' is read",)
    assert not Path("was-run").exists()


def test_calls_of_the_system_are_refused_altogether() -> None:
    torch.save({"state_dict": weights(), "extra": Calls(os.mkdir, "was-run")}, "w.pt")
    with pytest.raises(FileError, match=r"cannot be read \("):
        load_weights(net(), "w.pt")
    assert not Path("was-run").exists()


@pytest.mark.parametrize("place", ["value", "key", "state", "list"])
def test_objects_among_the_weights_are_refused(place: str) -> None:
    call = Calls(open, "was-run", "w")
    content = {
        "value": {**weights(), "more": call},
        "key": {**weights(), call: torch.zeros(1)},
        "state": {"state_dict": {**weights(), "more": call}},
        "list": [call],
    }[place]
    torch.save(content, "w.pt")
    with pytest.raises(FileError) as caught:
        load_weights(net(), "w.pt")
    assert len(caught.value.problems) == 1
    assert not Path("was-run").exists()


@pytest.mark.parametrize("content", [lambda: net(), lambda: {"epoch": 1, "model": net()}], ids=["alone", "inside"])
def test_a_whole_module_is_refused_with_the_way_out(content: Any) -> None:
    torch.save(content(), "w.pt")
    with pytest.raises(FileError) as caught:
        load_weights(net(), "w.pt")
    (problem,) = caught.value.problems
    assert problem.found.endswith("is a whole module, pickled")
    assert problem.limit == "reading it would run its code"
    assert problem.hint.endswith("torch.save(torch.load(PATH, weights_only=False).state_dict(), NEW_PATH)")


def test_files_of_old_versions_of_torch_are_read() -> None:
    torch.save(weights(), "w.pt", _use_new_zipfile_serialization=False)
    assert load_weights(net(), "w.pt") == ()


# -- safetensors ---------------------------------------------------------------------------------------------------


def test_safetensors_are_loaded_by_the_same_rules() -> None:
    header, data = {}, b""
    for name, value in under("module.", weights()).items():
        kind = {torch.float32: "F32", torch.int64: "I64"}[value.dtype]
        end = len(data) + value.nbytes
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [len(data), end]}
        data += value.numpy().tobytes()
    text = json.dumps(header).encode()
    Path("w.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    module = net()
    notes = load_weights(module, "w.safetensors")
    assert notes == ("weights 'w.safetensors': 'module.' is removed from the start of its names",)
    assert all(torch.equal(a, b) for a, b in zip(module.state_dict().values(), weights().values(), strict=True))
