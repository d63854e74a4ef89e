"""Compare every operation of ops.txt with PyTorch: ``python tests/parity/run.py [NAME ...]``.

Each row runs in a process of its own, so a crash or a hang is one row's failure. The numbers of a run depend on
``--seed`` only. Names may be patterns (``'linalg.*'``) or a section's first word (``section:views``).
"""

import argparse
import fnmatch
import json
import os
import random
import select
import signal
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def table():
    """Row -> section, in the order of the file."""
    rows, section = {}, ""
    for line in (HERE / "ops.txt").read_text().splitlines():
        if line.startswith("# =="):
            section = line.strip("# =")
        elif line and not line.startswith("#"):
            rows[line] = section
    return rows


def samples():
    """Row -> what PyTorch's own tests know about the operation: its samples, forms, dtypes."""
    from torch.testing._internal.common_methods_invocations import op_db

    infos = {}
    for info in op_db:
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        infos.setdefault(name, []).append(info)
    return infos


def chosen(rows, names):
    if not names:
        return list(rows)
    found = []
    for name in names:
        if name.startswith("section:"):
            matching = [r for r, s in rows.items() if s.startswith(name.removeprefix("section:"))]
        else:
            matching = [r for r in rows if fnmatch.fnmatchcase(r, name) or r.split(".")[0] == name]
        if not matching:
            sys.exit(f"no row {name}")
        found += [r for r in matching if r not in found]
    return found


def in_child(f, limit):
    """What f() returns, computed in a child process; or how the child ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2) if not os.environ.get("PARITY_STDERR") else None
            try:
                answer = f()
            except Exception as error:
                import traceback

                answer = {"status": "broken", "reason": f"{type(error).__name__}: {error}", "dtypes": {},
                          "trace": traceback.format_exc()}
            with os.fdopen(write, "w") as stream:
                json.dump(answer, stream)
        finally:
            os._exit(0)
    os.close(write)
    text, end = b"", time.monotonic() + limit
    while True:
        ready = select.select([read], [], [], max(0, end - time.monotonic()))[0]
        if not ready:
            os.kill(child, signal.SIGKILL)
            break
        part = os.read(read, 1 << 20)
        if not part:
            break
        text += part
    os.close(read)
    status = os.waitpid(child, 0)[1]
    if text and not os.WIFSIGNALED(status):
        return json.loads(text)
    if not ready:
        how = f"hangs: no answer within {limit} s"
    elif os.WIFSIGNALED(status):
        how = f"crashes: {signal.Signals(os.WTERMSIG(status)).name}"
    else:
        how = f"ends: exit code {os.WEXITSTATUS(status)}"
    return {"status": "broken", "reason": how, "dtypes": {}}


def accept(row, result, accepted):
    """Take out the differences that differences.toml explains."""
    import re

    rule = accepted.get(row)
    if rule is None or result["status"] != "differs":
        return result
    left = 0
    for tally in result["dtypes"].values():
        for kind, (count, message, _) in list(tally["reasons"].items()):
            if re.search(rule["match"], message):
                tally["differs"] -= count
                del tally["reasons"][kind]
        left += tally["differs"]
    if not left:
        result |= {"status": "accepted", "reason": rule["reason"]}
    return result


def line(row, result):
    """One row as one line: what it is, how many calls differ for which dtypes, and the most frequent difference."""
    tallies = result["dtypes"]
    cases = sum(t["cases"] for t in tallies.values())
    if result["status"] != "differs":
        return f"{result['status']:8} {row:34} {result['reason'] or f'{cases} calls'}"
    bad = {d: t for d, t in tallies.items() if t["differs"]}
    reasons = [r for t in bad.values() for r in t["reasons"].values()]
    first = max(reasons, key=lambda r: (": lacks " not in r[1], r[0]))
    where = "every dtype" if len(bad) == len(tallies) else " ".join(bad)
    return f"differs  {row:34} {sum(t['differs'] for t in bad.values())} of {cases} ({where}): {first[1][:200]}"


def details(result, most, whole=True):
    """The kinds of difference, each with a program that shows it: whole, or the lines that matter cut to the screen."""
    kinds = {}
    for dtype, tally in result["dtypes"].items():
        for kind, (count, message, snippet) in tally["reasons"].items():
            entry = kinds.setdefault(kind, [0, message, snippet, []])
            entry[0] += count
            entry[3].append(dtype)
    ordered = sorted(kinds.values(), key=lambda k: (": lacks " in k[1], -k[0]))
    for i, (count, message, snippet, dtypes) in enumerate(ordered):
        yield f"  -- {count} x {message}\n     [{' '.join(dtypes)}]"
        if i < most:
            lines = snippet.splitlines()
            if not whole:
                lines = [x if len(x) < 300 else x[:300] + " ..." for x in lines if x.startswith("    ")]
                lines = lines[lines.index("    return f(*args, **kwargs)") + 1 : lines.index("    try:")]
            yield "\n".join(f"     | {x}" for x in lines)


def report(path, seed, results):
    if path.suffix == ".json":
        path.write_text(json.dumps({"seed": seed, "rows": results}, indent=1))
        return
    lines = [f"# Parity with PyTorch (seed {seed})", "", summary(results), ""]
    for row, result in results.items():
        if result["status"] != "ok":
            lines += [f"## {row}", "", f"```\n{line(row, result)}"]
            lines += [*details(result, 1), "```", ""]
    path.write_text("\n".join(lines))


def summary(results):
    counts = {}
    for result in results.values():
        counts[result["status"]] = counts.get(result["status"], 0) + 1
    return f"{len(results)} rows: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="rows, patterns, or section:WORD; all if none")
    parser.add_argument("--dtype", default="", help="only these dtypes, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="where samples and layouts are drawn from; -1: a new one")
    parser.add_argument("--examples", type=int, default=25, help="drawn layouts for each row and dtype")
    parser.add_argument("--show", type=int, help="programs to print for each row (default: 3 if names are given)")
    parser.add_argument("--limit", type=int, default=300, help="seconds for a row")
    parser.add_argument("--crashes-only", action="store_true", help="fail for rows that crash or hang, not for others")
    parser.add_argument("--report", type=Path, help="write the results to this .md or .json file")
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed < 0 else options.seed
    show = options.show if options.show is not None else (3 if options.names else 0)

    import check

    rows, infos = table(), samples()
    accepted = tomllib.loads((HERE / "differences.toml").read_text())
    dtypes = [d for d in options.dtype.split(",") if d]
    print(f"seed {seed}", flush=True)
    results = {}
    for row in chosen(rows, options.names):
        result = in_child(
            lambda row=row: check.check_row(row, rows[row], infos[row], dtypes, seed, options.examples), options.limit)
        results[row] = accept(row, result, accepted)
        print(line(row, result), flush=True)
        if show:
            print(*details(result, show, whole=False), result.get("trace", ""), sep="\n", flush=True)
    print(summary(results))
    if options.report:
        report(options.report, seed, results)
    if options.crashes_only:
        return int(any(r["status"] == "broken" for r in results.values()))
    too_many = sum(r["status"] == "accepted" for r in results.values()) * 100 > len(rows)
    return int(too_many or any(r["status"] not in ("ok", "accepted") for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
