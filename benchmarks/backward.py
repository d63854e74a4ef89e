"""Long chains of operations on one element, recorded and differentiated: the cost of the graph, 1,000 at a time."""

import cygrad

OPERATIONS = 1000


class Chain:
    params = ("add", "mul")
    param_names = ("operation",)

    def setup(self, operation):
        self.x = cygrad.ones(1, requires_grad=True)
        self.c = cygrad.full((1,), 1.0)
        self.end = self.record(operation)

    def record(self, operation):
        y, c = self.x, self.c
        if operation == "add":
            for _ in range(OPERATIONS):
                y = y + c
        else:
            for _ in range(OPERATIONS):
                y = y * c
        return y

    def time_record(self, operation):
        self.record(operation)

    def time_record_and_backward(self, operation):
        self.record(operation).backward()

    def time_backward(self, operation):
        self.end.backward(retain_graph=True)
