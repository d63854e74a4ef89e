"""Prints the type stubs of the public names that come from the op table or from compositions."""
import ast
from pathlib import Path

from .parse import NAMESPACES

# a method of Tensor or a function has the plain name
STUB_ARG = {"int": "_int", "float": "_float", "factor": "_Number", "number": "_Number", "flag": "_bool", "dim": "_int",
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
    """Stubs of the methods that are compositions, or other names of compiled methods: what ``composed`` declares.

    It stands above a function, or is called as ``composed("method", name="new")(target)``.
    """
    lines = []
    for path in sorted(Path(folder).glob("*.py")):
        body = ast.parse(path.read_text()).body
        heads = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
        for node in body:
            if isinstance(node, ast.FunctionDef):
                lines += [method_stub(node, call) for call in node.decorator_list if declares_method(call)]
                lines += [in_place_stub(node) for d in node.decorator_list if getattr(d, "id", "") == "in_place"]
            elif isinstance(node, ast.Expr) and declares_method(getattr(node.value, "func", None)):
                lines.append(renamed_stub(node.value, heads))
    return lines


def declares_method(call):
    return (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "composed" and call.args
            and "method" in call.args[0].value.split())


def public_name(call, default=None):
    names = [k.value.value for k in call.keywords if k.arg == "name"] + [a.value for a in call.args[1:2]]
    return names[0] if names else default


def plain_types(node):
    """Types of the head under their names in the stub."""
    arguments = [n for n in ast.walk(node.args) if isinstance(n, ast.arg)]
    for annotation in filter(None, [node.returns, *(a.annotation for a in arguments)]):
        for n in ast.walk(annotation):
            if isinstance(n, ast.Name):
                n.id = _PLAIN.get(n.id, n.id)


def method_stub(node, call):
    """The head of the function; the first parameter keeps its name, which may be given."""
    plain_types(node)
    result = ast.unparse(node.returns) if node.returns else "Any"
    return f"def {public_name(call, node.name)}({ast.unparse(node.args)}) -> {result}: ..."


def in_place_stub(node):
    """The method that ``in_place`` adds: the function over its first argument."""
    plain_types(node)
    _, *others = node.args.args
    arguments = ast.arguments(**{**dict(ast.iter_fields(node.args)), "args": [ast.arg("self"), *others]})
    return f"def {node.name}_({ast.unparse(arguments)}) -> Tensor: ..."


def renamed_stub(value, heads):
    """``composed("method", name="new")(function)`` or ``...(Tensor.__dict__["name"])``."""
    target = value.args[0]
    if isinstance(target, ast.Name):
        return method_stub(heads[target.id], value.func)
    return f"{public_name(value.func)} = {target.slice.value}"


def stub_text(rows, template, composed=()):
    module, methods = stub_lines(rows)
    names, more, further = alias_lines(rows, template)
    module, methods = module + more, methods + further + list(composed)
    public = [row.name for row in rows.values() if "function" in row.api] + names
    text = template.replace("# generated: functions", "\n".join([f"__all__ += {public!r}", *module]))
    return text.replace("    # generated: methods", "\n".join("    " + m for m in methods))
