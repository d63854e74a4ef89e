"""Prints the pointwise rows of the op table for CUDA: functors of each formula and type, and a table of launches.

The text is C++ that nvcc and, behind ``cuda/shim.cuh``, any C++ compiler take. Formulas have the scalar reading of the
CPU's loops; ``cuda/device_math.cuh`` says what the functions are there.
"""
import re
from pathlib import Path

from .check import check
from .complexes import COMPLEX_TYPES, ComplexType, complex_formula, element
from .emit import LOOPS, group_of, loop_names, write_if_changed
from .parse import load
from .scalar import ADAPTED, kernels

HEAD = "// Printed by opgen from the op table; edit optable/*.toml instead.\n"
HALVES = ("FLOAT16", "BFLOAT16")
# DTypeCode -> the type of cuda/types.cuh that memory holds
STORED = {"BOOL": "uint8_t", "UINT8": "uint8_t", "INT8": "int8_t", "INT16": "int16_t", "INT32": "int32_t",
          "INT64": "int64_t", "FLOAT16": "f16_t", "BFLOAT16": "b16_t", "FLOAT32": "float", "FLOAT64": "double",
          "UINT16": "uint16_t", "UINT32": "uint32_t", "UINT64": "uint64_t", "COMPLEX64": "c64_t",
          "COMPLEX128": "c128_t"}
# Files that are compiled at the same time; gradients are many.
GROUPS = (*LOOPS, "complex")


def c_text(text):
    """C++ text of a formula that was printed as Cython's: casts are written in parentheses."""
    return re.sub(r"<(\w+)>", r"(\1)", text).replace("(not ", "(!")


def parameters(kernel, type):
    return ", ".join(f"{'uint8_t' if kind == 'truth' else type} {name}" for name, kind in kernel.operands)


def function_text(rows, kernel, type):
    """The function of one element, by the name by which other formulas call it."""
    text, _ = kernel.reading(rows, type)
    arguments = ", ".join([parameters(kernel, type.c), *(f"{type.c} {name}" for name in kernel.attrs)])
    result = "uint8_t" if kernel.truth else type.c
    return f"CYG_FN {result} {kernel.name}_{type.name}({arguments}) {{ return {c_text(text)}; }}\n"


def functor_text(kernel, type, field, call):
    """The struct that holds the scalar arguments and computes one element.

    Parameters
    ----------
    type : ElementType or ComplexType
    field : str
        C type of the scalar arguments.
    call : str
        The expression of one element, over operands and scalar arguments by their names.
    """
    through = "(int64_t)" if type.kind in ("bool", "int") else ""
    values = ", ".join(f"({field}){through}attr[{i}]" for i in range(len(kernel.attrs)))
    name = f"f_{kernel.name}_{type.name}"
    fields = "".join(f"    {field} {n};\n" for n in kernel.attrs)
    result = "uint8_t" if kernel.truth else field if type.kind == "complex" and kernel.row.out == "real" else type.c
    return (f"struct {name} {{\n{fields}"
            f"    static {name} of(const double* attr) {{ (void)attr; return {name}{{{values}}}; }}\n"
            f"    CYG_IN {result} operator()({parameters(kernel, type.c)}) const {{ return {call}; }}\n}};\n")


def entry(kernel, index, code, functor, heavy, result=None):
    """One line of the table: how the launch is instantiated for a dtype."""
    stored = STORED[code]
    kinds = ["truth" if kernel.truth else "value", *(kind for _, kind in kernel.operands)]
    types = ["uint8_t" if kind == "truth" else stored for kind in kinds]
    if result and not kernel.truth:
        types[0] = result
    if kernel.flags & 64 and code in HALVES:
        functor = f"Numbered<{functor}>"
    return f"    {{{index}, {code_name(code)}, run_row<{functor}, {str(heavy).lower()}, {', '.join(types)}>}},"


def code_name(code):
    return "C_" + code


