"""Backward passes of several threads over shared leaves: ``python tests/fuzz/threads.py [--programs N] [--seed S]``.

Each thread of a program makes graphs of its own from the same leaves, and all differentiate at once; some share a
graph. Values are small integers, so that sums are exact in every order: they must be those of the same work done by one
thread.
"""

import argparse
import random
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Scalars y of the leaves a, b (3 by 4) and of `shared`, a graph that all threads have.
GRAPHS = (
    "y = (a * b).sum()",
    "y = (a[1:] * 2).sum() + b[0, 0]",
    "y = Square.apply(a).sum()",
    "y = Product.apply(a, b).sum()",
    "y = Inner.apply(a).sum() + Same.apply(b).sum()",
    "c = a * 1; c[0] = b[0]; c.mul_(2); y = (c * c).sum()",
    "c = torch.zeros(4, dtype=a.dtype); c[:2] = a[0, :2]; c[2:].add_(b[1, 2:]); y = (c * c).sum()",
    "y = sum(part.sum() * k for k, part in enumerate(a.unbind(0)))",
    "y = (a.t() @ b).sum()",
    "g, = torch.autograd.grad((a * a * b).sum(), a, create_graph=True); y = (g * g).sum()",
    "c = a * b; h = c.register_hook(lambda g: g * 2); y = c.sum(); h.remove()",
    "c = a * b; c.retain_grad(); y = (c * c).sum()",
    "y = Halves.apply(a)[1].sum() + Sparse.apply(b)[0].sum()",
    "y = shared",
    "y = shared * a[0, 0]",
    "with torch.no_grad(): c = a.sum()\ny = (a * c).sum()",
)


def program(rng):
    """Lines for each thread."""
    return [[rng.choice(GRAPHS) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(2, 5))]


def leaves(side):
    a = side.library.tensor([[(i + 2 * j) % 5 - 2 for j in range(4)] for i in range(3)], dtype=side.library.float64)
    return a.requires_grad_(), (a.detach() + 1).requires_grad_()


def differentiate(side, graphs, times, concurrent):
    """(gradient of a, gradient of b, calls of the leaves' hooks), after all threads' work; raises their errors."""
    a, b = leaves(side)
    calls, errors = [], []
    a.register_hook(lambda g: calls.append("a"))
    b.register_post_accumulate_grad_hook(lambda leaf: calls.append("b"))
    space = dict(side.fresh, a=a, b=b, shared=(a * b * a).sum())
    barrier = threading.Barrier(len(graphs)) if concurrent else None

    def work(lines):
        try:
            codes = [compile(line, "<thread>", "exec") for line in lines]
            if barrier is not None:
                barrier.wait()
            for _ in range(times):
                for code in codes:
                    own = dict(space)
                    exec(code, own)
                    own["y"].backward(retain_graph=True)
        except BaseException as error:
            errors.append(error)

    if concurrent:
        threads = [threading.Thread(target=work, args=(lines,)) for lines in graphs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for lines in graphs:
            work(lines)
    side.log.clear()
    if errors:
        raise errors[0]
    return a.grad.tolist(), b.grad.tolist(), sorted(calls)


def check(side, seed, times=5):
    """What is wrong with the program of a seed, as text; None if nothing is."""
    graphs = program(random.Random(seed))
    graphs[0].append("y = a.sum() + b.sum()")  # both leaves get a gradient
    one = differentiate(side, graphs, times, False)
    many = differentiate(side, graphs, times, True)
    if one == many:
        return None
    text = "\n".join(f"thread {i}: {lines}" for i, lines in enumerate(graphs))
    return f"seed {seed}\n{text}\none thread:   {one[:2]}\nmany threads: {many[:2]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, help="where the programs are drawn from (default: a new one)")
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    print(f"threads, seed {seed}", flush=True)
    sys.setswitchinterval(1e-5)  # threads meet in more places
    from pair import Side

    side = Side("cygrad")
    wrong = [text for k in range(options.programs) if (text := check(side, f"{seed}:{k}"))]
    print("\n\n".join(wrong[:5]))
    print(f"  {options.programs} programs of several threads, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
