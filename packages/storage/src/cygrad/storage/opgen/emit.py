"""Prints the storage side of the op table: inline functions of one element, loops around them, kernel ids and names."""
import hashlib
import re
from pathlib import Path

from .check import check
from .complexes import COMPLEX_TYPES, complex_formula, complex_text
from .complexes import loop_text as complex_loop
from .gate import fill_text, functions, gate_text, table_text
from .parse import TABLE, load
from .scalar import ELEMENT_TYPES, PRIMITIVES, kernels

HEAD = "# Printed by opgen from the op table; edit optable/*.toml instead.\n"
ARGUMENTS = "(char** p, const int64_t* st, int64_t n, const double* attr) noexcept nogil"


def primitives_text(rare=False):
    """Declarations of vecmath.h, or of special.h."""
    lines = [f'cdef extern from "{"special" if rare else "vecmath"}.h" nogil:']
    for t in ELEMENT_TYPES:
        if not rare:
            lines.append(f"    {t.c} vm_where_{t.name}(bint c, {t.c} a, {t.c} b) noexcept")
        for name, p in PRIMITIVES.items():
            if t.kind in p.kinds and p.rare == rare:
                result = "bint" if p.result == "truth" else t.c
                args = ", ".join([t.c] * p.arity)
                lines.append(f"    {result} vm_{name}_{t.name}({args}) noexcept")
                if p.near and t.kind == "float":
                    lines.append(f"    {result} vm_near_{name}_{t.name}({args}) noexcept")
                    lines.append(f"    bint vm_far_{name}_{t.name}({args}) noexcept")
    return "\n".join([*lines, "    pass"]) + "\n"


def element_text(rows, kernel, type):
    """The inline function of one element; for formulas with far arguments also the near form and the test of them."""
    params = [f"{'uint8_t' if kind == 'truth' else type.c} {name}" for name, kind in kernel.operands]
    params += [f"{type.c} {name}" for name in kernel.attrs]
    result = "uint8_t" if kernel.truth else type.c

    def function(result, middle, text):
        head = f"cdef inline {result} {kernel.name}{middle}_{type.name}({', '.join(params)}) noexcept nogil:"
        return f"{head}\n    return {text}\n"

    text, reading = kernel.reading(rows, type)
    parts = [function(result, "", text)]
    if reading.far:
        parts.append(function(result, "_near", kernel.reading(rows, type, near=True)[0]))
        parts.append(function("bint", "_far", " | ".join(dict.fromkeys(reading.far))))
    return "\n".join(parts)


def dense_lines(kernel, type, call, far):
    """The loop over dense operands; with far arguments, one that looks for them and then one of two."""
    dense = [f"x{i}[i]" for i in range(1, len(kernel.operands) + 1)]
    if not far:
        return ["        for i in range(n):", f"            y[i] = {call('', dense)}"]
    return [
        "        for i in range(n):",
        f"            far = far | {call('_far', dense)}",
        "        if far:",
        "            for i in range(n):",
        f"                y[i] = {call('', dense)}",
        "        else:",
        "            for i in range(n):",
        f"                y[i] = {call('_near', dense)}",
    ]


def loop_text(rows, kernel, type):
    """The loop over one dimension: dense operands, for cheap formulas one scalar of two, and any strides."""
    _, reading = kernel.reading(rows, type)
    count = len(kernel.operands)
    blocked = reading.heavy or count > 2
    ctypes = ["uint8_t" if kernel.truth else type.c]
    ctypes += ["uint8_t" if kind == "truth" else type.c for _, kind in kernel.operands]
    sizes = [1 if c == "uint8_t" else type.size for c in ctypes]
    attrs = [f"t{i}" for i in range(len(kernel.attrs))]
    loop = f"loop_{kernel.name}_{type.name}"

    def call(middle, args):
        return f"{kernel.name}{middle}_{type.name}({', '.join([*args, *attrs])})"

    def test(scalar=None):
        return " and ".join(f"s{i} == {0 if i == scalar else size}" for i, size in enumerate(sizes))

    lines = [f"cdef void {loop}{ARGUMENTS}:"]
    lines.append("    cdef int64_t i, " + ", ".join(f"s{i} = st[{i}]" for i in range(count + 1)))
    lines.append(f"    cdef {ctypes[0]}* y = <{ctypes[0]}*>p[0]")
    lines += [f"    cdef const {c}* x{i} = <const {c}*>p[{i}]" for i, c in enumerate(ctypes) if i]
    through = "" if type.kind == "float" else "<int64_t>"  # C does not define a negative double as an unsigned byte
    lines += [f"    cdef {type.c} {t} = <{type.c}>{through}attr[{i}]" for i, t in enumerate(attrs)]
    if blocked:
        lines.append(f"    cdef int64_t[{count + 1}] dense")
    elif count == 2:
        lines += [f"    cdef {ctypes[i]} c{i}" for i in (1, 2)]
    if reading.far:
        lines.append("    cdef bint far = 0")
    lines += [f"    if n < 2 or ({test()}):", *dense_lines(kernel, type, call, reading.far)]
    for scalar in () if blocked or count == 1 else (2, 1):
        args = [f"c{i}" if i == scalar else f"x{i}[i]" for i in (1, 2)]
        lines += [f"    elif {test(scalar)}:", f"        c{scalar} = x{scalar}[0]"]
        lines += ["        for i in range(n):", f"            y[i] = {call('', args)}"]
    lines.append("    else:")
    if blocked:
        lines += [f"        dense[{i}] = {size}" for i, size in enumerate(sizes)]
        lines.append(f"        in_blocks({loop}, {count + 1}, dense, p, st, n, attr)")
    else:
        args = [f"(<const {c}*>(<const char*>x{i} + i * s{i}))[0]" for i, c in enumerate(ctypes) if i]
        lines.append("        for i in range(n):")
        lines.append(f"            (<{ctypes[0]}*>(<char*>y + i * s0))[0] = {call('', args)}")
    return "\n".join(lines) + "\n"


