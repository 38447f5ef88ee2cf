"""Reasons why torch functions have no equivalent in a network, and alternatives."""

from __future__ import annotations

_CURVE = (
    "it is not linear, and no neuron",
    "put a spiking neuron there; at the end: apply it to the network's outputs",
)
_COMPARE = ("a comparison that is no neuron of the framework", "let a neuron compare: it fires above its threshold")
_CHOICE = ("a choice among values is not linear", "compute it from the output spikes, or use an average pool")
_RESAMPLE = (
    "NIR has no resampling",
    "repeat values with repeat_interleave, or use a convolution with a stride",
)

TABLE: tuple[tuple[tuple[str, ...], tuple[str, str]], ...] = (
    (
        ("lstm", "gru", "rnn"),
        ("its gates multiply values: no spiking neuron does", "use a recurrent spiking layer of the framework"),
    ),
    (
        ("attention", "einsum", "bmm", "baddbmm", "bilinear", "outer", "dot"),
        ("a product of values, or an unsupported call", "use torch.nn.Linear or a convolution"),
    ),
    (("conv_transpose",), ("NIR has no transposed convolution", _RESAMPLE[1])),
    (("interpolate", "upsample", "grid_sample", "pixel_shuffle"), _RESAMPLE),
    (
        ("normalize", "layer_norm", "group_norm", "instance_norm", "local_response_norm", "rms_norm"),
        ("it normalizes every sample by its own values", "use BatchNorm, which folds into weights"),
    ),
    (("__setitem__",), ("it writes into part of a tensor", "put the parts together with torch.cat or torch.stack")),
    (("pad",), ("a padding that is not part of a convolution", "pad with zeros in the convolution: padding=…")),
    (
        ("softmax", "softmin"),
        ("its outputs depend on all others", "leave it out: the largest output stays the largest"),
    ),
    (("bernoulli", "rand", "normal", "multinomial"), ("it is random", "leave it out of forward, or out of eval mode")),
    (
        ("cumsum", "cumprod", "prod", "std", "var", "norm", "fft", "diff"),
        ("it works along an axis of values", "use torch.nn.Linear with fixed weights"),
    ),
    (("max_unpool", "fractional_max", "adaptive_max", "max_pool"), _CHOICE),
)
"""Parts of a function's name -> (reason, hint); the first match counts."""

EXACTLY: tuple[tuple[tuple[str, ...], tuple[str, str]], ...] = (
    (("gt", "ge", "lt", "le", "eq", "ne", "__gt__", "__ge__", "__lt__", "__le__", "__eq__", "__ne__"), _COMPARE),
    (("where", "sign", "sgn", "heaviside", "masked_fill", "threshold", "round", "floor", "ceil"), _COMPARE),
    (("max", "min", "amax", "amin", "argmax", "argmin", "topk", "sort", "argsort", "median", "maximum"), _CHOICE),
    (("sigmoid", "tanh", "gelu", "elu", "celu", "selu", "silu", "softplus", "softsign", "mish", "prelu"), _CURVE),
    (
        ("leaky_relu", "rrelu", "glu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "logsigmoid", "tanhshrink"),
        _CURVE,
    ),
    (("abs", "exp", "log", "sqrt", "rsqrt", "pow", "square", "sin", "cos", "clamp", "clip", "erf", "__pow__"), _CURVE),
)
"""Names of functions -> (reason, hint)."""


def advice_on(function: str) -> tuple[str, str]:
    """(Reason, hint) for a function that cannot be represented, from its name alone."""
    name = function.lower().removesuffix("_") if not function.endswith("__") else function
    for names, advice in EXACTLY:
        if name in names:
            return advice
    for parts, advice in TABLE:
        if any(part in name for part in parts):
            return advice
    return "it has no equivalent neuron or linear layer", "replace it, or remove it from the module"
