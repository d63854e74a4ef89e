# The stamp of storage's C declarations, compiled into storage and into everything that cimports it.
# A module built for other declarations would read the wrong struct fields without any error, so each one compares at import.
# Also the count of regions without the GIL, which all of them share.

cdef extern from *:
    const unsigned long long CYGRAD_STORAGE_ABI

cdef extern from "regions.h":
    ctypedef struct cyg_regions_t:
        pass
    cyg_regions_t* cyg_regions


cdef int check_storage_abi(str dependant) except -1:
    """Raise ImportError unless the storage that is installed is the one `dependant` was compiled for; join its count."""
    global cyg_regions
    from cygrad.storage.core import abi, regions_address
    cdef unsigned long long found = abi()
    if found != CYGRAD_STORAGE_ABI:
        raise ImportError(
            f"{dependant} was compiled for cygrad-storage with ABI {CYGRAD_STORAGE_ABI:016x}, but the cygrad-storage "
            f"that is installed has ABI {found:016x}: install all cygrad packages of one version together")
    cyg_regions = <cyg_regions_t*><size_t>regions_address()
    return 0
