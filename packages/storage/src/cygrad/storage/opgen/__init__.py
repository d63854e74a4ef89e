"""Reads the op table and prints what the builds of storage and autograd compile. Not imported at run time."""
from .cuda import write_cuda
from .emit import show, write_storage
from .parse import TableError

__all__ = ["TableError", "show", "write_autograd", "write_cuda", "write_storage"]


def write_autograd(out_dir, source_dir):
    """Print what autograd compiles from the op table and its own formulas in `source_dir`; returns the files."""
    from .autograd import write_autograd

    return write_autograd(out_dir, source_dir)
