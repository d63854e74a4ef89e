from builtins import float as _float
from typing import Any

from cygrad.storage.core import Size as Size
from cygrad.storage.core import Storage as UntypedStorage
from cygrad.storage.core import device as device
from cygrad.storage.core import dtype as dtype
from cygrad.storage.core import empty_cache as empty_cache
from cygrad.storage.core import get_num_threads as get_num_threads
from cygrad.storage.core import set_num_threads as set_num_threads
from cygrad.storage.limits import finfo as finfo
from cygrad.storage.limits import iinfo as iinfo
from cygrad.storage.typed import TypedStorage as TypedStorage

from . import accelerator as accelerator
from . import amp as amp
from . import array_api as array_api
from . import autograd as autograd
from . import backends as backends
from . import compiler as compiler
from . import cpu as cpu
from . import cuda as cuda
from . import fft as fft
from . import func as func
from . import linalg as linalg
from . import mps as mps
from . import multiprocessing as multiprocessing
from . import nn as nn
from . import optim as optim
from . import random as random
from . import return_types as return_types
from . import serialization as serialization
from . import settings as settings
from . import signal as signal
from . import special as special
from . import testing as testing
from . import tools as tools
from . import utils as utils
from . import version as version
from . import xpu as xpu
from ._tensor_str import set_printoptions as set_printoptions
from .amp.autocast_mode import autocast as autocast
from .amp.autocast_mode import autocast_decrement_nesting as autocast_decrement_nesting
from .amp.autocast_mode import autocast_increment_nesting as autocast_increment_nesting
from .amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
from .amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from .amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
from .amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from .amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
from .amp.autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from .amp.autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from .amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
from .amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
from .amp.autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from .autograd import enable_grad as enable_grad
from .autograd import no_grad as no_grad
from .autograd import set_grad_enabled as set_grad_enabled
from .autograd._core import *
from .autograd.composed import *
from .autograd.interop import asarray as asarray
from .autograd.interop import from_dlpack as from_dlpack
from .autograd.interop import from_file as from_file
from .amp.grad_scaler import GradScaler as GradScaler
from .cuda import AcceleratorError as AcceleratorError
from .cuda import OutOfMemoryError as OutOfMemoryError
from .cuda._streams import Event as Event
from .cuda._streams import Stream as Stream
from .func import vmap as vmap
from .random import Generator as Generator
from .random import default_generator as default_generator
from .random import get_rng_state as get_rng_state
from .random import initial_seed as initial_seed
from .random import seed as seed
from .random import set_rng_state as set_rng_state
from .settings import *
from .tensortypes import is_storage as is_storage
from .tensortypes import tensortype
from .tensortypes import typename as typename

__version__: str

e: _float
inf: _float
nan: _float
newaxis: None
pi: _float

bool: dtype
uint8: dtype
int8: dtype
int16: dtype
short: dtype
int32: dtype
int: dtype
int64: dtype
long: dtype
uint16: dtype
uint32: dtype
uint64: dtype
float16: dtype
half: dtype
bfloat16: dtype
float32: dtype
float: dtype
float64: dtype
double: dtype
complex64: dtype
cfloat: dtype
complex128: dtype
cdouble: dtype

BFloat16Tensor: tensortype
BoolTensor: tensortype
ByteTensor: tensortype
CharTensor: tensortype
DoubleTensor: tensortype
FloatTensor: tensortype
HalfTensor: tensortype
IntTensor: tensortype
LongTensor: tensortype
ShortTensor: tensortype
