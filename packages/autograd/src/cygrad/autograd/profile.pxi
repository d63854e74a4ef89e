# profile: when operations and nodes begin and end, written down for cygrad.tools.profiler. May use: mode, node, trace.
# When it is off, an operation pays for one test of the mode word where it begins.

cdef extern from *:
    """
    #include <time.h>
    static int64_t cyg_clock(void) {
        struct timespec t;
    #if defined(_MSC_VER)
        timespec_get(&t, TIME_UTC);
    #else
        clock_gettime(CLOCK_MONOTONIC, &t);
    #endif
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    """
    int64_t cyg_clock() noexcept

cdef list profile_events = None        # tuples, shared by all threads: kind, name or op, began, ended, thread, node, bytes, shapes, live
cdef object profile_memory = None      # gives the bytes that are in use, where they are asked for


cdef inline int64_t op_began() noexcept:
    """When an operation begins, in nanoseconds; 0 where nobody asks."""
    return cyg_clock() if cyg_mode & MODE_PROFILE else 0


cdef int note_op(int op, Tensor y, tuple inputs, int64_t began) except -1:
    """An operation has run."""
    cdef int64_t ended = cyg_clock(), moved = y.m.numel * ITEMSIZE[y.m.dtype]
    cdef list shapes
    if profile_events is None:
        return 0
    shapes = []
    for t in inputs:
        if t is not None:
            moved += (<Tensor>t).m.numel * ITEMSIZE[(<Tensor>t).m.dtype]
            shapes.append(shape_tuple(&(<Tensor>t).m))
        else:
            shapes.append(None)
    profile_events.append((0, op, began or ended, ended, PyThread_get_thread_ident(),
                           0 if y.fn is None else <size_t><void*>y.fn, moved, (shapes, shape_tuple(&y.m)),
                           None if profile_memory is None else profile_memory()))
    return 0


cdef int note_node(Node n, int64_t began) except -1:
    """A node's backward has run."""
    if profile_events is not None:
        profile_events.append((1, node_name(n), began, cyg_clock(), PyThread_get_thread_ident(), <size_t><void*>n, 0, None,
                               None if profile_memory is None else profile_memory()))
    return 0


def _profile_into(list events, memory=None):
    """Where events are written from now on, None ends that; memory: gives the bytes in use. Returns what was before."""
    global profile_events, profile_memory
    before = profile_events, profile_memory
    profile_events, profile_memory = events, memory
    return before


def _profile_clock():
    """The clock of the events, in nanoseconds."""
    return cyg_clock()


def _row_name(int op):
    """The name of a row of the table by its number in events."""
    return ROW_NAMES[op - 1]
