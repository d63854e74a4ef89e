"""Prints the type stubs of the public names that come from the op table or from compositions."""
import ast
from pathlib import Path

from .parse import NAMESPACES

# a method of Tensor or a function has the plain name
STUB_ARG = {"int": "_int", "float": "_float", "number": "_Number", "flag": "_bool", "dim": "_int",
            "dims": "_int | Sequence[_int] | None", "axis": "_int | None", "axes": "_int | Sequence[_int] | None",
            "ints": "Sequence[_int]", "dtype": "_dtype | None", "castto": "_dtype | None", "str": "str",
            "scalar": "_Number"}
STUB_TENSOR = {"t": "Tensor", "tn": "Tensor | _Number", "n": "Tensor | _Number", "mask": "Tensor", "index": "Tensor",
               "tensors": "Sequence[Tensor]"}


def stub(row, name, method, in_place):
    parts, star = (["self"] if method else []), False
    for p in row.params:
        if method and p is row.inputs[0]:
            continue
        if p.kwonly and not star:
            parts.append("*")
            star = True
        kind = STUB_TENSOR.get(p.type) or STUB_ARG[p.type]
        kind += " | None" if p.type == "flag" and p.default == "None" else ""
        parts.append(f"{row.public_name(p)}: {kind}" + (f" = {p.default}" if p.default is not None else ""))
    if row.alpha:
        parts += ([] if star else ["*"]) + ["alpha: _Number = 1"]
        star = True
    if row.out_form and not method:
        parts += ([] if star else ["*"]) + ["out: Tensor | None = None"]
    result = "Tensor" if len(row.outputs) == 1 else f"tuple[{', '.join(['Tensor'] * len(row.outputs))}]"
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


def stub_lines(rows):
    """(module lines, method lines) of the generated names."""
    places = {"function", "nn", *NAMESPACES}
    module = [stub(r, r.name, False, False) for r in rows.values() if places & set(r.api)]
    methods = [stub(r, r.name, True, False) for r in rows.values() if "method" in r.api]
    methods += [stub(r, r.name + "_", True, True) for r in rows.values() if "inplace" in r.api]
    return module, methods


def alias_lines(rows, template):
    """Further names, as assignments: (names in ``__all__``, module lines, method lines)."""
    module, methods = [], []
    for row in rows.values():
        for alias in (a for a in row.alias if "." not in a):
            if "function" in row.api or f"\ndef {row.name}(" in template:
                module.append((alias, f"{alias} = {row.name}"))
            for form, word in (("", "method"), ("_", "inplace")):
                if word in row.api or f"    def {row.name}{form}(" in template:
                    methods.append(f"{alias}{form} = {row.name}{form}")
    return [alias for alias, _ in module], [line for _, line in module], methods


# What annotations of compositions are called among the methods of Tensor, of which some are named like types.
_PLAIN = {"int": "_int", "float": "_float", "bool": "_bool", "dtype": "_dtype", "Number": "_Number"}


def composed_stubs(folder):
    """Stubs of the methods that are compositions: heads of the functions under ``@composed("... method ...")``."""
    lines = []
    for path in sorted(Path(folder).glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "composed" and call.args):
                    continue
                if "method" in call.args[0].value.split():
                    lines.append(method_stub(node, call))
    return lines


def method_stub(node, call):
    """The head with types under their names in the stub; the first parameter keeps its name, which may be given."""
    names = [k.value.value for k in call.keywords if k.arg == "name"] + [a.value for a in call.args[1:2]]
    arguments = [n for n in ast.walk(node.args) if isinstance(n, ast.arg)]
    for annotation in filter(None, [node.returns, *(a.annotation for a in arguments)]):
        for n in ast.walk(annotation):
            if isinstance(n, ast.Name):
                n.id = _PLAIN.get(n.id, n.id)
    result = ast.unparse(node.returns) if node.returns else "Any"
    return f"def {(names or [node.name])[0]}({ast.unparse(node.args)}) -> {result}: ..."


def stub_text(rows, template, composed=()):
    module, methods = stub_lines(rows)
    names, more, further = alias_lines(rows, template)
    module, methods = module + more, methods + further + list(composed)
    public = [row.name for row in rows.values() if "function" in row.api] + names
    text = template.replace("# generated: functions", "\n".join([f"__all__ += {public!r}", *module]))
    return text.replace("    # generated: methods", "\n".join("    " + m for m in methods))
