"""Files and functions stay readable: at most 600 lines a file, 60 a function, and 20,000 lines of code in the product.

A function's docstring is not counted: explaining more must not cost anything. Nor are docstrings, comments and empty
lines of the product. The cap is there so that growth is a decision: whoever raises it says in the commit what the
reader gets for it.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "packages/autograd/src/cygrad/autograd/_core.pyi"
SUFFIXES = (".py", ".pyx", ".pxd", ".pxi", ".h")
CYTHON_FUNCTION = re.compile(r"^(?P<indent> *)(?:cdef|cpdef|def)\b[^=:]*\(")
DOCSTRING = re.compile(r'\s*r?""".*?"""', re.S)


def sources():
    return [p for p in sorted(ROOT.glob("packages/*/src/**/*")) if p.suffix in SUFFIXES and p != GENERATED]


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            explained = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
            yield node.name, node.end_lineno - node.lineno + 1 - explained


def cython_functions(text):
    """Functions by indentation: from the head to the last line that is indented deeper."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        head = CYTHON_FUNCTION.match(line)
        if head and not line.lstrip().startswith(("cdef extern", "cdef class")):
            depth, last, n = len(head["indent"]), start, start + 1
            while n < len(lines) and (not lines[n].strip() or len(lines[n]) - len(lines[n].lstrip()) > depth
                                      or lines[n].lstrip().startswith(")")):
                last = n if lines[n].strip() else last
                n += 1
            docstring = DOCSTRING.match("\n".join(lines[start + 1 : last + 1]))
            yield line.strip(), last - start + 1 - (docstring[0].count("\n") + 1 if docstring else 0)


def test_files_are_short():
    long = {p.relative_to(ROOT).as_posix(): n for p in sources() if (n := len(p.read_text().splitlines())) > 600}
    assert not long


def test_functions_are_short():
    long = {}
    for path in sources():
        if path.suffix == ".h":
            continue
        functions = python_functions if path.suffix == ".py" else cython_functions
        for name, lines in functions(path.read_text()):
            if lines > 60:
                long[f"{path.relative_to(ROOT).as_posix()}: {name}"] = lines
    assert not long


def code_lines(text):
    lines = (line.strip() for line in re.sub(r'r?""".*?"""', "", text, flags=re.S).splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def test_the_product_is_small():
    """A few days of reading. An issue raises the cap by what it adds to the scope: operations and dtypes by 12,000,
    forward mode, vmap, graph tools and strict mode by 6,000, layers, training and saving by 16,000: all
    of PyTorch's modules and their tools, its optimizers, loaders and file formats, pages of graphs, ONNX and the
    command line by 2,000, probability distributions by 2,500, kernels of their own for convolutions, sliding maxima and
    batch normalisation by 1,000, for recurrent layers and attention by 1,000, CUDA by 6,000."""
    assert sum(code_lines(p.read_text()) for p in [*sources(), *ROOT.glob("packages/*/src/**/*.pxi.in")]) < 66_500


def test_comments_and_docstrings_are_free():
    assert code_lines('"""One.\n\nTwo.\n"""\n\n# three\nx = 1  # four\ny = 2\n') == 2


def test_a_long_function_is_seen():
    body = "".join(f"    x += {i}\n" for i in range(60))
    assert [n for _, n in cython_functions(f"cdef int f(int x) noexcept:\n{body}\ndef g(): pass\n")] == [61, 1]
    assert [n for _, n in python_functions(f"def f(x):\n{body}")] == [61]


def test_a_docstring_is_free():
    text = 'def f(x):\n    """First.\n\n    More.\n    """\n    return x\n'
    assert [n for _, n in cython_functions(text)] == [n for _, n in python_functions(text)] == [2]
