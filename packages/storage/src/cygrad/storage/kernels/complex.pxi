# Kernel group "complex": what complex numbers need beside kernels of real ones. Compiled for the base instruction set only:
# the work is in products and in the C library. The pointwise kernels of complex numbers are the group "complex_rows".
from cygrad.storage.core cimport COMPLEX64, COMPLEX128, N_DTYPES
include "_hand_ids.pxi"

cdef extern from "complex_kernels.h":
    void c_modulus_c64() noexcept
    void c_modulus_c128() noexcept
    void c_dot_c64() noexcept
    void c_dot_c128() noexcept
    void c_prod_c64() noexcept
    void c_prod_c128() noexcept
    void c_prod_merge() noexcept
    void c_cumprod_c64() noexcept
    void c_cumprod_c128() noexcept
    void c_logcumsumexp_c64() noexcept
    void c_logcumsumexp_c128() noexcept
    void c_recurrence_c64() noexcept
    void c_recurrence_c128() noexcept


cdef inline void register_two(int hid, void* single, void* double_, void** table) noexcept:
    table[hid * N_DTYPES + COMPLEX64] = single
    table[hid * N_DTYPES + COMPLEX128] = double_


cdef void register_kernels(void** table) noexcept:
    register_two(H_MODULUS, <void*> c_modulus_c64, <void*> c_modulus_c128, table)
    register_two(H_DOT, <void*> c_dot_c64, <void*> c_dot_c128, table)
    register_two(H_PROD, <void*> c_prod_c64, <void*> c_prod_c128, table)
    register_two(H_MERGE + H_PROD - H_SUM, <void*> c_prod_merge, <void*> c_prod_merge, table)
    register_two(H_CUMPROD, <void*> c_cumprod_c64, <void*> c_cumprod_c128, table)
    register_two(H_LOGCUMSUMEXP, <void*> c_logcumsumexp_c64, <void*> c_logcumsumexp_c128, table)
    register_two(H_RECURRENCE, <void*> c_recurrence_c64, <void*> c_recurrence_c128, table)


def register_address():
    return <size_t> &register_kernels
