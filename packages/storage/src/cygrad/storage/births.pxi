# births: where storages were made, for who asks. May use: memory. The GIL is held.
# Entries are of storages that live: while there are any, each storage that dies looks for its own, also when nobody notes any
# more. A flag in the storage would not do: storages exchange what they are (share_memory_), and stay where they are.
cdef int birth_noters = 0
cdef object birth_place = None
cdef int64_t births_so_far = 0
cdef dict births = {}      # address of a Storage -> (number in the order of making, what birth_place() said)


cdef int note_birth(Storage s) except -1:
    global births_so_far
    place = birth_place()
    births_so_far += 1
    births[<size_t><void*>s] = (births_so_far, place)
    return 0


cdef void forget_birth(Storage s):
    births.pop(<size_t><void*>s, None)


def note_births(int change, place):
    """Note of every storage made from now on where that was.

    Parameters
    ----------
    change : int
        1 to begin, -1 to end; nested beginnings are counted.
    place : callable
        Is asked when a storage is made; all who note at the same time share one.

    Returns
    -------
    int
        How many storages were noted so far: those to come have larger numbers.
    """
    global birth_noters, birth_place
    if change not in (1, -1) or birth_noters + change < 0:
        raise ValueError(f"note_births: change is 1, or -1 after it, not {change}")
    if not callable(place):
        raise TypeError(f"note_births: place is called, which a {builtin_type(place).__name__} cannot be")
    birth_noters += change
    birth_place = place if birth_noters else None
    return births_so_far


def noted_births():
    """The storages that live and were made while `note_births` was on.

    Returns
    -------
    list of (Storage, int, object)
        The storage, its number in the order of making, its place.
    """
    cdef list found = []
    cdef Storage s
    for address in list(births):
        noted = births.get(address)              # making tuples can collect garbage, and storages with it
        if noted is not None:
            s = <Storage><void*><size_t>address
            found.append((s, noted[0], noted[1]))
    return found
