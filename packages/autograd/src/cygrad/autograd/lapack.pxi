# lapack: LAPACK on tensors, for the compositions of composed/linalg_*.py, which record it. May use: opcall, args.


def lapack(str routine, *tensors, str letters="", double rcond=-1):
    """Results of one of storage's LAPACK drivers, whose comments say what it takes and gives; nothing is recorded.

    Parameters
    ----------
    routine : str
        Name of the driver, such as ``"getrf"``.
    *tensors : Tensor
        Its inputs; batch dimensions must be equal.
    letters : str
        The routine's character arguments.
    rcond : float
        Relative cutoff of least squares.

    Returns
    -------
    list of Tensor
        The driver's results.
    """
    cdef Meta* x[4]
    cdef Meta* y[LAPACK_RESULTS]
    cdef int k, n = len(tensors)
    cdef list results = [tensor_new() for _ in range(LAPACK_RESULTS)]
    cdef Batch over = joint_of([as_tensor_arg(t, "lapack", "tensors") for t in tensors])
    if n > 4:
        raise TypeError(f"lapack() takes at most 4 tensors, got {n}")
    if over is not None:
        results = [front(<Tensor>t, over, 0) for t in tensors]
        return [under(<Tensor>r, over, 0) for r in lapack(routine, *results, letters=letters, rcond=rcond)]
    for k in range(n):
        x[k] = &as_tensor_arg(tensors[k], "lapack", "tensors").m
        if x[k].device:
            raise NotImplementedError(f"{routine}: LAPACK computes on the CPU, and this tensor is on {device_object(x[k].device)}: move it "
                                      "with .cpu()")
    for k in range(LAPACK_RESULTS):
        y[k] = &(<Tensor>results[k]).m
    storages = lapack_call(routine, x, n, y, letters.encode(), rcond)
    for k in range(len(storages)):
        adopt(<Tensor>results[k], <Storage>storages[k])
    return results[:len(storages)]
