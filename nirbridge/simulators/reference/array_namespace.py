"""Array library, float type and device of a simulation, through the Python array API."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nirbridge.arrays import Array
from nirbridge.errors import ToolMissing, UsageError, did_you_mean, quoted

LIBRARIES = {
    "numpy": "numpy",
    "torch": "array_api_compat.torch",
    "cupy": "array_api_compat.cupy",
    "jax": "jax.numpy",
    "dpnp": "dpnp",
    "array_api_strict": "array_api_strict",
}
"""Array library -> the namespace of the Python array API that is used for it."""
PACKAGES = {
    "torch": "'nirbridge[torch]'",
    "cupy": "'nirbridge[cupy]'",
    "dpnp": "'nirbridge[sycl]'",
    "array_api_strict": "array-api-strict",
}
"""Array library -> what to install for it, where that is called otherwise."""
FLOATS = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class ArrayNamespace:
    """An array namespace, a float type of it, and a device of it (None: the library's own default)."""

    library: str
    xp: Any
    float_name: str
    device: Any = None

    @property
    def dtype(self) -> Any:
        """The library's float type."""
        return getattr(self.xp, self.float_name)

    @property
    def is_numpy(self) -> bool:
        """True where arrays are numpy's own."""
        return self.library == "numpy"

    def array(self, values: Array) -> Any:
        """The values in the float type, rounded once, on the device."""
        return self._there(np.asarray(values, self.float_name, order="C"))

    def integers(self, values: Array) -> Any:
        """The values as whole numbers on the device: int64, on jax (which has 32 bits unless told otherwise) int32."""
        return self._there(np.array(values, np.int32 if self.library == "jax" else np.int64))

    def booleans(self, values: Array) -> Any:
        """The values as bool on the device."""
        return self._there(np.array(values, np.bool_))

    def coefficient(self, values: Array) -> Any:
        """As ``array``; a single value becomes a Python number that the float type holds exactly."""
        return float(np.asarray(values, self.float_name)) if values.ndim == 0 else self.array(values)

    def full(self, shape: Sequence[int], value: float) -> Any:
        """An array of one value."""
        return self.xp.full(tuple(shape), value, dtype=self.dtype, **self._where())

    def reshape(self, values: Any, shape: tuple[int, ...]) -> Any:
        """The values in another shape."""
        if values.shape == shape:
            return values
        return values.reshape(shape) if self.library == "numpy" else self.xp.reshape(values, shape)

    def numpy(self, values: Any) -> Array:
        """The values as a numpy array."""
        if self.library == "torch":
            values = values.detach().cpu()
        elif self.library == "cupy":
            return values.get()
        elif self.library == "dpnp":
            return values.asnumpy()
        return np.asarray(values)

    def _there(self, values: Array) -> Any:
        # a copy, since other libraries refuse or warn about arrays that are read-only
        return values if self.is_numpy else self.xp.asarray(np.array(values), **self._where())

    def _where(self) -> dict[str, Any]:
        return {} if self.device is None else {"device": self.device}


def array_namespace(library: str = "numpy", float_name: str = "float32", device: str = "cpu") -> ArrayNamespace:
    """The array library of that name, loaded now.

    Raises:
        UsageError: an unknown library, float type or device, or a device that is not there.
        ToolMissing: the library is not installed.
    """
    if float_name not in FLOATS:
        hint = did_you_mean(float_name, FLOATS) or "choose one of them"
        raise UsageError.of(f"dtype {quoted(float_name)}", "unknown", f"there are {' and '.join(FLOATS)}", hint)
    if library not in LIBRARIES:
        libraries = ", ".join(LIBRARIES)
        hint = did_you_mean(library, LIBRARIES) or "choose one of them"
        raise UsageError.of(f"array library {quoted(library)}", "unknown", f"there are {libraries}", hint)
    try:
        xp = importlib.import_module(LIBRARIES[library])
    except ImportError:
        hint = f"pip install {PACKAGES.get(library, library)}"
        raise ToolMissing.of(f"array library {quoted(library)}", "is not installed", "", hint) from None
    if library == "jax" and float_name == "float64":
        _need_wide_jax()
    return ArrayNamespace(library, xp, float_name, _device(library, device))


def _need_wide_jax() -> None:
    import jax  # pyright: ignore[reportMissingImports]

    if not jax.config.jax_enable_x64:
        step = "set JAX_ENABLE_X64=1 before jax is imported"
        raise UsageError.of("dtype 'float64'", "jax is set to 32 bits", "", step)


def _device(library: str, device: str) -> Any:
    if library == "torch":
        return _torch_device(device)
    if library == "dpnp":
        return _sycl_device(device)
    if library == "cupy":
        if device.startswith("cuda"):
            return None
        raise UsageError.of(
            f"device {quoted(device)}", "not one of cupy's", "cupy runs on 'cuda'", "give --device cuda"
        )
    if device != "cpu" and library != "jax":
        raise UsageError.of(
            f"device {quoted(device)}", f"{library} runs on 'cpu'", "", "choose torch, jax, cupy or dpnp"
        )
    return _jax_device(device) if library == "jax" else None


def _torch_device(device: str) -> Any:
    import torch

    try:
        torch_device = torch.device(device)
        torch.zeros(1, device=torch_device)
    except (RuntimeError, AssertionError, ValueError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError.of(
            f"device {quoted(device)}",
            f"torch says {quoted(message)}",
            "",
            "choose 'cpu', or install a torch with CUDA",
        ) from None
    return torch_device


def _jax_device(device: str) -> Any:
    import jax  # pyright: ignore[reportMissingImports]

    try:
        return jax.devices(device)[0]
    except RuntimeError:
        raise UsageError.of(f"device {quoted(device)}", "jax has none", "", "choose 'cpu'") from None


def _sycl_device(device: str) -> Any:
    import dpctl  # pyright: ignore[reportMissingImports]

    try:
        return dpctl.SyclDevice(device)
    except (dpctl.SyclDeviceCreationError, ValueError):
        # the driver of CPUs comes with dpnp, but an environment of Python registers none
        driver = f"OCL_ICD_FILENAMES={sys.prefix}/lib/libintelocl.so"
        hint = f"for the CPU set {driver} before Python starts"
        raise UsageError.of(f"device {quoted(device)}", "SYCL has none", "", hint) from None
