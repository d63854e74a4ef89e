"""Prints how a hand-written operation reaches the device of its tensors, from the declarations in ``ops.pxd``.

For each declared function: a pointer in the table that every device has (`table_text`), the function itself, which
picks the table by its arguments (`gate_text`), and the lines with which a device enters what it has (`fill_text`).
"""
import re
from dataclasses import dataclass
from pathlib import Path

HEAD = "# Printed from ops.pxd by opgen/gate.py.\n"
DECLARATION = re.compile(r"^cdef (?P<returns>[\w ]+?\**) ?\b(?P<name>\w+)\((?P<args>[^)]*)\)(?P<tail>[^#\n]*)", re.M)

# Lists of Metas, and how many entries each has: another argument, or a number where every call has as many.
LENGTHS = {
    ("op_cat", "xs"): "n", ("op_index", "index"): "n", ("index_put_into", "index"): "n",
    ("op_attention_backward", "y"): "3", ("op_recurrent", "y"): "3", ("op_recurrent", "x"): "5",
    ("op_recurrent_backward", "y"): "5", ("op_recurrent_backward", "x"): "8",
}
MOST = 64          # entries of one list whose devices are compared, more than any but op_cat has
# Only shapes are read.
DESCRIBING = {"attention_rows"}
# Defined in ops.pyx itself.
BY_HAND = {"default_generator", "copies_go_on", "enter_table", "let_copies_go_on", "run_pointwise"}
# Operands may be on two devices: it is what the function is for.
BETWEEN = {"copy_into"}


@dataclass
class Function:
    """One declaration: what it returns, its name, its arguments as (type, name), how it reports errors."""

    returns: str
    name: str
    args: list
    tail: str

    @property
    def metas(self):
        """Names of the arguments that are a Meta."""
        return [name for type, name in self.args if type in ("Meta*", "const Meta*")]

    @property
    def lists(self):
        return [name for type, name in self.args if type == "Meta**"]

    @property
    def by_number(self):
        return bool(self.args) and self.args[0] == ("int", "device")

    def declared(self):
        return ", ".join(f"{type} {name}" for type, name in self.args)

    def passed(self):
        return ", ".join(name for _, name in self.args)


def functions(path):
    """What a ``.pxd`` declares, in its order."""
    text = re.sub(r"#[^\n]*", "", Path(path).read_text())
    found = []
    for m in DECLARATION.finditer(text):
        args = []
        for arg in filter(None, (" ".join(a.split()) for a in m["args"].split(","))):
            type, name = re.fullmatch(r"(.*?[ *])(\w+)", arg).groups()
            args.append((type.strip().replace(" *", "*"), name))
        if m["name"] in BY_HAND:
            continue
        found.append(Function(m["returns"].strip(), m["name"], args, " ".join(m["tail"].split())))
    return found


def table_text(found):
    """The struct of pointers. It is included by all who read or fill one."""
    lines = [HEAD + "cdef struct Ops:"]
    for f in found:
        lines.append(f"    {f.returns} (*{f.name})({f.declared()}) {f.tail}".rstrip())
    lines += ["", "cdef enum:"]
    lines += [f"    PLACE_{f.name} = {i}" for i, f in enumerate(found)]
    return "\n".join([*lines, f"    N_OPS = {len(found)}"]) + "\n"


def gate(f):
    """The function that callers see: the CPU's at once, where no operand is elsewhere."""
    head = f"{f.declared()}) {f.tail}".rstrip() + ":"
    give = "" if f.returns == "void" else "return "
    if f.by_number or not (f.metas or f.lists) or f.name in DESCRIBING:
        table = f"(<Ops*>table_of(PLACE_{f.name}, device))" if f.by_number else "cpu"
        return f"cdef {f.returns} {f.name}({head}\n    {give}{table}.{f.name}({f.passed()})\n"
    tests = [f"away({m})" for m in f.metas] + [f"any_away({m}, {LENGTHS[f.name, m]})" for m in f.lists]
    drawn = ["        check_host_generator(gen)"] if ("Generator", "gen") in f.args else []
    near = [f"cdef {f.returns} {f.name}({head}", f"    if not ({' | '.join(tests)}):", *drawn]
    near += [f"        {give}cpu.{f.name}({f.passed()})", f"    {give}away_{f.name}({f.passed()})"]
    far = [f"cdef {f.returns} away_{f.name}({head}", f"    cdef Meta* metas[{len(f.metas) + MOST * len(f.lists)}]",
           f"    cdef int many = {len(f.metas)}", "    cdef list held = []"]
    far += [f"    metas[{i}] = <Meta*>{m}" for i, m in enumerate(f.metas)]
    far += [f"    many = collect(metas, many, {m}, {LENGTHS[f.name, m]})" for m in f.lists]
    passed = ", ".join(f"metas[{f.metas.index(name)}]" if name in f.metas else name for _, name in f.args)
    single = 0 if f.name in BETWEEN else len(f.metas)
    table = f"table_for(PLACE_{f.name}, metas, many, {single}, {f.name in BETWEEN}, held)"
    far.append(f"    {give}(<Ops*>{table}).{f.name}({passed})")
    return "\n".join([*far, "", "", *near]) + "\n"


def gate_text(found):
    """All functions of the gate, and their names for messages."""
    names = ", ".join(f'"{f.name}"' for f in found)
    return "\n\n".join([HEAD + f"cdef tuple OP_NAMES = ({names})", *map(gate, found)])


def with_included(sources, folder):
    """The text of files that are there, and of those in `folder` that they include, which other devices may share."""
    texts, waiting = {}, [Path(p) for p in sources if Path(p).is_file()]
    while waiting:
        path = waiting.pop()
        if path not in texts:
            texts[path] = path.read_text()
            names = re.findall(r'^include "(\w+\.pxi)"', texts[path], re.M)
            waiting += [folder / name for name in names if (folder / name).is_file()]
    return "\n".join(texts[path] for path in sorted(texts))


def fill_text(found, sources, folder):
    """Lines that enter into the Ops named ``mine`` what the text of a device's module defines."""
    text = with_included(sources, folder)
    defined = set(re.findall(r"^cdef [\w ]+?\**\s?\b(\w+)\(", text, re.M))
    lines = [f"    mine.{f.name} = {f.name}" for f in found if f.name in defined]
    return "\n".join([HEAD + "cdef void fill(Ops* mine) noexcept:", *(lines or ["    pass"])]) + "\n"
