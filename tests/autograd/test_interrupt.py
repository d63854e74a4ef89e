"""Ctrl-C during a backward pass ends it, and leaves everything usable."""


def test_interrupt(run_child):
    out = run_child("""
        import os, signal, threading, time

        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range(20_000):
            y = y * 1.0
        total = y.sum()

        def interrupt():
            while not started.is_set():
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        started = threading.Event()
        seen = []

        class Slow(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 1

            @staticmethod
            def backward(ctx, g):
                seen.append(1)
                started.set()
                end = time.monotonic() + 30
                while time.monotonic() < end:
                    time.sleep(0.01)
                return g

        late = Slow.apply(y).sum()
        thread = threading.Thread(target=interrupt)
        thread.start()
        before = time.monotonic()
        try:
            (late + total).backward(retain_graph=True)
        except KeyboardInterrupt:
            print("interrupted", len(seen), x.grad, time.monotonic() - before < 20)
        thread.join()
        assert torch.is_grad_enabled()
        total.backward()
        print(x.grad.item())
        """)
    assert out.splitlines() == ["interrupted 1 None True", "1.0"]


def test_interrupt_between_compiled_nodes(run_child, beyond_pytorch):
    """No Python code runs in this pass: it is noticed between two nodes."""
    out = run_child("""
        import os, signal, threading, time

        x = torch.ones(100_000, requires_grad=True)
        y = x
        for _ in range(3_000):
            y = y * 1.0

        def interrupt():
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            while True:
                y.sum().backward(retain_graph=True)
        except KeyboardInterrupt:
            print("interrupted")
        thread.join()
        x.grad = None
        y.sum().backward()
        print(x.grad[0].item(), torch.is_grad_enabled())
        """)
    assert out.splitlines() == ["interrupted", "1.0 True"]