def loop_names(rows, found):
    """(kernel name, type name) -> name of its loop; kernels that compute the same thing share the first one's."""
    first, names = {}, {}
    for kernel in found:
        kinds = tuple(kind for _, kind in kernel.operands)
        for t in kernel.types:
            text, _ = kernel.reading(rows, t, positional=True)
            key = (t, kinds, kernel.truth, text)
            names[kernel.name, t.name] = first.setdefault(key, f"{kernel.name}_{t.name}")
    return names


LOOPS = ("pointwise", "comparisons", "functions", "gradients", "special")


def group_of(rows, kernel):
    """The file of ``kernels/`` that a kernel is compiled in: several, so that a changed formula compiles a part again.

    Arithmetic that integers have too, questions with a truth value, functions of real numbers, fused gradients, and the
    rare rows.
    """
    if kernel.row.rare:
        return "special"
    if kernel.name not in rows:
        return "gradients"
    if kernel.truth:
        return "comparisons"
    return "functions" if all(t.kind == "float" for t in kernel.types) else "pointwise"


def called_elements(rows, kernels_of_rows, text):
    """Inline functions of forward formulas that `text` calls by name, and those that they call."""
    parts, seen = [], set()
    waiting = [text]
    while waiting:
        found = set(re.findall(r"\b(\w+?)(?:_near|_far)?_([a-z]+\d+)\(", waiting.pop())) - seen
        for name, t in sorted(found):  # sorted, so that every run prints the same, and nothing is compiled again
            seen.add((name, t))
            kernel = kernels_of_rows.get(name)
            for type in kernel.types if kernel else ():
                if type.name == t:
                    parts.append(element_text(rows, kernel, type))
                    waiting.append(parts[-1].partition(":\n")[2])
    return parts


def pointwise_text(rows, found, group):
    """The loops of a group, and the inline functions that they call."""
    by_name = {k.name: k for k in found if k.name in rows}
    found = [k for k in found if group_of(rows, k) == group]
    names = loop_names(rows, found)
    loops = []
    for kernel in found:
        loops.append(f"# {kernel.name}: " + "; ".join(dict.fromkeys(f for _, f in kernel.formulas)) + "\n")
        for t in kernel.types:
            if names[kernel.name, t.name] == f"{kernel.name}_{t.name}":
                if kernel.name not in rows:
                    loops.append(element_text(rows, kernel, t))
                loops.append(loop_text(rows, kernel, t))
    parts = [HEAD, primitives_text(), primitives_text(rare=True) if group == "special" else ""]
    parts += [*called_elements(rows, by_name, "\n".join(loops)), *loops]
    lines = ["cdef void register_kernels(void** table) noexcept:"]
    for kernel in found:
        for t in kernel.types:
            lines.append(f"    table[{kernel.id} * N_DTYPES + {t.code}] = <void*>loop_{names[kernel.name, t.name]}")
    lines.append("    c_register_through(table)")
    return "\n".join([*parts, "\n".join(lines) + "\n"])


THROUGH = """#include "convert.h"

static void* c_kernels[{count}][C_COLUMNS];
#define C_KERNEL(id, code, nop, truths) \\
static void c_through_##id##_##code(char** p, const int64_t* st, int64_t n, const double* attr) {{ \\
    c_through((c_loop)c_kernels[id][c_computed(code)], code, nop, truths, p, st, n, attr); \\
}}
"""


def through_text(rows, found, group):
    """C header with the loops of adapted types, a line each, and the function that enters them beside the others.

    C, because Cython would spend its time on thousands of functions of one line.
    """
    lines = [THROUGH.format(count=len(found))]
    enter = ["static void c_register_through(void** table) {", "    memcpy(c_kernels, table, sizeof(c_kernels));"]
    for i, kernel in enumerate(found):
        for code in kernel.adapted if group_of(rows, kernel) == group else ():
            lines.append(f"C_KERNEL({i}, C_{code}, {len(kernel.operands) + 1}, {kernel.flags})")
            enter.append(f"    table[{i} * C_COLUMNS + C_{code}] = (void*)c_through_{i}_C_{code};")
    return "\n".join([*lines, "", *enter, "}"]) + "\n"


