"""Prints the public forms of the op table's rows as data: what a form takes, its docstring, and an entry of one line.

One function of autograd's ``_forms.pyx`` reads the data and does what each form asks. Compiled functions with a parser
each would be a third of autograd's build, and a changed docstring would have the engine compiled again.
"""

import json

from .parse import NAMESPACES
from .scalar import attr_names

KINDS = ("t", "tn", "n", "mask", "index", "int", "float", "number", "flag", "dim", "dims", "axis", "axes", "ints",
         "dtype", "castto", "str", "scalar", "factor", "alpha", "out")
USUAL = {None: "MISSING", "None": "NONE", "False": "NO", "True": "YES", "()": "NOTHING"}
FLAGS = {"out_same": "EXACT", "out_typed": "EXACT | TYPED"}
# How a call passes each type of argument on: a member of the union `Arg`.
MEMBER = {"int": "i", "dim": "i", "flag": "i", "dtype": "i", "castto": "i", "dims": "m", "axis": "m", "axes": "m",
          "float": "f", "number": "f", "factor": "f", "ints": "d", "str": "o", "scalar": "o"}
PLACES = {"function", "nn", *NAMESPACES}


def modes(row):
    """The forms that a row has: (how forms.h calls it, public name)."""
    found = [("FUNCTION", row.name)] if PLACES & set(row.api) else []
    found += [("METHOD", row.name)] if "method" in row.api else []
    return found + ([("IN_PLACE", row.name + "_")] if "inplace" in row.api else [])


def takes(row):
    """(public name, kind, default, keyword only) of everything that a form takes, `out` last: methods have none."""
    found = [(row.public_name(p), p.type, p.default, p.kwonly) for p in row.params]
    found += [("alpha", "alpha", "1", True)] if row.alpha else []
    found += [("out", "out", "None", True)] if row.out_form else []
    kinds = [kind for _, kind, _, _ in found]
    if kinds[0] not in ("t", "tn") or kinds.count("ints") > 2 or "tensors" in kinds:
        row.fail("a public form takes a tensor first, and at most two lists of ints")
    return found


def usual(row, kind, default):
    """The initialiser of a default: how it is made, and the number where it is one."""
    if default in USUAL:
        return f"{USUAL[default]}, 0"
    try:
        return f"NUMBER, {int(default)}"
    except ValueError:
        row.fail(f"a default of a public form is None, a bool, () or an int, not {default!r} (of type {kind})")


def signature(row, mode):
    """What `inspect.signature` reads, in the form that CPython's own functions have it."""
    parts, star = ["$self" if mode != "FUNCTION" else "$module"], False
    for i, (name, kind, default, keyword) in enumerate(takes(row)):
        if mode != "FUNCTION" and (i == 0 or kind == "out"):
            continue
        if keyword and not star:
            parts.append("*")
            star = True
        parts.append(name if default is None else f"{name}={default}")
    return f"({', '.join(parts)})\n--\n\n"


def form_entry(row, rows, first):
    """The initialiser of a row's `Form`; its parameters begin at `first`."""
    ids = {name: i for i, name in enumerate(rows, 1)}
    names = [p.name for p in row.params]
    flags = [FLAGS[row.out_form]] if row.out_form in FLAGS else []
    flags += ["POINTWISE"] if row.kind == "pointwise" else []
    flags += ["SEVERAL"] if len(row.outputs) > 1 else []
    flags += ["NAMED"] if row.returns else []
    flags += ["FACTORS"] if row.factors else []
    plain = row.kind == "pointwise" and not row.args and not row.overload and len(row.inputs) < 3
    quick = len(row.inputs) if plain and all(p.type in ("t", "tn") for p in row.inputs) else 0
    overload = names.index(row.overload) if row.overload else -1
    alpha = ids[row.alpha] if row.alpha else 0
    return (f'    {{"{row.name}", params + {first}, {ids[row.name]}, {alpha}, {len(takes(row))}, {quick}, {overload}, '
            f'{int(row.out_form is not None)}, {" | ".join(flags) or 0}, '
            f'{sum(not keyword for *_, keyword in takes(row))}}},')


def forms_text(rows):
    """forms_table.h: parameters, forms, entries, and the method tables that Python is given."""
    params, forms, entries, functions, methods = [], [], [], [], []
    for row in (r for r in rows.values() if modes(r)):
        attrs = list(attr_names(row)) if row.kind == "pointwise" else []
        if attrs != [p.name for p in row.args] and row.kind == "pointwise":
            row.fail("scalar arguments of a public form stand in the order in which the kernel reads them")
        i, first = len(forms), len(params)
        forms.append(form_entry(row, rows, first))
        places = [p.name for p in row.params]
        for name, kind, default, keyword in takes(row):
            target = places.index(row.factors[name]) if kind == "factor" else 0
            facts = f"KIND_{kind.upper()}, {usual(row, kind, default)}, {int(keyword)}, {target}"
            params.append(f'    {{"{name}", {facts}}},')
        for mode, name in modes(row):
            entries.append(f"ENTRY({i}, {mode})")
            text = json.dumps(name + signature(row, mode) + row.doc, ensure_ascii=False)
            listed = functions if mode == "FUNCTION" else methods
            listed.append(f'    {{"{name}", (PyCFunction)(void (*)(void))call_{mode}_{i}, FASTCALL, {text}}},')
    most = max(len(takes(r)) for r in rows.values() if modes(r))
    end = "    {NULL, NULL, 0, NULL},\n};\n"
    head = "/* Printed by opgen from the op table; edit the rows in optable instead. */\n"
    return (f"{head}#define MOST_PARAMS {most}\n\n"
            + "static Param params[] = {\n" + "\n".join(params) + "\n};\n\n"
            + "static Form forms[] = {\n" + "\n".join(forms) + "\n};\n\n" + "\n".join(entries)
            + "\n\nstatic PyMethodDef form_functions[] = {\n" + "\n".join(functions) + "\n" + end
            + "\nstatic PyMethodDef form_methods[] = {\n" + "\n".join(methods) + "\n" + end)


def call_functions(row):
    """(member of OpInfo, text): functions through which forms and gradients call a row that is no loop."""
    called = row.kind in ("kernel", "into", "view") and not any(p.type == "tensors" for p in row.params)
    if row.kind == "pointwise" or not (called or modes(row)):
        return []
    args = []
    for i, p in enumerate(row.params):
        args.append(f"<Tensor>v[{i}].o" if p.is_tensor else f"v[{i}].{MEMBER[p.type]}")
        if p.type in ("str", "scalar"):
            args[-1] = f"<{'str' if p.type == 'str' else 'object'}>{args[-1]}"
    members = {"FUNCTION": "op", "METHOD": "op", "IN_PLACE": "in"}
    prefixes = dict.fromkeys([*["op"] * called, *(members[mode] for mode, _ in modes(row))])
    text = "cdef object {0}_call_{1}(const Arg* v):\n    return {0}_{1}({2})\n"
    return [("call" if prefix == "op" else "write", text.format(prefix, row.name, ", ".join(args)))
            for prefix in prefixes]
