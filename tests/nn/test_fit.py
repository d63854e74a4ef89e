"""`nn.training.fit`: what it computes, what it writes, and runs that are broken off and go on."""

import csv
import importlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import OrderedDict, namedtuple

import pytest

pytestmark = pytest.mark.usefixtures("beyond_pytorch")


@pytest.fixture
def training(torch):
    return importlib.import_module(torch.__name__ + ".nn.training")


class Setup:
    """A small run whose every part has a state: dropout, batch norm, momentum, a schedule, a generator of its own."""

    def __init__(self, torch, data, schedule="epoch", seed=0, optimizer="Adam"):
        self.torch, nn = torch, torch.nn
        torch.manual_seed(seed)
        random.seed(seed)
        x = torch.randn(70, 6)
        y = (x.sum(1) > 0).long()
        generator = torch.Generator()
        generator.manual_seed(5)
        self.data = data.TensorDataset(x, y)
        self.loader = data.DataLoader(self.data, batch_size=16, shuffle=True, generator=generator)
        self.validation = data.DataLoader(self.data, batch_size=32)
        self.model = nn.Sequential(
            nn.Linear(6, 16), nn.Dropout(0.2), nn.ReLU(), nn.BatchNorm1d(16), nn.Linear(16, 2)
        )
        self.optimizer = getattr(torch.optim, optimizer)(self.model.parameters(), lr=1e-2)
        schedules = torch.optim.lr_scheduler
        if schedule == "epoch":
            self.scheduler = schedules.ReduceLROnPlateau(self.optimizer, patience=0)
        else:
            self.scheduler = schedules.OneCycleLR(self.optimizer, max_lr=0.1, total_steps=200)
        self.schedule = schedule

    def fit(self, training, **options):
        defaults = {"epochs": 3, "validation": self.validation, "metrics": {"accuracy": training.accuracy}}
        defaults |= {"scheduler": self.scheduler, "schedule": self.schedule, "progress": False}
        loss = self.torch.nn.functional.cross_entropy
        return training.fit(self.model, loss, self.optimizer, self.loader, **defaults | options)

    def weights(self):
        return [p.tolist() for p in self.model.state_dict().values()]


class Broken(Exception):
    pass


def break_after(run, batches):
    """Let the run's data fail after so many batches of it all."""
    collate, count = run.loader.collate_fn, [0]

    def failing(samples):
        count[0] += 1
        if count[0] > batches:
            raise Broken
        return collate(samples)

    run.loader.collate_fn = failing


def test_the_loop_is_the_one_that_is_written_by_hand(torch, data, training):
    run = Setup(torch, data)
    history = run.fit(training, validation=None, scheduler=None)
    hand = Setup(torch, data)
    means = []
    for _ in range(3):
        hand.model.train()
        total = 0.0
        for x, y in hand.loader:
            hand.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(hand.model(x), y)
            loss.backward()
            hand.optimizer.step()
            total += loss.item() * len(x)
        means.append(total / 70)
    assert [row["loss"] for row in history] == means
    assert run.weights() == hand.weights()


def test_accumulated_gradients_are_those_of_a_large_batch(torch, nn, data, training):
    """Also where the last step of an epoch has fewer batches, and a smaller one."""
    found = []
    for size, accumulate in ((8, 4), (32, 1)):
        torch.manual_seed(1)
        model = nn.Linear(5, 2).double()
        x = torch.randn(70, 5, dtype=torch.float64)
        loader = data.DataLoader(data.TensorDataset(x, x[:, :2].sin()), batch_size=size)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        history = training.fit(
            model, nn.functional.mse_loss, optimizer, loader, epochs=3, accumulate=accumulate, progress=False
        )
        found.append((model.weight.flatten().tolist(), [row["loss"] for row in history]))
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-12)
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)


@pytest.mark.parametrize("schedule", ["epoch", "step"])
@pytest.mark.parametrize("after", [0, 1, 3, 5, 7, 12])
def test_a_broken_run_goes_on_to_the_bit(torch, data, training, tmp_path, schedule, after):
    whole = Setup(torch, data, schedule)
    wanted = whole.fit(training, accumulate=2, clip_norm=0.5, clip_value=0.1)
    following = torch.rand(4).tolist()
    path = tmp_path / "run.pt"
    options = {"accumulate": 2, "clip_norm": 0.5, "clip_value": 0.1, "checkpoint": path, "every": 1}
    first = Setup(torch, data, schedule)
    break_after(first, after)
    with pytest.raises(Broken):
        first.fit(training, **options)
    assert path.exists() == (after >= 2)
    second = Setup(torch, data, schedule, seed=0 if after < 2 else 99)     # another start is overwritten
    second.data.tensors = whole.data.tensors
    assert second.fit(training, **options) == wanted
    assert second.weights() == whole.weights()
    assert torch.rand(4).tolist() == following


