"""Arguments for a call of each public row of the op table, for tests that go over all of them."""

import cygrad
from cygrad.storage.opgen.parse import load

OF_PARTS = ("view_as_real", "view_as_complex")
PUBLIC = [
    row
    for row in load().values()
    if {"function", "method", "inplace", "special"} & set(row.api) and row.name not in OF_PARTS
]
DYNAMIC = ("masked_select",)      # where the mask varies
TENSORS = ("t", "tn", "n", "mask", "index")
SHAPES = {
    "mm": ((2, 3), (3, 4)),
    "bmm": ((2, 2, 3), (2, 3, 2)),
    "mv": ((2, 3), (3,)),
    "dot": ((3,), (3,)),
    "addmm": ((2, 4), (2, 3), (3, 4)),
}
ARGUMENTS = {
    "transpose": (0, 1),
    "select": (1, 1),
    "narrow": (1, 1, 2),
    "unfold": (1, 2, 1),
    "index_reduce": (1, "prod"),
    "scatter_reduce": (1, "mean"),
    "constant_pad_nd": ((1, 2),),
}
INDICES = {
    "index_select": [0, 2, 0],
    "index_copy": [2, 0, 1],
    "index_fill": [2, -3],
    "index_reduce": [2, 0, 2],
    "take": [[0, 4], [-1, 4]],
    "put": [[0, 4, -1], [1, 2, 3]],
    "scatter_reduce": [[0, 2, 1], [1, 0, 0]],
    "scatter_add": [[0, 2, 1], [1, 0, 0]],
}
FLOAT, INT = cygrad.float64, cygrad.int64
B = 3


def columns(row):
    """For each parameter of a call: B examples of a tensor along a first dimension, or one value for all."""
    generator = cygrad.Generator().manual_seed(sum(map(ord, row.name)))
    integers = row.types.split()[0] in ("int", "integer")
    low, high = row.test.get("low", -2.0), row.test.get("high", 2.0)
    shapes, arguments = iter(SHAPES.get(row.name, ())), iter(ARGUMENTS.get(row.name, ()))
    found = []
    for p in row.params:
        if p.type == "index":
            base = cygrad.tensor(INDICES[row.name])
            found.append(cygrad.stack([base.roll(k, -1) for k in range(B)]))
        elif p.type in TENSORS:
            shape = (B,) if p.type == "n" else (B, *next(shapes, (2, 3)))
            if p.type == "mask":
                found.append(cygrad.rand(shape, generator=generator) > 0.5)
            elif integers:
                found.append(cygrad.randint(1, 6, shape, generator=generator))
            else:
                found.append(low + (high - low) * cygrad.rand(shape, generator=generator, dtype=FLOAT))
        elif p.default is None:
            found.append(next(arguments, 1))
    return found


def call(row):
    if "special" in row.api:
        return getattr(cygrad.special, row.name.removeprefix("special_"))
    if hasattr(cygrad, row.name):
        return getattr(cygrad, row.name)
    if "method" in row.api:
        return getattr(cygrad.Tensor, row.name)
    return lambda x, *rest: getattr(x.clone(), row.name + "_")(*rest)


def results(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]
