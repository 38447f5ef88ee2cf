"""What editors and type checkers see of ``nirbridge``: the names that ``__init__.py`` imports when they are used."""

from nirbridge import errors as errors
from nirbridge._version import __version__ as __version__
from nirbridge.api.files import load_map as load_map
from nirbridge.api.files import load_quantized as load_quantized
from nirbridge.api.files import load_recording as load_recording
from nirbridge.api.files import load_verification as load_verification
from nirbridge.api.files import read_events as read_events
from nirbridge.api.files import save as save
from nirbridge.api.files import write_report as write_report
from nirbridge.api.measures import bench as bench
from nirbridge.api.measures import plot_bench as plot_bench
from nirbridge.api.measures import profile as profile
from nirbridge.api.measures import sweep as sweep
from nirbridge.api.models import chip as chip
from nirbridge.api.models import load as load
from nirbridge.api.pictures import plot_difference as plot_difference
from nirbridge.api.pictures import plot_energy as plot_energy
from nirbridge.api.pictures import plot_floorplan as plot_floorplan
from nirbridge.api.pictures import plot_network as plot_network
from nirbridge.api.pictures import plot_pareto as plot_pareto
from nirbridge.api.pictures import plot_profile as plot_profile
from nirbridge.api.pictures import plot_proof as plot_proof
from nirbridge.api.pictures import plot_raster as plot_raster
from nirbridge.api.pictures import plot_traces as plot_traces
from nirbridge.api.pictures import plot_traffic as plot_traffic
from nirbridge.api.runs import compare as compare
from nirbridge.api.runs import emit as emit
from nirbridge.api.runs import run as run
from nirbridge.api.runs import simulate as simulate
from nirbridge.api.runs import verify as verify
from nirbridge.api.sessions import Session as Session
from nirbridge.api.sessions import open as open
from nirbridge.api.stages import apply as apply
from nirbridge.api.stages import check_fit as check_fit
from nirbridge.api.stages import lower as lower
from nirbridge.api.stages import map as map
from nirbridge.api.stages import quantize as quantize
from nirbridge.benchmarking.model import Bench as Bench
from nirbridge.chips.model import Chip as Chip
from nirbridge.mapping.model import MappedNetwork as MappedNetwork
from nirbridge.network.model import Network as Network
from nirbridge.network.model import Population as Population
from nirbridge.network.model import Projection as Projection
from nirbridge.network.model import Timing as Timing
from nirbridge.network.neurons import Neuron as Neuron
from nirbridge.pipeline.options import MapOptions as MapOptions
from nirbridge.profiling.model import Profile as Profile
from nirbridge.quantization.model import QuantizedNetwork as QuantizedNetwork
from nirbridge.simulators.types import Probe as Probe
from nirbridge.simulators.types import Recording as Recording

def chips() -> tuple[str, ...]:
    """Names of all chips, nirbridge's own and those of plugins, in alphabetical order."""
    ...