def test_random_numbers_of_python_and_numpy_go_on(torch, nn, data, training, tmp_path):
    import numpy as np

    class Noisy(data.Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, i):
            return torch.tensor([random.random(), np.random.rand()]).float(), torch.ones(1)  # noqa: NPY002

    def run(epochs, seed, **options):
        torch.manual_seed(0)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = data.DataLoader(Noisy(), batch_size=5)
        return training.fit(model, nn.functional.mse_loss, optimizer, loader, epochs=epochs, progress=False, **options)

    wanted = run(4, 3)
    path = tmp_path / "run.pt"
    assert run(2, 3, checkpoint=path) == wanted[:2]
    assert run(4, 77, checkpoint=path) == wanted


class Jittered:
    """A dataset that draws random numbers for each sample, in whatever process reads it."""

    def __init__(self, torch):
        self.torch = torch

    def __len__(self):
        return 40

    def __getitem__(self, i):
        x = self.torch.full((2,), i / 40) + self.torch.rand(2)
        return x, x.sum().view(1)


class Breaking:
    """A loader that fails after so many batches of it all."""

    def __init__(self, loader, batches):
        self.loader, self.left, self.generator = loader, batches, loader.generator

    def __iter__(self):
        for batch in self.loader:
            if not self.left:
                raise Broken
            self.left -= 1
            yield batch


@pytest.mark.parametrize(("persistent", "after"), [(False, 3), (False, 8), (False, 11), (True, 3)])
def test_random_numbers_of_worker_processes_go_on(torch, nn, data, training, tmp_path, persistent, after):
    """But for those of persistent workers after the first epoch: they died with the workers."""

    def run(batches=None, **options):
        torch.manual_seed(0)
        generator = torch.Generator()
        generator.manual_seed(1)
        loader = data.DataLoader(Jittered(torch), batch_size=5, shuffle=True, generator=generator, num_workers=2,
                                 persistent_workers=persistent)
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        source = loader if batches is None else Breaking(loader, batches)
        return training.fit(model, nn.functional.mse_loss, optimizer, source, epochs=3, progress=False, **options)

    wanted = run()
    path = tmp_path / "run.pt"
    with pytest.raises(Broken):
        run(after, checkpoint=path, every=1)
    assert run(checkpoint=path, every=1) == wanted


PROGRAM = """
    import sys
    import cygrad as torch
    from cygrad import nn
    from cygrad.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x = torch.randn(64, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True).sin())
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = nn.training.fit(model, nn.functional.mse_loss, optimizer, DataLoader(data, batch_size=8, shuffle=True),
                              epochs=int(sys.argv[2]), checkpoint=sys.argv[1], every=1, log=sys.argv[1] + ".csv",
                              progress=False)
    print(repr(history))
"""


def start(*arguments):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_WAIT_POLICY": "passive"}
    )


def test_killed_again_and_again(torch, tmp_path):
    """Whenever it is killed, the checkpoint is whole; in the end the run is the uninterrupted one."""
    epochs = 12
    wanted = start(tmp_path / "whole.pt", epochs).communicate()[0]
    path = tmp_path / "run.pt"
    chance = random.Random(0)
    kills = 0
    while True:
        process = start(path, epochs)
        deadline = time.monotonic() + 60
        seen = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None and (path.stat().st_mtime_ns if path.exists() else 0) == seen:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(chance.random() * 0.03)
        if process.poll() is None and kills < 8:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            assert torch.load(path)["progress"]["steps"] > 0
            continue
        assert process.communicate()[0] == wanted and wanted
        break
    assert kills >= 2
    assert not [p.name for p in tmp_path.iterdir() if p.name.endswith(".part") and p.name.startswith(".run.pt.")]
    rows = list(csv.DictReader((tmp_path / "run.pt.csv").open()))
    assert [float(row["loss"]) for row in rows] == [row["loss"] for row in eval(wanted)]


