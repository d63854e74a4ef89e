"""The Python array API standard, version 2024.12: what tensors name as their ``__array_namespace__``.

Its functions have the standard's names and signatures, and take and give arrays of one class: `Array`, a Tensor whose
operators promote as the standard says. Who passes plain Tensors gets plain Tensors. ``docs/array_api.md`` says where
the standard and PyTorch differ.
"""

from cygrad.storage.core import dtypes as _dtypes_by_name

from . import _creation, _elementwise, _manipulation, _statistics, fft, linalg
from ._array import Array
from ._creation import *
from ._dtypes import NAMES as _NAMES
from ._dtypes import can_cast, finfo, iinfo, isdtype, result_type
from ._elementwise import *
from ._info import __array_namespace_info__
from ._manipulation import *
from ._statistics import *
from .linalg import matmul, tensordot, vecdot

__array_api_version__ = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

_here = {name: dtype for name, dtype in _dtypes_by_name.items() if name in _NAMES}
globals().update(_here)

__all__ = ["Array", "__array_api_version__", "__array_namespace_info__", "can_cast", "e", "fft", "finfo", "iinfo",
           "inf", "isdtype", "linalg", "matmul", "nan", "newaxis", "pi", "result_type", "tensordot", "vecdot"]
__all__ += [*_here, *_creation.__all__, *_elementwise.__all__, *_manipulation.__all__, *_statistics.__all__]


def __array_namespace__(api_version=None):
    """This module, which is what ``Tensor.__array_namespace__`` gives.

    Raises
    ------
    ValueError
        A version of the standard that it does not follow.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"the versions of the array API standard here are {', '.join(_VERSIONS)}; got {api_version!r}")
    import cygrad.array_api

    return cygrad.array_api
