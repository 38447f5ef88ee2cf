"""Random neurons written by hand: every order of decay, reset, comparison and surrogate, and rules that are none."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.importers.by_hand.cells import dense, spike

SIZE, INPUTS = 4, 6
CHOICES: dict[str, tuple[Any, ...]] = {
    "synapse": ("none", "none", "none", "first", "late"),
    "decay": ("factor", "share", "sigmoid", "each"),
    "reset": ("zero", "amount", "value", "where", "mask", "none", "written"),
    "order": ("after", "late", "before", "after"),
    "compare": (">", ">=", "surrogate", "heaviside", "ratio", "soft", "where"),
    "refractory": (0, 0, 0, 0, 2),
    "bias": (0, 0, 0, 0.125),
    "recurrent": (False, False, False, True),
    "odd": (*("",) * 8, "half", "ternary", "clip", "square", "adapt", "floor", "joint", "noise", "lossy", "two"),
}


class Rule(nn.Module):
    """The rule of a seed; ``odd``: what makes it no neuron (a floor: it still is one)."""

    shape = (2, 16, INPUTS)

    def __init__(self, seed: int) -> None:
        super().__init__()
        source = random.Random(seed)
        self.r = {name: source.choice(options) for name, options in CHOICES.items()}
        self.fc, self.rec = dense(INPUTS, SIZE), dense(SIZE, SIZE)
        for k, parameter in enumerate((*self.fc.parameters(), *self.rec.parameters())):
            values = np.random.default_rng([seed, k]).integers(-12, 17, tuple(parameter.shape)) / 8
            parameter.data.copy_(torch.tensor(values))
        self.decay = {
            "factor": source.choice((0.5, 0.75, 0.875)),
            "share": source.choice((0.5, 0.75)),
            "sigmoid": None,
            "each": None,
        }[self.r["decay"]]
        self.w = nn.Parameter(torch.tensor(source.uniform(-1, 1)))
        self.each = nn.Parameter(torch.tensor([0.5, 0.75, 0.875, 0.625]))
        self.theta, self.target = source.randint(2, 16) / 8, source.randint(-4, 1) / 8
        self.start = source.choice((0, 0, 0.25))

    def fire(self, v: Any) -> Any:
        how, theta = self.r["compare"], self.theta
        if how == "soft":
            soft = torch.sigmoid(4 * (v - theta))
            return ((v >= theta).float() - soft).detach() + soft
        return {
            ">": lambda: (v > theta).float(),
            ">=": lambda: v.ge(theta).to(v),
            "surrogate": lambda: spike(v - theta),
            "heaviside": lambda: torch.heaviside(v - theta, torch.zeros(())),
            "ratio": lambda: spike(v / theta - 1.0),
            "where": lambda: torch.where(v <= theta, torch.zeros_like(v), torch.ones_like(v)),
        }[how]()

    def reset(self, v: Any, z: Any) -> Any:
        if self.r["odd"] == "half":
            return v * (1 - 0.5 * z)
        how = self.r["reset"]
        if how == "written":
            v = v.clone()
            v[z > 0] = self.target
            return v
        return {
            "zero": lambda: v * (1 - z),
            "amount": lambda: v - z * self.theta,
            "value": lambda: v * (1 - z) + z * self.target,
            "where": lambda: torch.where(z.bool(), torch.full_like(v, self.target), v),
            "mask": lambda: v.masked_fill(z > 0.5, self.target),
            "none": lambda: v,
        }[how]()

    def leak(self, v: Any, x: Any) -> Any:
        if self.r["decay"] == "share":
            return v + (x - v) * (1 - self.decay)
        return v * {"factor": self.decay, "sigmoid": torch.sigmoid(self.w), "each": self.each}[self.r["decay"]] + x

    def current(self, x: Any, state: dict[str, Any]) -> Any:
        odd, z = self.r["odd"], state["z"]
        x = self.fc(x) + (self.rec(z) if self.r["recurrent"] else 0)
        x = x + self.r["bias"] + (torch.rand(len(x), SIZE) if odd == "noise" else 0)
        x = x * (1 - z) if odd == "lossy" else x
        if self.r["synapse"] != "none":
            before, state["i"] = state["i"], 0.5 * state["i"] + x
            x = state["i"] if self.r["synapse"] == "first" else before
        if odd == "adapt":
            state["a"] = 0.75 * state["a"] + 0.25 * z
            x = x - state["a"]
        return x

    def step(self, x: Any, state: dict[str, Any]) -> Any:
        r, odd, z, v = self.r, self.r["odd"], state["z"], state["v"]
        x = self.current(x, state)
        v = v + 0.125 * v * v if odd == "square" else v
        v = self.reset(v, z) if r["order"] == "before" else v
        if r["refractory"]:
            active = (state["left"] <= 0).float()
            x, v = x * active, v * active
        v = self.leak(v, x)
        v = self.reset(v, z) if r["order"] == "late" else v
        v = torch.clamp(v, -1, 2) if odd == "clip" else torch.clamp(v, min=-0.5) if odd == "floor" else v
        z = self.fire(v)
        z = z - (v < -self.theta).float() if odd == "ternary" else z
        v = v - (v > self.theta / 2).float() * 0.25 if odd == "two" else v
        v = self.reset(v, z) if r["order"] == "after" else v
        state["i"] = state["i"] * (1 - z) if odd == "joint" else state["i"]
        state["left"] = torch.clamp(state["left"] - 1, min=0) + r["refractory"] * z
        state["v"], state["z"] = v, z
        return z

    def forward(self, x: Any) -> Any:
        state = {name: x.new_zeros(len(x), SIZE) for name in ("i", "z", "left", "a")}
        state["v"] = x.new_zeros(len(x), SIZE) + self.start
        return torch.stack([self.step(x[:, t], state) for t in range(x.shape[1])], 1)