def called(rows, by_name, text, seen):
    """Functions of forward formulas that `text` calls, those that they call before them."""
    parts = []
    for name, t in sorted(set(re.findall(r"\b([a-z]\w*?)_([a-z]+\d+)\(", text)) - seen):
        kernel = by_name.get(name)
        for type in kernel.types if kernel else ():
            if type.name == t and (name, t) not in seen:
                seen.add((name, t))
                mine = function_text(rows, kernel, type)
                parts += called(rows, by_name, mine.partition("{")[2], seen)
                parts.append(mine)
    return parts


def group_text(rows, found, group):
    """The functors of a group of real rows, and its table."""
    by_name = {k.name: k for k in found if k.name in rows}
    mine = [(i, k) for i, k in enumerate(found) if group_of(rows, k) == group]
    names = loop_names(rows, [k for _, k in mine])
    functors, lines, seen, functions = [], [], set(), []
    for index, kernel in mine:
        for t in kernel.types:
            name = names[kernel.name, t.name]
            heavy = group == "special" or kernel.row.rare
            if name == f"{kernel.name}_{t.name}":
                own = function_text(rows, kernel, t)
                if (kernel.name, t.name) not in seen:
                    functions += called(rows, by_name, own.partition("{")[2], seen)
                    functions.append(own)
                    seen.add((kernel.name, t.name))
                arguments = ", ".join([*(n for n, _ in kernel.operands), *kernel.attrs])
                functors.append(functor_text(kernel, t, t.c, f"{kernel.name}_{t.name}({arguments})"))
            lines.append(entry(kernel, index, t.code, "f_" + name, heavy))
            for code in kernel.adapted:
                if ADAPTED[code] == t.name:
                    lines.append(entry(kernel, index, code, "f_" + name, heavy or code not in HALVES))
    include = '#include "rows.cuh"\n' + ('#include "device_special.cuh"\n' if group == "special" else "")
    return "\n".join([HEAD + include, *functions, *functors, table_text(group, lines)])


def complex_text(rows, found):
    """The same of complex rows, whose formulas are read by `complexes`."""
    functors, lines = [], []
    for index, kernel in enumerate(found):
        for t in COMPLEX_TYPES if complex_formula(kernel) is not None else ():
            text, result = element(kernel, t)
            stored = ComplexType(t.name, t.code, STORED[t.code], t.part)
            functors.append(functor_text(kernel, stored, t.part, text))
            lines.append(entry(kernel, index, t.code, f"f_{kernel.name}_{t.name}", True,
                               t.part if result == t.part else None))
    return "\n".join([HEAD + '#include "rows.cuh"\n#include "device_complex.cuh"\n', *functors,
                      table_text("complex", lines)])


def table_text(group, lines):
    return (f'extern "C" const Row cyg_rows_{group}[] = {{\n' + "\n".join(lines)
            + "\n    {-1, 0, nullptr},\n};\n")


def index_text(found):
    """The number of kernels, and the tables of all groups, for ``cuda/pointwise.cu``."""
    tables = "".join(f"    DO({group}) \\\n" for group in GROUPS)
    return f"{HEAD}enum {{ CYG_KERNELS = {len(found)} }};\n#define CYG_ROW_GROUPS(DO) \\\n{tables}\n"


def write_cuda(out_dir):
    """Print what the CUDA extension compiles from the op table.

    Parameters
    ----------
    out_dir : path
        An existing folder, on the include path of the compilation.

    Returns
    -------
    list of Path
        A text for each group of rows, which ``cuda/GROUP_rows.cu`` includes, and a header that names the groups.
    """
    rows = load()
    check(rows)
    found = kernels(rows)
    out = Path(out_dir)
    return [write_if_changed(out / "cuda_row_groups.h", index_text(found)),
            *(write_if_changed(out / f"cuda_{g}_rows.h", group_text(rows, found, g)) for g in LOOPS),
            write_if_changed(out / "cuda_complex_rows.h", complex_text(rows, found))]
