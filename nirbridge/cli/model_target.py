"""A model that is named as a module: ``map my_net.py:net --sample-shape 1,34,34``.

The module is imported as ``nirbridge import`` does, into a file without a name, so that nothing is left of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from nirbridge import pipeline
from nirbridge.cli.common import RegisteredName, names_module, refuse_options
from nirbridge.cli.output import print_notes, progress_on_stderr
from nirbridge.errors import FileError, UsageError, nearest, quoted

_NAMES = {"sample_shapes": "--sample-shape", "framework": "--from", "weights": "--weights"}


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--sample-shape --from --weights``; the command gets as ``model`` a file in any case."""

    @module_options(required=False)
    @functools.wraps(function)
    def wrapped(
        *args: Any,
        model: str | None = None,
        sample_shapes: tuple[str, ...],
        framework: str | None,
        weights: str | None,
        **kwargs: Any,
    ) -> Any:
        given = {"sample_shapes": sample_shapes, "framework": framework, "weights": weights}
        if model is None or not names_module(model):
            where = "it belongs to a model that is a module, FILE.py:ATTR"
            refuse_options((_NAMES[name] for name, value in given.items() if value), where)
            return function(*args, model=model, **kwargs)
        with imported_file(model, **given) as path:
            return function(*args, model=path, **kwargs)

    return wrapped