def test_early_stopping_leaves_the_best_weights(torch, data, training, tmp_path):
    values = iter([3.0, 2.0, 2.0, 2.5, 1.0, 0.5])
    run = Setup(torch, data)
    kept = []

    def metric(output, target):
        return torch.tensor(0.0)

    def judged(model, batch):
        return model(batch[0]), batch[1]

    original = training.loop.evaluate

    def fake(model, *rest):
        kept.append([p.tolist() for p in model.state_dict().values()])
        return {"loss": next(values)}

    training.loop.evaluate = fake
    try:
        history = run.fit(training, epochs=6, patience=2, keep_best=True, metrics={"m": metric}, forward=judged,
                          scheduler=None)
    finally:
        training.loop.evaluate = original
    assert [row["val_loss"] for row in history] == [3.0, 2.0, 2.0, 2.5]
    assert run.weights() == kept[1] != kept[3]


def test_a_stopped_run_stays_stopped(torch, data, training, tmp_path):
    options = {"monitor": "accuracy", "mode": "max", "patience": 1, "checkpoint": tmp_path / "run.pt"}
    wanted = Setup(torch, data).fit(training, epochs=30, **options)
    assert len(wanted) < 30
    assert Setup(torch, data).fit(training, epochs=30, **options) == wanted


def test_lbfgs_or_any_optimizer_with_a_closure(torch, nn, data, training):
    if not hasattr(torch.optim, "LBFGS"):
        pytest.skip("there is no LBFGS yet")
    torch.manual_seed(0)
    x = torch.randn(40, 3)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")
    loader = data.DataLoader(data.TensorDataset(x, x @ torch.tensor([[1.0], [2.0], [3.0]])), batch_size=40)
    history = training.fit(model, nn.functional.mse_loss, optimizer, loader, epochs=3, progress=False)
    assert history[-1]["loss"] < 1e-8


@pytest.mark.parametrize(("low", "scaled"), [("bfloat16", False), ("float16", True)])
def test_mixed_precision(torch, data, training, tmp_path, low, scaled):
    def run(epochs=3, **options):
        setup = Setup(torch, data)
        if scaled:
            options["scaler"] = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=4)
        return setup.fit(training, epochs=epochs, autocast=getattr(torch, low), clip_norm=1.0, **options), options

    wanted, options = run()
    plain = Setup(torch, data).fit(training, clip_norm=1.0)
    assert wanted != plain and wanted[-1]["loss"] < wanted[0]["loss"]
    if scaled:                           # with a scale of 2 ** 24 gradients overflow, and those steps are skipped
        assert options["scaler"].get_scale() < 2.0**24
    else:
        assert [row["loss"] for row in wanted] == pytest.approx([row["loss"] for row in plain], rel=0.05)
    path = tmp_path / "run.pt"
    assert run(2, checkpoint=path)[0] == wanted[:2]
    assert run(3, checkpoint=path)[0] == wanted


def test_evaluate_keeps_the_modes_of_all_modules(torch, nn, data, training):
    run = Setup(torch, data)
    run.model.train()
    run.model[3].eval()
    found = training.evaluate(run.model, None, run.validation, {"accuracy": training.accuracy})
    assert set(found) == {"accuracy"} and 0 <= found["accuracy"] <= 1
    assert [m.training for m in run.model] == [True, True, True, False, True]


def test_the_log_and_the_bar(torch, data, training, tmp_path, capsys):
    history = Setup(torch, data).fit(training, log=tmp_path / "log.csv", progress=True)
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [{k: float(v) for k, v in row.items()} for row in rows] == history
    shown = capsys.readouterr()
    assert "epoch 2/3" in shown.out and f"val_loss {history[-1]['val_loss']:.4f}" in shown.out
    assert "5/5" in shown.err or "batch" in shown.err


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"epochs": 0}, ValueError, "epochs must be a positive int, got 0"),
        ({"epochs": 2.0}, ValueError, "epochs"),
        ({"accumulate": True}, ValueError, "accumulate"),
        ({"patience": 0}, ValueError, "patience"),
        ({"every": -1}, ValueError, "every"),
        ({"schedule": "batch"}, ValueError, "schedule must be one of epoch, step"),
        ({"schedule": "step"}, ValueError, "ReduceLROnPlateau"),
        ({"monitor": "val_f1"}, ValueError, "monitor='val_f1' is none of the columns loss, accuracy, val_loss"),
        ({"mode": "best"}, ValueError, "mode"),
        ({"metrics": {"loss": abs}}, ValueError, "'loss'"),
        ({"checkpoint": "/no/such/folder/run.pt"}, FileNotFoundError, "checkpoint"),
        ({"log": "/no/such/folder/log.csv"}, FileNotFoundError, "log"),
    ],
)
def test_bad_options_change_nothing(torch, data, training, options, error, words):
    run = Setup(torch, data)
    before = run.weights()
    with pytest.raises(error, match=words):
        run.fit(training, **options)
    assert run.weights() == before


