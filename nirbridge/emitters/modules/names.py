"""Names of a network as identifiers of Python: attributes of a module, arguments and variables of its forward."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from nirbridge.network.naming import fresh_name

LOCALS = ("spk_", "cur_", "mem_", "syn_", "state_", "out_", "past_", "late_")
"""What variables of a forward begin with, before the name of a population, projection or port."""
_WORDS = (
    "self step steps batch torch nn snn np F math Neurons Spike Sparse Select Matrix Model nirbridge output forward "
    "ago norse functional neuron layer surrogate _weights reset number each zeros registered Subtract Above starting "
)
_MODULE = (
    "T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches "
    "eval extra_repr float get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules "
    "mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook "
    "register_buffer "
    "register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook "
    "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter "
    "register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule "
    "share_memory state_dict to to_empty train training type xpu zero_grad"
)
RESERVED = frozenset((*_WORDS.split(), *_MODULE.split()))
"""Names with a meaning of their own in an emitted file, and those of every ``torch.nn.Module``."""


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """For each name an identifier in ASCII, the name itself where it is one; no two are equal."""
    used, found = {*RESERVED, *taken}, dict[str, str]()
    wanted = list(dict.fromkeys(names))
    for name in sorted(wanted, key=lambda n: _identifier(n) != n):  # names that can stay, first
        found[name] = fresh_name(_identifier(name), used)
        used.add(found[name])
    return found


def _identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name) or "_"
    is_free = not keyword.iskeyword(word) and not keyword.issoftkeyword(word) and word not in RESERVED
    if is_free and word[0].isalpha() and not word.startswith(LOCALS):
        return word
    return f"n_{word.lstrip('_')}" if word.strip("_") else "n"
