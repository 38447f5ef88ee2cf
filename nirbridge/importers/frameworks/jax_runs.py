"""Runs of Spyx and SNNAX modules in their own frameworks, for the self-check of their import.

JAX is imported here alone, and only for a check: a module of these frameworks cannot exist without it. Modules are
copied with their parameters in the precision of the run, and are not changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.files.attributes import load_attribute
from nirbridge.importers.lowering.described_graph import KEY, check_count

CHECKER = "nirbridge.verification.jax_check:jax_self_check"


@dataclass(frozen=True, slots=True)
class JaxModule:
    """A module by what its framework does with it.

    ``outputs``: its output for ``[steps, samples, *shape]``, from its initial state on, in the same layout, images
    channels first; ``wide``: computed in float64. ``parameters``: its numbers, in float64.
    """

    outputs: Callable[..., Array]
    parameters: list[Array]


def with_jax_check(graph: Any, module: JaxModule, sample: Any, inputs: int | None) -> Any:
    """Compare ``graph`` with the module on random inputs, and store the outcome in its metadata.

    Args:
        graph: the imported graph.
        module: how the user's module is run.
        sample: the sample that the importer was given.
        inputs: number of random inputs; 0: no check; None: the default, for networks that are cheap to run.

    Raises:
        UnequalImport: the two differ by more than rounding.
        UsageError: ``inputs`` is no whole number from 0.
    """
    check_count(inputs)
    if inputs != 0:
        outcome = load_attribute(CHECKER)(module, sample, graph, inputs)
        graph.metadata[KEY] = json.dumps(outcome, sort_keys=True)
    return graph


def spyx_module(module: Any) -> JaxModule:
    """A module of Spyx, run by ``spyx.nn.run``; images are channels last there."""
    from flax import nnx  # pyright: ignore[reportMissingImports]

    def outputs(values: Array, *, wide: bool) -> Array:
        from spyx.nn import run  # pyright: ignore[reportMissingImports]

        with _precision(wide=wide):
            structure, state = nnx.split(module)
            private = nnx.merge(structure, _in_precision(state, wide=wide))
            given = _in_precision(np.moveaxis(values, 2, -1) if values.ndim == 5 else values, wide=wide)
            found = np.asarray(run(private, given)[0], np.float64)
        return np.moveaxis(found, -1, 2) if found.ndim == 5 else found

    return JaxModule(outputs, _numbers(nnx.state(module)))


def snnax_module(module: Any) -> JaxModule:
    """A module of SNNAX, which takes one sample at a time."""

    def outputs(values: Array, *, wide: bool) -> Array:
        import jax  # pyright: ignore[reportMissingImports]

        with _precision(wide=wide):
            key = jax.random.PRNGKey(0)
            private = _in_precision(module, wide=wide)
            state = private.init_state(values.shape[2:], key)
            run = jax.vmap(lambda sample: private(state, sample, key)[1][0], in_axes=1, out_axes=1)
            return np.asarray(run(_in_precision(values, wide=wide)), np.float64)

    return JaxModule(outputs, _numbers(module))


def _precision(*, wide: bool) -> AbstractContextManager[Any]:
    """Within it JAX computes in float64, or in float32 whatever the user has set."""
    import jax  # pyright: ignore[reportMissingImports]

    switch: Any = getattr(jax, "enable_x64", None)
    if switch is None:
        from jax.experimental import enable_x64 as switch  # pyright: ignore[reportMissingImports]
    return switch(wide)


def _in_precision(tree: Any, *, wide: bool) -> Any:
    """The same with every array of reals in float64 or in float32."""
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    kind = np.float64 if wide else np.float32

    def cast(leaf: Any) -> Any:
        is_real = hasattr(leaf, "dtype") and np.issubdtype(leaf.dtype, np.floating)
        return jnp.asarray(leaf, kind) if is_real else leaf

    return jax.tree.map(cast, tree)


def _numbers(tree: Any) -> list[Array]:
    """Every real number and array of reals in it."""
    import jax  # pyright: ignore[reportMissingImports]

    leaves = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, float) or hasattr(leaf, "dtype")]
    arrays = [np.asarray(leaf) for leaf in leaves]
    return [a.astype(np.float64) for a in arrays if np.issubdtype(a.dtype, np.floating)]
