"""Everything that is timed beside PyTorch, declared once: asv runs these cases, and so does ``beside_pytorch.py``.

A case is source text in which ``torch`` is the library under test, so that the same text runs on both. Its statement
may run any number of times; its time is divided by `per`, the number of operations in it.
"""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    make: str
    call: str
    per: int = 1
    threads: int = 2

    @property
    def label(self):
        return f"{self.group}/{self.name}"

    def prepared(self, library="cygrad"):
        """A function of n that runs the statement n times, with `library` in the place of torch."""
        space = {"torch": importlib.import_module(library)}
        space["torch"].set_num_threads(self.threads)
        exec(self.make.replace("{torch}", library), space)
        body = "".join(f"        {line}\n" for line in self.call.split("\n"))
        exec(f"def run(n):\n    for _ in range(n):\n{body}", space)
        return space["run"]


# Group: (what it holds, the ratio to PyTorch's time that is aimed at; the median case counts).
GROUPS = {
    "tiny": ("operations on a few elements, nothing recorded", 0.15),
    "tiny recorded": ("the same, recorded for backward", 0.12),
    "graph": ("chains, custom Functions, double backward", 0.2),
    "tiny training": ("a step of an MLP of 8-32-32-2, batch 16", 0.15),
    "training": ("a step of small real models", 0.8),
    "elementwise": ("contiguous, 10⁴ to 10⁶ elements", 1.0),
    "elementwise, large": ("10⁷ elements, result in new memory", 0.3),
    "selection and order": ("where, masks, comparison, sorting, scans, strided copies, random numbers", 0.5),
    "reductions": ("sums, softmax, norms, cross-entropy; forward and backward", 0.9),
    "indexing": ("gather, scatter, index_select, embedding", 0.8),
    "matmul, small": ("products of up to 64 x 64", 0.6),
    "matmul": ("larger products, linear layers", 1.05),
    "convolution": ("3x3, 1x1, strided; forward and backward", 1.15),
    "depthwise and pooling": ("depthwise convolution, max and average pooling", 0.8),
    "small layers": ("layers on images of 4 x 8 x 17 x 17 and lines of 97", 1.0),
    "optimizers": ("a step over 5 million parameters", 0.3),
    "optimizers, fused": ("the same, with PyTorch's one loop for all parameters", 1.0),
    "data": ("a batch of a loader: in the process, and by two workers that stay", 0.6),
    "distributions": ("drawn values and their densities, with backward", 0.2),
    "attention": ("scaled dot product, sequences of 64 to 2048; forward and backward", 0.9),
}

