# anomaly: where nodes were made, and what a watched backward pass says when a node fails or gives NaN. May use: node, engine.
# Anomaly mode is the whole process's, as PyTorch's is: threads that a library started are watched too.

cdef enum:
    WATCH_ORIGIN = 1           # nodes note the call that made them
    WATCH_NAN = 2              # a gradient that holds NaN is an error


def _set_anomaly(bint enabled, bint check_nan):
    """Anomaly mode on or off; returns what was set."""
    global watching, keeping_lines, check_nan_wanted
    before = watching & WATCH_ORIGIN != 0, check_nan_wanted
    check_nan_wanted = check_nan
    keeping_lines += enabled - before[0]
    watching = watching & ~(WATCH_ORIGIN | WATCH_NAN)
    if enabled:
        watching |= WATCH_ORIGIN | (WATCH_NAN if check_nan else 0)
    return before


cdef bint check_nan_wanted = True


def is_anomaly_enabled():
    """Whether anomaly mode is on."""
    return watching & WATCH_ORIGIN != 0


def is_anomaly_check_nan_enabled():
    """Whether anomaly mode, when it is on, treats NaN in a gradient as an error."""
    return bool(check_nan_wanted)


cdef int note_origin(Node n) except -1:
    """Keeps the line of the call that made n; in anomaly mode all lines, and the node whose backward made it."""
    extra(n).line = user_line()
    if watching & WATCH_ORIGIN:
        import traceback
        notes = node_hooks(n).metadata
        notes["traceback_"] = traceback.format_stack()
        if cyg_pass != NULL and (<Pass>cyg_pass).running != NULL:
            notes["parent_"] = shown(<Node>(<Pass>cyg_pass).running)
    return 0


cdef int explain(Node n) except -1:
    """Warns with the calls that made a node whose backward failed, and those that led to it."""
    import warnings
    cdef Node parent
    notes = {} if n.x is None or n.x.hooks is None else n.x.hooks.metadata
    lines = notes.get("traceback_")
    if lines is None:
        warnings.warn(f"Error detected in {node_name(n)}. No forward pass information available. Enable detect anomaly during forward "
                      "pass for more information.", UserWarning)
        return 0
    warnings.warn(f"Error detected in {node_name(n)}. Traceback of forward call that caused the error:\n{''.join(lines)}", UserWarning)
    while isinstance(notes.get("parent_"), Node):
        parent = <Node>notes["parent_"]
        notes = {} if parent.x is None or parent.x.hooks is None else parent.x.hooks.metadata
        lines = notes.get("traceback_")
        if lines is None:
            warnings.warn(f"Previous calculation was induced by {node_name(parent)}. No forward pass information available. Enable "
                          "detect anomaly during forward pass for more information.", UserWarning)
            return 0
        warnings.warn(f"Previous calculation was induced by {node_name(parent)}. Traceback of forward call that induced the previous "
                      f"calculation:\n{''.join(lines)}", UserWarning)
    return 0


cdef int refuse_nan(Node n, tuple given) except -1:
    """Raises when a gradient that n gave holds NaN."""
    cdef int before = set_recording(False)
    try:
        for k, g in enumerate(given):
            if isinstance(g, Tensor) and holds_nan(<Tensor>g):
                raise RuntimeError(f"Function '{node_name(n)}' returned nan values in its {k}th output.")
    finally:
        restore_mode(before)
    return 0


cdef bint holds_nan(Tensor t) except -1:
    cdef Tensor hit
    if category(t.m.dtype) < 2:
        return False
    hit = op_ne(t, t)
    return bool(op_any(hit, full_mask(hit), False).item())
