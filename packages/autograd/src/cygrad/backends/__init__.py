"""What PyTorch's programs ask and set about its back ends, as torch.backends.

Computations run by cygrad's own kernels and OpenBLAS, on CUDA devices by cuBLAS and cuDNN. Settings of back ends that
are not there can be written and read, so that programs that make them run; nothing reads them.
"""

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