_LAYERS = (
    ("3x3 convolution", "F.conv2d(x, w, padding=1)"), ("transposed convolution", "F.conv_transpose2d(x, u, stride=2)"),
    ("max pooling", "F.max_pool2d(x, 2)"), ("average pooling", "F.avg_pool2d(x, 2)"),
    ("mean of planes", "F.adaptive_avg_pool2d(x, 1)"), ("group norm", "F.group_norm(x, 4)"),
    ("batch norm, eval", "F.batch_norm(x, mean, var)"), ("unfold", "F.unfold(x, 3)"),
    ("resized, nearest", "F.interpolate(x, scale_factor=2)"),
    ("resized, bilinear", "F.interpolate(x, scale_factor=2, mode='bilinear')"),
    ("padded by reflection", "F.pad(x, (1, 1, 1, 1), mode='reflect')"),
    ("grid_sample", "F.grid_sample(x, places, align_corners=False)"),
    ("einsum", "torch.einsum('ij,kj->ik', m, m)"), ("top 3 of rows", "m.topk(3, 1)"), ("median", "a.median()"),
    ("Fourier transform", "torch.fft.rfft(a)"), ("outer product", "torch.outer(a, a)"),
)
_TINY = (
    ("add", "a + b"), ("mul", "a * b"), ("add a number", "a + 1.5"), ("exp", "a.exp()"), ("relu", "torch.relu(a)"),
    ("sum", "a.sum()"), ("sum of a dim", "m.sum(1)"), ("matmul", "m @ m"), ("softmax", "torch.softmax(m, 1)"),
    ("view", "a.view(4, 4)"), ("transpose", "m.transpose(0, 1)"), ("unsqueeze", "a.unsqueeze(0)"), ("a[3]", "a[3]"),
    ("a[2:10]", "a[2:10]"), ("clone", "a.clone()"), ("cat", "torch.cat((a, b))"),
)
_TINY_UNRECORDED = (
    ("add_", "a.add_(b)"), ("compare", "a < b"), ("a[3] = 1.5", "a[3] = 1.5"), ("item", "s.item()"),
    ("tensor", "torch.tensor([1.0, x, 3.0])"), ("zeros", "torch.zeros(4)"), ("shape", "m.shape"),
    ("detach", "m.detach()"), ("argmax", "a.argmax()"), ("numpy", "a.numpy()"), ("from_numpy", "torch.from_numpy(v)"),
)
_TINY_MAKE = """import numpy
torch.manual_seed(0)
a, b, m, s, x, v = torch.randn(16), torch.randn(16), torch.randn(4, 4), torch.randn(1), 2.0, numpy.ones(16, "f")"""
_MODEL = """from {torch} import nn, optim
torch.manual_seed(0)
def step():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
_TINY_MODEL = """
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))
"""
_LENET = """
model = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                      nn.Linear(84, 10))
x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
optimizer = optim.Adam(model.parameters(), lr=1e-4)"""
_LSTM = """
class Characters(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(64, 64), nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 64)
    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0]).flatten(0, 1)
model = Characters()
x, y = torch.randint(0, 64, (16, 32)), torch.randint(0, 64, (16 * 32,))
optimizer = optim.Adam(model.parameters(), lr=1e-4)"""
GPT_PARTS = """
class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.mix = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norm2, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm1(x)).split(d, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
class GPT(nn.Module):
    def __init__(self, letters, d, heads, blocks, length):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, d), nn.Embedding(length, d)
        self.blocks = nn.Sequential(*[Block(d, heads) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, letters)
    def forward(self, x):
        x = self.letter(x) + self.place.weight[:x.shape[1]]
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)
"""
_GPT = GPT_PARTS + """model = GPT(65, 128, 4, 2, 64)
x, y = torch.randint(0, 65, (16, 64)), torch.randint(0, 65, (16 * 64,))
optimizer = optim.AdamW(model.parameters(), lr=1e-4)"""
_PENALTY = """
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
x = torch.randn(64, 16, requires_grad=True)
def step():
    model.zero_grad()
    g, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    ((g.norm(dim=1) - 1) ** 2).mean().backward()"""
_FUNCTION = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * x * 2.0
a = torch.randn(1, requires_grad=True)"""
_CHAIN = """a, c, d = torch.randn(1, requires_grad=True), torch.tensor([0.999]), torch.tensor([0.01])
def chain():
    y = a
    for _ in range(500):
        y = y * c + d
    return y"""
_POLYNOMIAL = """x = torch.randn(16, requires_grad=True)
def twice():
    g, = torch.autograd.grad((x * x * x + 2.0 * x * x + x).sum(), x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)"""
