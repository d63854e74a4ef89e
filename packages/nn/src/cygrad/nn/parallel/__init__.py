"""Models on several devices of one process: `DataParallel` and its parts."""

from cygrad.nn.parallel.data_parallel import DataParallel, data_parallel
from cygrad.nn.parallel.parts import gather, parallel_apply, replicate, scatter

__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


def __getattr__(name: str) -> object:
    from cygrad._later import missing_attribute

    raise missing_attribute(__name__, name)
