"""All rows of the equivalence page, in its order."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import equivalence_models_forms as forms
from benchmarks import equivalence_models_hand as hand
from benchmarks import equivalence_models_jelly as jelly
from benchmarks import equivalence_models_norse as norse
from benchmarks import equivalence_models_rockpool as rockpool
from benchmarks import equivalence_models_sinabs as sinabs
from benchmarks import equivalence_models_snntorch as snntorch
from benchmarks import equivalence_structures as structures
from benchmarks.equivalence_model import Model


def models() -> Iterator[Model]:
    """Every model that runs step by step; converted ANNs are in ``equivalence_converted``."""
    yield from (*snntorch.leaky_models(), *snntorch.current_models())
    yield from (*structures.flow_models(), *structures.layer_models())
    yield from (*forms.logic_models(), *forms.linear_models(), *snntorch.refused_models())
    yield from (*norse.cell_models(), *norse.structure_models(), *norse.refused_models())
    yield from (*sinabs.models(), *sinabs.refused_models())
    yield from (*jelly.models(), *hand.published(), *jelly.refused_models())
    yield from (*rockpool.models(), *rockpool.refused_models())
    yield from hand.models()