_POINTWISE = (
    ("add", "a + b"), ("a * b + c", "a * b + c"), ("exp", "a.exp()"), ("tanh", "a.tanh()"), ("relu", "torch.relu(a)"),
    ("gelu", "torch.nn.functional.gelu(a)"), ("to double", "a.double()"), ("sum", "a.sum()"),
)
_ROWS = """from {torch}.utils import data
class Rows(data.Dataset):
    def __init__(self, length):
        self.rows = torch.randn(64, length)
    def __len__(self):
        return 640
    def __getitem__(self, i):
        return self.rows[i % 64], i % 10
def batches(loader):
    for x, y in loader:
        x.clone()
"""
_POLICY = """from {torch} import distributions as d
torch.manual_seed(0)
scores, means = torch.randn(8, 4, requires_grad=True), torch.randn(8, 2, requires_grad=True)
def choose():
    policy = d.Categorical(logits=scores)
    (policy.log_prob(policy.sample()) + policy.entropy()).sum().backward()
def squash():
    policy = d.TransformedDistribution(d.Normal(means, 1.0), d.TanhTransform(cache_size=1))
    policy.log_prob(policy.rsample()).sum().backward()
"""
_MATRIX = "torch.manual_seed(0)\na = torch.randn(4096, 1024)"
_F = "torch.manual_seed(0)\nF = torch.nn.functional\n"


def training(build, call="step()"):
    return _MODEL + build, call


def _backward(name, make, forward, wrt, like):
    """Forward and backward in one: the gradient that is handed in has the result's shape, `like`."""
    clear = "\n".join(f"{x}.grad = None" for x in wrt)
    asked = "\n".join(f"{x}.requires_grad_()" for x in wrt)
    return name, f"{make}\n{asked}\ng = torch.randn({like})", f"({forward}).backward(g)\n{clear}"


def _conv(name, n, inputs, outputs, kernel, size, stride, padding, groups):
    after = (size + 2 * padding - kernel) // stride + 1
    make = (f"{_F}x = torch.randn({n}, {inputs}, {size}, {size})\n"
            f"w, b = torch.randn({outputs}, {inputs // groups}, {kernel}, {kernel}), torch.randn({outputs})")
    call = f"F.conv2d(x, w, b, stride={stride}, padding={padding}, groups={groups})"
    yield name, make, call
    yield _backward(f"{name}, with backward", make, call, "xwb", f"{n}, {outputs}, {after}, {after}")