def test_bad_kinds(torch, data, training):
    run = Setup(torch, data)
    for model, optimizer, word in ((len, run.optimizer, "model"), (run.model, run.model, "optimizer")):
        with pytest.raises(TypeError, match=f"argument '{word}' must be"):
            training.fit(model, None, optimizer, run.loader, epochs=1)
    with pytest.raises(TypeError, match="argument 'output' must be Tensor, not list"):
        training.accuracy([1], torch.ones(1))
    with pytest.raises(TypeError, match="argument 'model' must be Module"):
        training.evaluate(3, None, run.loader)


def test_loaders_without_batches(torch, nn, data, training):
    run = Setup(torch, data)
    run.loader = []
    with pytest.raises(ValueError, match="the training loader gave no batches"):
        run.fit(training)
    run = Setup(torch, data)
    with pytest.raises(ValueError, match="evaluate"):
        run.fit(training, validation=[])
    for batch in ((torch.zeros(0, 6), torch.zeros(0).long()), (3, 4)):
        run.loader = [batch]
        with pytest.raises(ValueError, match="a batch must hold samples"):
            run.fit(training)


def test_a_loss_that_is_no_number_leaves_the_weights(torch, data, training):
    run = Setup(torch, data)
    run.data.tensors[0][3, 2] = float("inf")
    with pytest.raises(FloatingPointError, match=r"the loss is nan in epoch 1, step \d of the run.*find_nan"):
        run.fit(training)
    assert all(torch.tensor(p).isfinite().all() for p in [q.tolist() for q in run.model.parameters()])


def test_checkpoints_of_others_are_refused_and_change_nothing(torch, nn, data, training, tmp_path):
    path = tmp_path / "run.pt"
    Setup(torch, data).fit(training, checkpoint=path)
    other = Setup(torch, data, schedule="step")
    before = other.weights(), other.optimizer.state_dict(), torch.get_rng_state().tolist()

    def unchanged():
        return (other.weights(), other.optimizer.state_dict(), torch.get_rng_state().tolist()) == before

    with pytest.raises(RuntimeError, match="does not fit: accumulate in the checkpoint: 1, in this run: 2"):
        other.fit(training, checkpoint=path, accumulate=2)
    assert unchanged()
    with pytest.raises(RuntimeError, match="does not fit: parts"):
        other.fit(training, checkpoint=path, scheduler=None)
    assert unchanged()
    torch.save({"a": 1}, path)
    with pytest.raises(RuntimeError, match="is no checkpoint of fit"):
        other.fit(training, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Exception, match="checkpoint"):
        other.fit(training, checkpoint=path)
    assert unchanged()


def test_a_checkpoint_of_another_model_changes_nothing(torch, nn, data, training, tmp_path):
    path = tmp_path / "run.pt"
    Setup(torch, data).fit(training, checkpoint=path)
    wide = Setup(torch, data)
    wide.model[4] = nn.Linear(16, 3)
    before_wide = wide.weights()
    with pytest.raises(RuntimeError, match=r"its model cannot be loaded: (?s:.*)4\.weight"):
        wide.fit(training, checkpoint=path)
    assert wide.weights() == before_wide


def test_resume_false_starts_anew(torch, data, training, tmp_path):
    path = tmp_path / "run.pt"
    wanted = Setup(torch, data).fit(training, checkpoint=path)
    assert Setup(torch, data).fit(training, checkpoint=path, resume=False) == wanted
    assert Setup(torch, data, seed=3).fit(training, checkpoint=path, resume=False) != wanted


def test_batches_reach_the_model_as_the_loader_made_them(torch, nn, training):
    """Containers of any type, and where nothing has to move the very same ones."""
    Pair = namedtuple("Pair", "x flag")
    seen = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(2, 1)

        def forward(self, *inputs):
            seen.extend(inputs)
            return self.rnn(inputs[0])[1][0]

    packed = nn.utils.rnn.pack_sequence([torch.ones(2, 2), torch.ones(3, 2)], enforce_sorted=False)
    inputs = [packed, Pair(torch.ones(2), "flag"), (torch.ones(2), (1,)), OrderedDict(a=torch.ones(2)), [torch.ones(2)]]
    model = Model()
    loader = [[*inputs, torch.zeros(2, 1)]]
    training.fit(model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), 0.1), loader, epochs=1,
                 validation=loader, progress=False)  # fmt: skip
    assert len(seen) == 10 and all(found is given for found, given in zip(seen, inputs * 2, strict=True))
