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


def test_any_prefix_that_all_names_have_is_removed() -> None:
    assert is_loaded(under("backbone.", weights())) == ("'backbone.' is removed from the start of its names",)
    holder = nn.ModuleDict({"snn": nn.ModuleDict({"body": net()})})
    assert is_loaded(weights(), holder) == ("'snn.body.' is added to the start of its names",)
    torch.save({**under("backbone.", weights()), "head.weight": torch.zeros(2)}, "w.pt")
    with pytest.raises(FileError, match="'0.weight' is missing"):
        load_weights(net(), "w.pt")


def test_two_parts_with_the_names_of_the_module_are_a_question() -> None:
    torch.save({**under("student.", weights()), **under("teacher.", weights())}, "w.pt")
    with pytest.raises(
        FileError, match=r"are found after 'student\.' and after 'teacher\.', one part is this module's"
    ):
        load_weights(net(), "w.pt")


def test_states_that_a_run_left_in_a_file_are_left_out() -> None:
    """Sinabs' v_mem is empty before the first run, and has the batch of the last one in a file."""

    def stateful(shape: tuple[int, ...]) -> Any:
        module = net()
        module[1].register_buffer("v_mem", torch.zeros(shape))
        return module

    torch.save(stateful((7, 3)).state_dict(), "w.pt")
    module = stateful((0,))
    assert load_weights(module, "w.pt") == ("weights 'w.pt': left out: 1 state of a run, '1.v_mem' first",)
    assert module[1].v_mem.shape == (0,)


def test_numbers_that_the_module_has_no_room_for_are_named() -> None:
    torch.save({**weights(), "2.bias": torch.tensor([0.1, 0.5], dtype=torch.float64)}, "w.pt")
    assert load_weights(net(), "w.pt") == ("weights 'w.pt': rounded to the module's type: '2.bias', 1 name in all",)
    torch.save({**weights(), "2.bias": torch.tensor([0.1, 0.5], dtype=torch.bfloat16)}, "w.pt")
    assert load_weights(net(), "w.pt") == ()
    torch.save({**weights(), "2.bias": torch.tensor([1j, 0.5])}, "w.pt")
    with pytest.raises(FileError, match=r"'2\.bias' is complex, the module's is not"):
        load_weights(net(), "w.pt")


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


def test_a_file_that_holds_itself_is_refused() -> None:
    content: dict[str, Any] = {"epoch": 3}
    content["state_dict"] = {"more": 1, "model": content}
    with pytest.raises(FileError, match="a dictionary of tensors by name"):
        is_loaded(content)


def test_the_part_that_is_read_is_named_beside_others() -> None:
    both = {"ema": under("module.", weights()), "state_dict": weights(), "epoch": 2}
    assert is_loaded(both) == ("its part 'state_dict' is read, not 'ema'",)
    assert is_loaded({"model": {"state_dict": weights(), "epoch": 2}}) == ("its part 'state_dict' is read",)
    torch.save({"a": weights(), "b": weights()}, "w.pt")
    with pytest.raises(FileError, match="'a' is one of several parts with weights, one is read, or the first of state"):
        load_weights(net(), "w.pt")


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "net", "params", "anything"])
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


def safetensors(path: str, state: dict[str, Any]) -> None:
    header, data = {}, b""
    for name, value in state.items():
        kind = {torch.float32: "F32", torch.int64: "I64"}[value.dtype]
        end = len(data) + value.nbytes
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [len(data), end]}
        data += value.numpy().tobytes()
    text = json.dumps(header).encode()
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_safetensors_are_loaded_by_the_same_rules() -> None:
    safetensors("w.safetensors", under("module.", weights()))
    module = net()
    notes = load_weights(module, "w.safetensors")
    assert notes == ("weights 'w.safetensors': 'module.' is removed from the start of its names",)
    assert all(torch.equal(a, b) for a, b in zip(module.state_dict().values(), weights().values(), strict=True))


def test_the_index_of_several_files_names_the_way() -> None:
    Path("model.safetensors.index.json").write_text(json.dumps({"weight_map": {"0.weight": "0.safetensors"}}))
    with pytest.raises(FileError, match="it is the index of several files, one file is read; load the files that it"):
        load_weights(net(), "model.safetensors.index.json")
