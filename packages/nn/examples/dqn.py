"""Learns to balance a pole on a cart by deep Q-learning.

The pole's physics are those of Barto, Sutton and Anderson (1983). The network is tiny and is asked at every step for
one state, which is where the cost of a call counts; learning is double Q-learning (van Hasselt et al., 2016) from a
memory of transitions, with a slowly following target network.

    python dqn.py --steps 20000 --out dqn-results
"""

import argparse
import math
import random
from copy import deepcopy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tqdm import trange

import cygrad as torch
from cygrad import nn

LONGEST = 300  # steps of an episode


class Pole:
    """A cart on a track, pushed left (0) or right (1); every step in which the pole stands is worth 1."""

    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        self.time = 0
        return self.state

    def step(self, action):
        x, speed, angle, turning = self.state
        force = 10.0 if action else -10.0
        sine, cosine = math.sin(angle), math.cos(angle)
        pushed = (force + 0.05 * turning**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        drive = pushed - 0.05 * turn * cosine / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * drive, angle + 0.02 * turning, turning + 0.02 * turn]
        self.time += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)
        return self.state, fell, fell or self.time == LONGEST


class Memory:
    """The last transitions, in tensors that are overwritten in a circle."""

    def __init__(self, size):
        actions = torch.zeros(size, 1, dtype=torch.int64)
        self.columns = torch.zeros(size, 4), actions, torch.zeros(size, 4), torch.zeros(size)
        self.count = 0

    def add(self, *values):
        at = self.count % len(self.columns[0])
        for column, value in zip(self.columns, values, strict=True):
            column[at] = torch.tensor(value, dtype=column.dtype)
        self.count += 1

    def sample(self, count):
        at = torch.randint(min(self.count, len(self.columns[0])), (count,))
        return [column[at] for column in self.columns]


def learn(network, target, optimizer, memory):
    state, action, following, fell = memory.sample(128)
    with torch.no_grad():
        best = network(following).argmax(1, keepdim=True)
        wanted = 1 + 0.98 * (1 - fell) * target(following).gather(1, best).squeeze(1)
    found = network(state).gather(1, action).squeeze(1)
    optimizer.zero_grad()
    nn.functional.smooth_l1_loss(found, wanted).backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
            slow.lerp_(fast, 0.005)


def choose(network, state):
    with torch.no_grad():
        return network(torch.tensor(state)).argmax().item()


def balance(network, pole, episodes=10):
    """Mean length of episodes without exploring."""
    total = 0
    for _ in range(episodes):
        state, ended = pole.reset(), False
        while not ended:
            state, _, ended = pole.step(choose(network, state))
        total += pole.time
    return total / episodes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("dqn-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    network = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    target = deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=options.steps)
    memory, pole = Memory(20_000), Pole()

    lengths, best, best_weights = [], 0, None
    state = pole.reset()
    for step in (bar := trange(options.steps, unit="step")):
        if random.random() < max(0.02, 1 - step / 4000):  # explores, less and less
            action = random.randrange(2)
        else:
            action = choose(network, state)
        following, fell, ended = pole.step(action)
        memory.add(state, [action], following, fell)
        state = following
        if ended:
            lengths.append(pole.time)
            state = pole.reset()
            bar.set_postfix_str(f"balanced for {lengths[-1]}", refresh=False)
        if step >= 500:
            learn(network, target, optimizer, memory)
            schedule.step()
        if step % 1000 == 999:  # the policy goes up and down: the best one is kept
            balanced = balance(network, Pole())
            if balanced > best:
                best, best_weights = balanced, deepcopy(network.state_dict())

    if best_weights is not None:
        network.load_state_dict(best_weights)
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.plot(lengths, ".", markersize=3, alpha=0.5)
    means = [sum(lengths[max(0, i - 19) : i + 1]) / len(lengths[max(0, i - 19) : i + 1]) for i in range(len(lengths))]
    axis.plot(means, label="mean of 20")
    axis.set(xlabel="episode", ylabel="steps until the pole falls", title=f"Balancing a pole, at most {LONGEST} steps")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(options.out / "dqn.png", dpi=80)
    print(f"{len(lengths)} episodes; the first 20 lasted {means[min(19, len(means) - 1)]:.0f} steps")
    print(f"the best policy balances for {balance(network, pole, 20):.0f} of at most {LONGEST} steps")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()
