"""Memory of the graph's tools: each is used over and over, and nothing more is there afterwards.

``nox -s leaks`` does so 10,000 times.
"""
import pytest

STEPS = {
    "hooks on saved tensors": """
        x = torch.randn(300, requires_grad=True)
        class Packed:
            def __init__(self, t):
                self.t = t.detach()
        def step(i):
            with torch.autograd.graph.saved_tensors_hooks(Packed, lambda p: p.t):
                y = (x.exp() * x.tanh()).sum()
            if i % 3 == 1:
                y.backward()
            if i % 3 == 2:
                g, = torch.autograd.grad(y, x, create_graph=True)
                g.sum().backward()
            x.grad = None
        """,
    "hooks that fail": """
        x = torch.randn(300, requires_grad=True)
        def fail(*args):
            raise KeyError("on purpose")
        def attempt(f):
            try:
                f()
            except KeyError:
                pass
            else:
                raise AssertionError("no error")
        def packed():
            with torch.autograd.graph.saved_tensors_hooks(fail, lambda t: t):
                (x * 2).exp()
        def unpacked():
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), fail):
                y = (x * 2).exp().sum()
            y.backward()
        def hooked(kind):
            y = (x * 2).exp()
            getattr(y, kind, None)(fail) if kind == "register_hook" else getattr(y.grad_fn, kind)(fail)
            y.sum().backward()
        def step(i):
            attempt(packed)
            attempt(unpacked)
            attempt(lambda: hooked("register_hook"))
            attempt(lambda: hooked("register_prehook"))
            y = (x * 2).exp()
            y.grad_fn.register_hook(fail)
            attempt(lambda: y.sum().backward())
        """,
    "hooks of nodes and leaves": """
        x = torch.randn(300, requires_grad=True)
        def step(i):
            y = x * 2
            y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
            y.grad_fn.register_hook(lambda given, arrived: None)
            leaf_node = y.grad_fn.next_functions[0][0]
            leaf_node.register_prehook(lambda grads: None)
            leaf_node.register_hook(lambda given, arrived: None)
            handles = [x.register_hook(lambda g: g * 2), x.register_post_accumulate_grad_hook(lambda t: None)]
            y.sum().backward()
            for handle in handles:
                handle.remove()
            x.grad = None
        """,
    "hooks on several gradients": """
        a, b = torch.randn(30, requires_grad=True), torch.randn(30, requires_grad=True)
        def step(i):
            c = a * b
            graph = torch.autograd.graph
            with graph.register_multi_grad_hook((a, b, c), lambda grads: None), \\
                    graph.register_multi_grad_hook((a, b), lambda grad: None, mode="any"):
                if i % 2:
                    c.sum().backward()
            a.grad = b.grad = None
        lasting = torch.autograd.graph.register_multi_grad_hook((a, b), lambda grad: None, mode="any")
        """,
    "edges, saved values and nodes by themselves": """
        x = torch.randn(30, requires_grad=True)
        one = torch.ones(30)
        def step(i):
            y = x.exp() * x
            edge = torch.autograd.graph.get_gradient_edge(y)
            torch.autograd.grad(edge, torch.autograd.graph.get_gradient_edge(x), one, retain_graph=True)
            y.grad_fn._saved_self, y.grad_fn._raw_saved_other, y.grad_fn.metadata, y.grad_fn.next_functions
            y.grad_fn(one)
            y.grad_fn.metadata["mine"] = [x]
        """,
    "saved tensors that are changed": """
        x = torch.randn(30, requires_grad=True)
        def step(i):
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                y = x * 1
                z = y.exp() * y
                y.mul_(2)
                z.mul_(y)
                if i % 2:
                    z.sum().backward()
            x.grad = None
        """,
    "inference mode": """
        x = torch.randn(30, requires_grad=True)
        def step(i):
            with torch.inference_mode():
                y = (x * 2).exp()[3:]
                y.add_(1)
            for wrong in (lambda: y.add_(1), lambda: y * x[3:], lambda: y._version, lambda: y.requires_grad_()):
                try:
                    wrong()
                except RuntimeError:
                    pass
                else:
                    raise AssertionError("no error")
        """,
    "anomaly mode": """
        import warnings
        warnings.simplefilter("ignore")
        x = torch.zeros(3, requires_grad=True)
        def step(i):
            with torch.autograd.set_detect_anomaly(True):
                (x.exp() * 2).sum().backward()
                x.grad = None
                try:
                    (x.sqrt() * 0).sum().backward()
                except RuntimeError:
                    pass
                g, = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
                g.sum().backward()
            x.grad = None
        """,
    "functions that write, return inputs, views and several outputs": """
        class Write(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                ctx.save_for_backward(x)
                return x
            @staticmethod
            def backward(ctx, g):
                return 2 * g * ctx.saved_tensors[0].sign() ** 2
        class Several(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, n):
                whole = x * n
                ctx.mark_non_differentiable(whole)
                ctx.set_materialize_grads(False)
                ctx.save_for_backward(x, whole, None)
                return x, whole, x.sum(), n
            @staticmethod
            def backward(ctx, g, h, k, none):
                return k if g is None else g if k is None else g + k, None
        class View(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x[:10]
            @staticmethod
            def backward(ctx, g):
                return torch.cat([g, g.new_zeros(20)])
        x = torch.randn(30, requires_grad=True)
        def step(i):
            y = x * 1
            v = Write.apply(y[:10])
            w = Write.apply(x * 1)
            a, b, c, n = Several.apply(y, i)
            u = View.apply(y)
            if i % 2:
                (v.sum() + w.sum() + a.sum() + c + u.sum() + y.sum()).backward(create_graph=i % 4 == 1)
            x.grad = None
        """,
    "backward inside backward": """
        x = torch.randn(30, requires_grad=True)
        inner = torch.randn(30, requires_grad=True)
        class Nested(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1
            @staticmethod
            def backward(ctx, g):
                with torch.enable_grad():
                    (inner * inner).sum().backward()
                return g
        def step(i):
            Nested.apply(x * 2).sum().backward()
            (x * 2).sum().backward(inputs=[x])
            x.grad = inner.grad = None
        """,
    "threads": """
        import threading
        x = torch.randn(30, requires_grad=True)
        def work():
            with torch.inference_mode():
                x * 2
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                (x * x).sum().backward()
        def step(i):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            x.grad = None
        """,
}


@pytest.mark.parametrize("what", STEPS)
def test_nothing_more_is_there(growth, what):
    grown, objects, storages = growth(STEPS[what])
    assert objects < 20
    assert storages < 5
    assert grown < 2**20, f"{grown / 2**20:.2f} MB more"
