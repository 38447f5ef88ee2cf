"""A plugin of back ends that are right, wrong, absent, slow or broken; copied into a folder that processes find."""

import os
import signal
import time
from dataclasses import dataclass

from nirbridge.emitters.artifact import make_artifact
from nirbridge.emitters.own_time import add_own_time
from nirbridge.errors import ModelError, ToolMissing
from nirbridge.network.model import Network
from nirbridge.plugins import Plugin
from nirbridge.simulators.simulate import simulate
from nirbridge.simulators.types import Recording


@dataclass(frozen=True)
class NoOptions:
    """None."""


class Right:
    """Runs the reference, and keeps the network in memory: what a program would compute."""

    takes = (Network,)
    options = NoOptions
    records = ("s", "v")

    def emit(self, model, options=None):
        self.model = model
        return make_artifact({"README.md": b"x" * 100}, {"kind": "fake"})

    def run(self, artifact, inputs, *, steps=None, record=None, progress=None):
        return self.changed(simulate(self.model, inputs, steps=steps, record=record).recording)

    def changed(self, recording):
        return recording


class Timed(Right):
    """States 7 microseconds for each time step."""

    one_sample_at_a_time = True

    def changed(self, recording):
        add_own_time(7e-6 * recording.meta["steps"])
        return recording


class Wrong(Right):
    """One spike of the second sample is another one."""

    def changed(self, recording):
        arrays = {key: array.copy() for key, array in recording.arrays.items()}
        for (name, _), array in arrays.items():
            if name == "output" and array.shape[1] > 1:
                array[3, 1, 2] ^= 1
        return Recording(arrays, recording.meta)


class Absent(Right):
    def run(self, *args, **options):
        raise ToolMissing.of("emitter 'absent'", "the package fake is not installed", "", "pip install fake")


class Unwilling(Right):
    def emit(self, model, options=None):
        raise ModelError.of("population 'a'", "has no form in fake", "", "use another target")


class Failing(Right):
    def run(self, *args, **options):
        raise ModelError.of("program", "failed with exit code 3")


class Killed(Right):
    def run(self, *args, **options):
        os.kill(os.getpid(), signal.SIGKILL)


class Endless(Right):
    def run(self, *args, **options):
        time.sleep(3600)


def of_name(name):
    return f"{__name__}:{name.upper()}"


RIGHT, TIMED, WRONG, ABSENT, UNWILLING = Right(), Timed(), Wrong(), Absent(), Unwilling()
FAILING, KILLED, ENDLESS = Failing(), Killed(), Endless()
PLUGIN = Plugin(
    emitters={
        name: of_name(name)
        for name in ("right", "timed", "wrong", "absent", "unwilling", "failing", "killed", "endless")
    }
)