def _declared():
    for name, call in (*_TINY, *_TINY_UNRECORDED):
        yield "tiny", name, _TINY_MAKE, call, 1, 1
    for name, call in _TINY:
        asked = "\na.requires_grad_(), b.requires_grad_(), m.requires_grad_()"
        yield "tiny recorded", name, _TINY_MAKE + asked, call, 1, 1
    yield "graph", "chain of 1,000, built", _CHAIN, "chain()", 1000, 1
    yield "graph", "chain of 1,000, with backward", _CHAIN, "chain().backward()", 1000, 1
    yield "graph", "Function, with backward", _FUNCTION, "Square.apply(a).backward()", 1, 1
    yield "graph", "polynomial, second derivative", _POLYNOMIAL, "twice()", 1, 1
    yield "graph", "a * b + c, with backward", "a, b, c = (torch.randn(1, requires_grad=True) for _ in range(3))", \
        "(a * b + c).backward()", 1, 1
    for name in ("SGD", "Adam"):
        optimizer = f"optimizer = optim.{name}(model.parameters(), lr=1e-4)"
        yield "tiny training", name, *training(_TINY_MODEL + optimizer)
    yield "training", "MLP 784-256-10, SGD", *training("""
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
optimizer = optim.SGD(model.parameters(), lr=1e-2)""")
    yield "training", "LeNet, Adam", *training(_LENET)
    yield "training", "LSTM over characters, Adam", *training(_LSTM)
    yield "training", "GPT, AdamW", *training(_GPT)
    yield "training", "gradient penalty", *training(_PENALTY)
    for exponent in (4, 6):
        for name, call in _POINTWISE:
            make = f"a, b, c = (torch.randn({10**exponent}) for _ in range(3))"
            yield "elementwise", f"{name}, 10^{exponent}", make, call
    for name, call in (*_POINTWISE[:4], ("add_", "a.add_(b)")):
        yield "elementwise, large", name, "a, b, c = (torch.randn(10 ** 7) for _ in range(3))", call
    million = "torch.manual_seed(0)\na, b = torch.randn(10 ** 6), torch.randn(10 ** 6)\nm = a > 0"
    for name, call in (
        ("where", "torch.where(m, a, b)"), ("compare", "a > b"), ("masked_fill", "a.masked_fill(m, 0.5)"),
        ("a[mask]", "a[m]"), ("cumsum", "a.cumsum(0)"), ("sort", "a.sort()"), ("topk", "a.topk(100)"),
        ("rand", "torch.rand(10 ** 6)"), ("randn", "torch.randn(10 ** 6)"), ("max", "a.max()"), ("std", "a.std()"),
    ):
        yield "selection and order", name, million, call
    for name, call in (("max of rows", "a.max(1)"), ("argmax of rows", "a.argmax(1)"), ("var of rows", "a.var(1)")):
        yield "selection and order", name, _MATRIX, call
    square = "torch.manual_seed(0)\na, b = torch.randn(3000, 3000), torch.randn(3000, 3000)"
    yield "selection and order", "a.t() + b", square, "a.t() + b"
    yield "selection and order", "a.t().contiguous()", square, "a.t().contiguous()"
    for name, call in (
        ("sum(0)", "a.sum(0)"), ("sum(1)", "a.sum(1)"), ("mean(1)", "a.mean(1)"), ("softmax", "a.softmax(1)"),
        ("log_softmax", "a.log_softmax(1)"), ("softmax over columns", "a.softmax(0)"),
    ):
        yield "reductions", name, _MATRIX, call
    norm = f"{_F}a, w, b = torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024)"
    normed = "F.layer_norm(a, (1024,), w, b)"
    yield "reductions", "layer norm", norm, normed
    yield "reductions", *_backward("layer norm, with backward", norm, normed, "awb", "4096, 1024")
    yield "reductions", *_backward("softmax, with backward", _MATRIX, "a.softmax(1)", "a", "4096, 1024")
    images = f"{_F}x, w, b = torch.randn(32, 64, 28, 28), torch.randn(64), torch.randn(64)"
    normed = "F.batch_norm(x, None, None, w, b, training=True)"
    yield "reductions", *_backward("batch norm, with backward", images, normed, "xwb", "32, 64, 28, 28")
    scores = f"{_F}a, y = torch.randn(4096, 1024), torch.randint(0, 1024, (4096,))"
    yield "reductions", *_backward("cross-entropy, with backward", scores, "F.cross_entropy(a, y)", "a", "()")
    table = f"{_F}a, i, v = torch.randn(50000, 128), torch.randint(0, 50000, (8192,)), torch.randn(8192, 128)"
    yield "indexing", "index_select", table, "a.index_select(0, i)"
    letters = f"{_F}a, i = torch.randn(5000, 128), torch.randint(0, 5000, (8192,))"
    yield "indexing", *_backward("embedding, with backward", letters, "F.embedding(i, a)", "a", "8192, 128")
    wide = f"{_MATRIX}\ni = torch.randint(0, 1024, (4096, 1024))"
    yield "indexing", "gather", wide, "a.gather(1, i)"
    yield "indexing", "scatter_add", wide, "torch.zeros(4096, 1024).scatter_add_(1, i, a)"
    yield "indexing", "index_put_", table, "a.index_put_((i,), v)"
    for n in (8, 16, 32, 64):
        yield "matmul, small", f"{n} x {n}", f"a, b = torch.randn({n}, {n}), torch.randn({n}, {n})", "a @ b"
    for n in (128, 256, 512, 1024):
        yield "matmul", f"{n} x {n}", f"a, b = torch.randn({n}, {n}), torch.randn({n}, {n})", "a @ b"
    yield "matmul", "a.t() @ b, 512", "a, b = torch.randn(512, 512), torch.randn(512, 512)", "a.t() @ b"
    batch = "a, b = torch.randn(64, 64, 64), torch.randn(64, 64, 64)"
    yield "matmul", "64 products of 64 x 64", batch, "torch.bmm(a, b)"
    yield "matmul", "matrix by vector, 4096", "a, v = torch.randn(4096, 4096), torch.randn(4096)", "a @ v"
    layer = f"{_F}x, w, b = torch.randn(128, 1024), torch.randn(1024, 1024), torch.randn(1024)"
    yield "matmul", *_backward("linear of 128 x 1024, with backward", layer, "F.linear(x, w, b)", "xwb", "128, 1024")
    for shape in (("3x3, 3 to 32 channels", 32, 3, 32, 3, 28, 1, 1, 1), ("3x3, 32 to 64", 32, 32, 64, 3, 28, 1, 1, 1),
                  ("3x3, stride 2", 8, 64, 128, 3, 56, 2, 1, 1), ("1x1", 32, 64, 128, 1, 28, 1, 0, 1),
                  ("5x5, odd sizes", 7, 13, 29, 5, 31, 1, 2, 1)):
        for case in _conv(*shape):
            yield "convolution", *case
    for case in _conv("depthwise 3x3", 32, 64, 64, 3, 28, 1, 1, 64):
        yield "depthwise and pooling", *case
    for name, call in (("max pooling 2x2", "F.max_pool2d(x, 2)"), ("max pooling 3x3", "F.max_pool2d(x, 3, 2, 1)"),
                       ("average pooling", "F.avg_pool2d(x, 2)")):
        make = f"{_F}x = torch.randn(32, 64, 28, 28)"
        yield "depthwise and pooling", name, make, call
        yield "depthwise and pooling", *_backward(f"{name}, with backward", make, call, "x", "32, 64, 14, 14")
    five = """from {torch} import nn, optim
ps = [nn.Parameter(torch.randn(500, 500)) for _ in range(20)]
for p in ps:
    p.grad = torch.randn(500, 500)
"""
    images = f"{_F}x, w, u = torch.randn(4, 8, 17, 17), torch.randn(12, 8, 3, 3), torch.randn(8, 12, 3, 3)"
    lines = "m, a, mean, var = torch.randn(64, 33), torch.randn(97), torch.zeros(8), torch.ones(8)"
    for name, call in _LAYERS:
        yield "small layers", name, f"{images}\n{lines}\nplaces = torch.rand(4, 17, 17, 2) * 2 - 1", call
    for name in ("SGD", "Adam", "AdamW", "RMSprop"):
        yield "optimizers", name, f"{five}optimizer = optim.{name}(ps, lr=1e-4)", "optimizer.step()"
    for name in ("SGD", "Adam", "AdamW"):
        yield "optimizers, fused", name, f"{five}optimizer = optim.{name}(ps, lr=1e-4, fused=True)", "optimizer.step()"
    for name, workers, length in (("32 rows of 4 KB", 0, 1024), ("32 rows of 4 KB, two workers", 2, 1024),
                                  ("32 rows of 128 KB, two workers", 2, 32768),
                                  ("32 rows of 512 KB, two workers", 2, 131072)):
        options = "num_workers=2, persistent_workers=True, multiprocessing_context='fork'" if workers else ""
        yield "data", name, f"{_ROWS}loader = data.DataLoader(Rows({length}), 32, {options})", "batches(loader)", 20, 1
    for name, call in (("Categorical", "choose()"), ("squashed Normal", "squash()")):
        yield "distributions", name, _POLICY, call, 1, 1
    for length, heads in ((64, 64), (512, 16), (2048, 4)):
        make = f"{_F}q, k, v = (torch.randn(1, {heads}, {length}, 32) for _ in range(3))"
        call = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
        yield "attention", f"{heads} heads, {length}", make, call
        like = f"1, {heads}, {length}, 32"
        yield "attention", *_backward(f"{heads} heads, {length}, with backward", make, call, "qkv", like)


CASES = [Case(*fields) for fields in _declared()]
