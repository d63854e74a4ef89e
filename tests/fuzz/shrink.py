"""Smaller programs that fail in the same way."""

import re

MODE = re.compile(r"^with torch\.\w+\([^)]*\): ")
KEYWORD = re.compile(r", \w+=(?:torch\.)?\w+|\b\w+=(?:torch\.)?\w+, ")
INTEGER = re.compile(r"(?<![\w.'])-?\d+(?![\w.'])")
ARGUMENT = re.compile(r", -?\d+(?=[,)\]])")
VARIABLE = re.compile(r"\bv\d+\b")
CALL = re.compile(r"(?<=\w)\.\w+\([^()]*\)")


def size(program):
    """What shrinking makes smaller: lines first, then characters, then numbers."""
    text = "\n".join(program)
    return len(program), len(VARIABLE.sub("v", text)), sum(abs(int(n)) for n in INTEGER.findall(text)), text


def without(program, a, b):
    return program[:a] + program[b:]


def line_changes(line, earlier):
    """Simpler forms of one line."""
    for pattern in (MODE, KEYWORD, ARGUMENT, CALL):
        for m in pattern.finditer(line):
            yield line[: m.start()] + line[m.end() :]
    for m in INTEGER.finditer(line):
        number = int(m[0])
        for smaller in dict.fromkeys((0, 1, 2, abs(number), number - 1)):
            if (abs(smaller), -smaller) < (abs(number), -number):
                yield line[: m.start()] + str(smaller) + line[m.end() :]
    for m in list(VARIABLE.finditer(line))[::-1]:
        for name in earlier:
            if name != m[0]:
                yield line[: m.start()] + name + line[m.end() :]
    left, equals, _ = line.partition(" = ")
    if equals and VARIABLE.fullmatch(left) and earlier:
        for name in earlier[:3]:
            yield f"{left} = {name} * 2"
            yield f"{left} = {name}.clone()"
        yield f"{left} = data(1, 2, grad=True)"


def shrink(program, fails, budget=1500):
    """The smallest program found for which fails(program) still holds, in at most `budget` trials."""
    tried, best = set(), list(program)

    def better(candidate):
        nonlocal best, budget
        key = "\n".join(candidate)
        if budget <= 0 or key in tried or size(candidate) >= size(best):
            return False
        tried.add(key)
        budget -= 1
        if not fails(candidate):
            return False
        best = candidate
        return True

    before = None
    while before != best and budget > 0:
        before = list(best)
        step = max(len(best) // 2, 1)
        while step:
            at = len(best) - step
            while at >= 0:
                better(without(best, at, at + step))
                at -= step if step > 1 else 1
            step //= 2
        k = len(best) - 1
        while k >= 0:
            names = [n for earlier in best[:k] for n in VARIABLE.findall(earlier.partition(" = ")[0])]
            for changed in line_changes(best[k], list(dict.fromkeys(names))):
                if better([*best[:k], changed, *best[k + 1 :]]):
                    k += 1
                    break
            k = min(k - 1, len(best) - 1)
    return renumbered(best, fails)


def renumbered(program, fails):
    """The same with variables called v1, v2, ..."""
    names = list(dict.fromkeys(VARIABLE.findall("\n".join(program))))
    table = {name: f"v{i}" for i, name in enumerate(names, 1)}
    new = [VARIABLE.sub(lambda m: table[m[0]], line) for line in program]
    return new if fails(new) else program