def module_options(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that adds the options of a module; ``required``: whether ``--sample-shape`` is."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        only = "" if required else " Only with FILE.py:ATTR."
        for decorate in (
            click.option(
                "--weights",
                metavar="STATE.pt",
                type=click.Path(),
                help=f"A state_dict, a checkpoint or a .safetensors file.{only}",
            ),
            click.option(
                "--from",
                "framework",
                metavar="NAME",
                type=RegisteredName("importers"),
                help=f"The importer; default: found from the module.{only}",
            ),
            click.option(
                "--sample-shape",
                "sample_shapes",
                cls=_SampleShape,
                required=required,
                multiple=True,
                metavar="1,34,34",
                help=f"Shape of one time step or of a whole sequence; once per argument of the module.{only}",
            ),
        ):
            function = decorate(function)
        return function

    return decorated


class _SampleShape(click.Option):
    """Required for a module; a text, which is read before, has shapes of its own."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """As click does, without a complaint of its absence in front of a text."""
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter:
            if is_text(ctx.params.get("target")):
                return ()
            raise


def is_text(target: object) -> bool:
    """True for the name of a file that is not run: a ``.mlir`` file, or a ``.net`` file of lava-dl."""
    return isinstance(target, str) and target.endswith((".mlir", ".net"))


PLAIN = "torch"
"""The importer that converts networks without spikes."""


@contextmanager
def imported_file(
    target: str, sample_shapes: tuple[str, ...], framework: str | None, weights: str | None
) -> Iterator[str]:
    """A ``.nir`` file of the module in memory, which messages and results name for its attribute.

    Raises:
        UsageError: no shape, no such module, no framework found; ModelError and UnequalImport from the import.
    """
    from nirbridge.files.scratch import unnamed_file

    if not sample_shapes:
        limit = "the shape of one time step is needed to run the module"
        raise UsageError.of("--sample-shape", "is missing", limit, "for example --sample-shape 1,34,34")
    graph = imported_graph(target, sample_shapes, framework, weights)
    with unnamed_file(f"{target.rpartition(':')[2]}.nir") as path:
        pipeline.save_graph(graph, path, warn=False)
        yield path


def imported_graph(target: str, sample_shapes: tuple[str, ...], framework: str | None, weights: str | None) -> Any:
    """The graph of a module, with the defaults of ``nirbridge import``."""
    samples = tuple(sample_of(text) for text in sample_shapes)
    module = module_with_weights(target, framework, weights)
    importer = framework or recognised(module, target)
    with progress_on_stderr() as progress:
        return pipeline.import_module(importer, module, one_or_all(samples), progress=progress)


def module_with_weights(target: str, framework: str | None, weights: str | None) -> Any:
    """The module that ``target`` names, after its code has run, with the weights of a file where one is given."""
    from nirbridge import plugins

    if framework is not None:
        plugins.get("importers", framework)  # an unknown name is said before the user's code runs
    of_torch = framework is None or framework in pipeline.FRAMEWORKS or weights is not None
    module = module_of(target, of_torch=of_torch)
    if weights is not None:
        print_notes(pipeline.load_weights(module, weights))
    return module


def recognised(module: Any, target: str) -> str:
    """The framework that a module is made of.

    Raises:
        UsageError: parts of several frameworks, or no torch module.
    """
    importer = pipeline.framework_of(module)
    if importer is None:
        frameworks = ", ".join(name for name in pipeline.FRAMEWORKS if name != PLAIN)
        hint = "convert a network of ReLUs: nirbridge import --from torch --calibrate DATA.npy; or give --from NAME"
        raise UsageError.of(quoted(target), "has no spiking neurons", f"none of its parts is of {frameworks}", hint)
    return importer


def one_or_all(samples: tuple[Any, ...]) -> Any:
    """The sample of a module with one argument, or those of all arguments."""
    return samples[0] if len(samples) == 1 else samples


def sample_of(text: str) -> Any:
    """Zeros of the shape that is written as ``1,34,34``. Raises UsageError."""
    import math

    import numpy as np

    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = (0,)
    if min(shape) < 1 or len(shape) > 6 or math.prod(shape) > 10**8:
        limit = "whole numbers from 1, at most six, with commas, whose product is at most 100,000,000"
        raise UsageError.of("--sample-shape", quoted(text), limit, "for example 1,34,34")
    return np.zeros(shape, np.float32)


# -- import target -------------------------------------------------------------------------------------------------
# ``PACKAGE.MODULE:ATTR`` or ``FILE.py:ATTR`` as the torch module that it names; the user's own code runs here.


def module_of(target: str, *, of_torch: bool) -> Any:
    """The module that PACKAGE.MODULE:ATTR or FILE.py:ATTR names; a class or a function is called."""
    import inspect

    place, colon, attribute = target.rpartition(":")
    if not colon or not place or not attribute:
        limit = "PACKAGE.MODULE:ATTR or FILE.py:ATTR"
        hint = pipeline.weights_hint(target) or "for example my_net.py:net"
        raise UsageError.of(quoted(target), "names no module and attribute", limit, hint)
    module = _attribute(_loaded(place), attribute, place)
    if isinstance(module, type) or inspect.isfunction(module):
        try:
            module = module()
        except Exception as error:
            text = f"calling it without arguments fails ({type(error).__name__}: {error})"
            raise UsageError.of(quoted(target), text, "", "name a module, or a function without arguments") from error
    if not of_torch:
        return module
    import torch

    if not isinstance(module, torch.nn.Module):
        text = f"is of type {type(module).__name__}, not a torch module"
        raise UsageError.of(quoted(target), text, "", "name a torch.nn.Module, a class or a function that returns one")
    return module


def _loaded(place: str) -> Any:
    """The Python module of a file or a dotted name; the user's own code runs here."""
    import importlib
    import os
    import sys

    folder = os.path.dirname(os.path.abspath(place)) if place.endswith(".py") else os.getcwd()
    if place.endswith(".py") and not os.path.isfile(place):
        raise FileError.of(quoted(place), "there is no such file", "", "give the path of a Python file")
    sys.path.insert(0, folder)
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        name = os.path.splitext(os.path.basename(place))[0]
        return _run_file(name, place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything, even SystemExit
        found = f"importing it fails ({type(error).__name__}: {error})"
        raise UsageError.of(quoted(place), found, "", "make it import on its own first") from error
    finally:
        sys.path.remove(folder)


def _run_file(name: str, path: str) -> Any:
    """Runs a file as the module ``name``, which pickles and dataclasses of it can find."""
    import importlib.machinery
    import importlib.util
    import sys

    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    loader.exec_module(module)
    return module


def _attribute(module: Any, dotted: str, place: str) -> Any:
    value = module
    for part in dotted.split("."):
        if not hasattr(value, part):
            near = nearest(part, [n for n in dir(value) if not n.startswith("_")], 3)
            step = f"did you mean {' or '.join(quoted(n) for n in near)}?" if near else "see what it defines"
            raise UsageError.of(quoted(place), f"it has no {quoted(part)}", "", step)
        value = getattr(value, part)
    return value
