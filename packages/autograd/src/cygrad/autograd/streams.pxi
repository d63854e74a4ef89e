# streams: backward passes of devices run on the streams of the forward pass. May use: node. Until some thread chooses a stream that is
# no default one, nothing is noted and passes pay one test a node.

cdef bint streams_used = False
cdef object stream_address = None          # of a device, counted from 0: that of the stream to which this thread's work goes; 0: the default one
cdef object stream_now = None              # the stream itself
cdef object stream_default = None          # the same for the default stream
cdef object stream_choose = None           # lets this thread's work on a stream's device go there


def watch_streams(address, current, default, choose):
    """From now on nodes note the stream of the operation that made them.

    Parameters
    ----------
    address : callable
        Gives the address of the stream to which this thread's work on a device goes, counted from 0.
    current : callable
        Gives the stream itself.
    default : callable
        Gives the default stream of a device.
    choose : callable
        Lets this thread's work go to a stream.
    """
    global streams_used, stream_address, stream_now, stream_default, stream_choose
    stream_address, stream_now, stream_default, stream_choose = address, current, default, choose
    streams_used = True


cdef int note_stream(Node n, int device) except -1:
    """Called while the output is made, which is on a device (as Meta has it)."""
    if stream_address(device - 1):
        extra(n).stream = stream_now(device - 1)
    return 0


@cython.final
cdef class Route:
    # owned by one Pass: which streams it went through. Each waits for the one before, so that gradients are there when they are read;
    # at the end all wait for the last, and so does what the caller does next.
    cdef dict now, before, seen            # by device: the stream now, the caller's, all in their order

    def __cinit__(self):
        self.now, self.before, self.seen = {}, {}, {}

    cdef int go(self, Node n) except -1:
        """To the stream of a node."""
        cdef int device = n.odevice - 1
        stream = None if n.x is None else n.x.stream
        if stream is not None:
            device = stream.device_index
        if device < 0:
            return 0
        here = self.now.get(device)
        if here is None:
            here = self.now[device] = self.before[device] = stream_now(device)
            self.seen[device] = [here]
        if here.cuda_stream == (0 if stream is None else stream.cuda_stream):
            return 0
        if stream is None:
            stream = stream_default(device)
        stream.wait_stream(here)
        stream_choose(stream)
        self.now[device] = stream
        if stream not in self.seen[device]:
            self.seen[device].append(stream)
        return 0

    cdef int leave(self) except -1:
        """To the caller's streams: to all of them, before anything here can fail."""
        for stream in self.before.values():
            stream_choose(stream)
        for device, streams in self.seen.items():
            last = self.now[device]
            if len(streams) > 1:
                event = last.record_event()
                for stream in streams:
                    if stream != last:
                        stream.wait_event(event)
        return 0


cyg_set_new(Route, cyg_no_new)
