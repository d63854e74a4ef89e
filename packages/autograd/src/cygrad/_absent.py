"""What PyTorch has and cygrad, on purpose, has not: why, and what to use instead.

The names are those below ``cygrad``; the last word stands for everything below a module, too. Asked for only when a
name is not found.
"""

NO_COMPILER = "there is no compiler: functions and modules run as they are, so the call can be left out"
NO_SPARSE = "tensors are dense here; SciPy's sparse arrays take and give NumPy arrays, which share memory with tensors"
NO_QUANTIZED = "there are no quantized tensors; int8 and uint8 are ordinary dtypes"
NO_GRAPHS = "graphs of CUDA are not here: operations are launched one by one, so the call can be left out"
ONE_ALLOCATOR = "memory of devices comes from cygrad's own allocator"
ONE_PROCESS = ("training runs in one process here; nn.DataParallel uses several devices, and utils.data.DataLoader has "
               "worker processes")
ONLY_CPU = "devices are the CPU and those of CUDA, see cygrad.cuda"
NO_SYMBOLS = "operations run at once, so there are neither graphs to rewrite nor symbolic sizes"
NOT_HERE = "there is no such part here"

_REASONS = {
    NO_COMPILER: "compile jit jit_utils export package library classes ops",
    NO_SPARSE: (
        "sparse sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc sparse_coo_tensor sparse_csr_tensor "
        "sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor resize_as_sparse_ hspmm spmm "
        "smm saddmm sspaddmm dsmm hsmm"
    ),
    NO_QUANTIZED: (
        "quantization ao qint8 qint32 quint8 quint4x2 quint2x4 qscheme per_tensor_affine per_tensor_symmetric "
        "per_channel_affine per_channel_symmetric per_channel_affine_float_qparams quantize_per_tensor "
        "quantize_per_tensor_dynamic quantize_per_channel fake_quantize_per_tensor_affine "
        "fake_quantize_per_channel_affine nn.quantized nn.quantizable nn.qat nn.intrinsic"
    ),
    ONE_PROCESS: "distributed nn.parallel.DistributedDataParallel nn.parallel.distributed futures fork wait",
    ONLY_CPU: "mtia",
    NO_GRAPHS: (
        "cuda.CUDAGraph cuda.graph cuda.graphs cuda.graph_pool_handle cuda.make_graphed_callables accelerator.Graph"
    ),
    ONE_ALLOCATOR: "cuda.MemPool cuda.use_mem_pool cuda.CUDAPluggableAllocator cuda.change_current_allocator",
    NO_SYMBOLS: "fx SymInt SymFloat SymBool cond while_loop",
}

ABSENT = {name: reason for reason, names in _REASONS.items() for name in names.split()} | {
    "complex32": "complex32 is not supported, complex64 is",
    "chalf": "complex32 is not supported, complex64 is",
    "hub": "nothing is downloaded here; load() reads PyTorch's checkpoints, utils.safetensors others'",
    "masked": "masked tensors are not here; where(), masked_fill() and the nan... reductions do most of their work",
    "nested": "nested tensors are not here; nn.utils.rnn pads and packs sequences of several lengths",
    "jagged": "nested tensors are not here; nn.utils.rnn pads and packs sequences of several lengths",
    "cuda.comm": "nn.parallel has replicate, scatter, gather and parallel_apply",
    "cuda.nccl": ONE_PROCESS,
    "cuda.sparse": NO_SPARSE,
    "cuda.tunable": NOT_HERE,
    "cuda.GreenContext": NOT_HERE,
    "cuda.DeferredCudaCallError": NOT_HERE,
    "cuda.current_solver_handle": "cuSOLVER is not used here",
    "cuda.CudaError": "what CUDA reports is raised as AcceleratorError",
    "cuda.cudaStatus": "what CUDA reports is raised as AcceleratorError",
    "cuda.check_error": "what CUDA reports is raised as AcceleratorError",
    "cuda.jiterator": NO_COMPILER,
    "overrides": "the protocol __torch_function__ is not here: functions take tensors and their subclasses",
    "monitor": NOT_HERE,
    "nn.Container": "it is deprecated: subclass nn.Module",
    "nn.CrossMapLRN2d": "it is replaced by nn.LocalResponseNorm",
    "nn.SyncBatchNorm": "training runs in one process here: use nn.BatchNorm1d, 2d or 3d",
    "nn.functional.grouped_mm": "it is for devices of other kinds; bmm and einsum multiply batches of matrices",
    "nn.functional.scaled_mm": "8-bit floating point is not here",
    "nn.functional.scaled_grouped_mm": "8-bit floating point is not here",
    "nn.functional.ScalingType": "8-bit floating point is not here",
    "nn.functional.SwizzleType": "8-bit floating point is not here",
    "nn.functional.native_channel_shuffle": "use nn.functional.channel_shuffle",
    "nn.functional.conv_tbc": "use conv1d of x.permute(1, 2, 0), whose order is (N, C, T)",
    "nn.utils.prune": "pruning is not here: multiply a weight by a mask in a parametrization (nn.utils.parametrize)",
    "utils.cpp_extension": "extensions are compiled by their own build: see the .pxd files of cygrad.autograd",
    "utils.mobile_optimizer": NO_COMPILER,
    "utils.bottleneck": "Python's own profilers see cygrad's calls",
    "symeig": "it was removed: use linalg.eigh",
    "eig": "it was removed: use linalg.eig",
    "lstsq": "it was removed: use linalg.lstsq",
    "solve": "it was removed: use linalg.solve",
    "matrix_rank": "it was removed: use linalg.matrix_rank",
}
for _name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float4_e2m1fn_x2"):
    ABSENT[_name] = "8-bit floating point is not here; float16 and bfloat16 are the shortest"

for _name in ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "ComplexFloat",
              "ComplexDouble"):
    for _place in ("", "cuda."):
        ABSENT[f"{_place}{_name}Storage"] = (
            "x.storage() is a TypedStorage of any dtype, x.untyped_storage() counts bytes")

for _name in ("CatTransform", "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform",
              "ExponentialFamily", "GeneralizedPareto", "LKJCholesky", "LowRankMultivariateNormal",
              "PositiveDefiniteTransform", "StackTransform", "VonMises", "Wishart"):
    ABSENT[f"distributions.{_name}"] = "it is not among the distributions here; a subclass of Distribution can add it"

# Families of names at the top.
PREFIXES = {
    "quantized_": NO_QUANTIZED, "fbgemm_": NO_QUANTIZED, "QInt": NO_QUANTIZED, "QUInt": NO_QUANTIZED,
    "q_per_channel_": NO_QUANTIZED, "cudnn_": ONLY_CPU, "miopen_": ONLY_CPU,
    "mkldnn_": "use the function without mkldnn_",
    "sym_": NO_SYMBOLS, "Script": NO_COMPILER,
}  # fmt: skip


def why(path):
    """The sentence about a name such as ``"nn.qat"``, or ``""`` if there is none."""
    for prefix, reason in PREFIXES.items():
        if path.startswith(prefix):
            return f"cygrad.{path} does not exist: {reason}"
    while path:
        if path in ABSENT:
            return f"cygrad.{path} does not exist: {ABSENT[path]}"
        path = path.rpartition(".")[0]
    return ""