def ids_text(found):
    """Kernel ids, and a stamp of what they stand for: modules of two builds would take one id for different kernels."""
    facts = repr([(k.name, [t.name for t in k.types], k.operands, k.attrs) for k in found])
    lines = [HEAD + "cdef enum:"]
    lines.append(f"    TABLE_STAMP = {int(hashlib.sha256(facts.encode()).hexdigest()[:7], 16)}")
    lines += [f"    {kernel.id} = {i}" for i, kernel in enumerate(found)]
    return "\n".join([*lines, f"    N_KERNELS = {len(found)}"]) + "\n"


def names_text(rows, found):
    """For dispatch: groups of kernel modules; name and operands of every kernel, with a bit for each dtype it has."""
    groups = sorted(p.stem for p in (TABLE.parent / "kernels").glob("[!_]*.pxi"))
    lines = [HEAD + f"GROUPS = {tuple(groups)!r}", f"POINTWISE = {(*LOOPS, 'complex_rows')!r}"]
    lines.append("KERNELS = {  # name: (id, operands, scalar arguments, group)")
    lines += [f'    "{k.name}": ({i}, {tuple(n for n, _ in k.operands)!r}, {k.attrs!r}, "{group_of(rows, k)}"),'
              for i, k in enumerate(found)]
    lines += ["}", f"cdef uint32_t[{len(found)}] DECLARED"]
    for k in found:
        codes = [*(t.code for t in k.types), *k.adapted, *(t.code for t in COMPLEX_TYPES if complex_formula(k))]
        lines.append(f"DECLARED[{k.id}] = " + " | ".join(f"1 << {code}" for code in codes))
    return "\n".join(lines) + "\n"


def write_if_changed(path, text):
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
    return path


def write_storage(out_dir):
    """Print what storage compiles from its op table.

    Parameters
    ----------
    out_dir : path
        An existing folder on the include path of the compilation.

    Returns
    -------
    list of Path
        The files, whether or not they had changed.

    Raises
    ------
    TableError
        If a row cannot be read or breaks a rule of `check`.
    """
    rows = load()
    check(rows)
    found = kernels(rows)
    out = Path(out_dir)
    return [
        write_if_changed(out / "kernel_ids.pxi", ids_text(found)),
        write_if_changed(out / "kernel_names.pxi", names_text(rows, found)),
        *(write_if_changed(out / f"{g}_loops.pxi", pointwise_text(rows, found, g)) for g in LOOPS),
        *(write_if_changed(out / f"{g}_through.h", through_text(rows, found, g)) for g in LOOPS),
        write_if_changed(out / "complex_rows.h", complex_text(found)),
        *write_gate(out),
    ]


def write_gate(out):
    """The functions through which callers reach the operations of a device, and what the devices enter there."""
    storage = TABLE.parent
    declared = functions(storage / "ops.pxd")
    near = [storage / "cpu.pyx", *sorted(storage.glob("ops_*.pxi"))]
    away = sorted((storage / "cuda").glob("ops_*.pxi"))
    parts = "\n".join(f'include "cygrad/storage/cuda/{p.name}"' for p in away)
    entered = [*(storage / "cuda" / name for name in ("_cuda.pyx", "transfer.pxi")), *away]
    return [
        write_if_changed(out / "_ops_table.pxi", table_text(declared)),
        write_if_changed(out / "_gate.pxi", gate_text(declared)),
        write_if_changed(out / "_cpu_fill.pxi", fill_text(declared, near, storage)),
        write_if_changed(out / "_cuda_fill.pxi", fill_text(declared, entered, storage)),
        write_if_changed(out / "_cuda_ops.pxi", parts + "\n"),
    ]


def show(name):
    """The generated text of one row of the table."""
    rows = load()
    if name not in rows:
        raise KeyError(f"no row {name!r} in the op table")
    mine = [k for k in kernels(rows) if k.row.name == name]
    parts = []
    for kernel in mine:
        group = group_of(rows, kernel)
        names = loop_names(rows, [k for k in kernels(rows) if group_of(rows, k) == group])
        parts.append(f"# {kernel.id}: " + "; ".join(dict.fromkeys(f for _, f in kernel.formulas)) + "\n")
        for t in kernel.types:
            if names[kernel.name, t.name] == f"{kernel.name}_{t.name}":
                parts += [element_text(rows, kernel, t), loop_text(rows, kernel, t)]
            else:
                parts.append(f"# {t.name}: the loop of {names[kernel.name, t.name]}\n")
        parts += [complex_loop(kernel, t) for t in COMPLEX_TYPES if complex_formula(kernel)]
    return "\n".join(parts)
