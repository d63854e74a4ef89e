"""Drawing of large graphs: laid out in under 5 s for 5,000 operations, a page of a chain of 100,000 in under 3 s."""

import cygrad
from cygrad.tools.graph import Graph


class Draw:
    timeout = 120

    def setup(self):
        cygrad.manual_seed(0)
        self.chain = cygrad.ones(1, requires_grad=True)
        for _ in range(100_000):
            self.chain = self.chain + 1
        made = [cygrad.ones(3, requires_grad=True) for _ in range(50)]
        for i, j in cygrad.randint(1, 60, (5950, 2)).tolist():
            made.append(made[-min(i, len(made))] * made[-min(j, len(made))])
        self.tangled = Graph(made[-60:])

    def time_page_of_a_chain_of_100000(self):
        Graph(self.chain).to_html()

    def time_picture_of_5000_operations_without_order(self):
        self.tangled.to_svg()
