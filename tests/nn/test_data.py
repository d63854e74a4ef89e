"""Datasets, samplers, collating and the loader; PyTorch's orders for its seeds."""

import itertools
import math
import warnings
from collections import OrderedDict, UserDict, namedtuple
from types import MappingProxyType

import numpy as np
import pytest


@pytest.fixture
def squares(data):
    class Squares(data.Dataset):
        def __init__(self, n=10):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            return i * i

    return Squares


@pytest.fixture
def stream(data):
    class Stream(data.IterableDataset):
        def __init__(self, n=7):
            self.n = n

        def __iter__(self):
            return iter(range(self.n))

        def __len__(self):
            return self.n

    return Stream


@pytest.fixture
def pairs(torch, data):
    """Rows i and targets 10 i."""
    return data.TensorDataset(torch.arange(20).view(10, 2), torch.arange(10) * 10)


# ---- datasets
def test_tensor_dataset(torch, data, pairs):
    assert len(pairs) == 10
    x, y = pairs[3]
    assert x.tolist() == [6, 7] and y.item() == 30
    assert [t.tolist() for t in pairs[1:3]] == [[[2, 3], [4, 5]], [10, 20]]
    with pytest.raises(IndexError):
        pairs[10]
    with pytest.raises(AssertionError, match="Size mismatch"):
        data.TensorDataset(torch.zeros(2), torch.zeros(3))


def test_subset(data, squares, pairs):
    subset = data.Subset(squares(), [5, 1, 1])
    assert len(subset) == 3 and [subset[i] for i in range(3)] == [25, 1, 1]
    assert subset.__getitems__([2, 0]) == [1, 25]
    nested = data.Subset(data.Subset(pairs, range(0, 10, 2)), [4, 0])
    assert nested[0][1].item() == 80 and nested[[0, 1]][1].tolist() == [80, 0]


def test_concat(data, squares, stream):
    joined = data.ConcatDataset([squares(3), squares(2), squares(4)])
    assert len(joined) == 9 and joined.cumulative_sizes == [3, 5, 9]
    assert [joined[i] for i in range(9)] == [0, 1, 4, 0, 1, 0, 1, 4, 9]
    assert joined[-1] == 9 and joined[-9] == 0
    assert len(squares(3) + squares(2)) == 5
    with pytest.raises(IndexError):
        joined[9]
    with pytest.raises(ValueError):
        joined[-10]
    for bad in ([], [stream()]):
        with pytest.raises(AssertionError):
            data.ConcatDataset(bad)


def test_stack(data, squares, pairs):
    both = data.StackDataset(squares(3), squares(3))
    assert both[2] == (4, 4) and len(both) == 3 and both.__getitems__([0, 1]) == [(0, 0), (1, 1)]
    named = data.StackDataset(a=squares(3), b=data.Subset(squares(9), [8, 7, 6]))
    assert named[1] == {"a": 1, "b": 49} and named.__getitems__([2]) == [{"a": 4, "b": 36}]
    for arguments, options in (((), {}), ((squares(1),), {"b": squares(1)}), ((squares(1), squares(2)), {})):
        with pytest.raises(ValueError):
            data.StackDataset(*arguments, **options)


def test_stack_checks_what_its_parts_return(data, squares):
    class Short(squares):
        def __getitems__(self, indices):
            return [0]

    with pytest.raises(ValueError, match=r"1.*2|2.*1"):
        data.StackDataset(Short(), squares()).__getitems__([1, 2])


def test_chain(data, squares, stream):
    chain = stream(2) + stream(3)
    assert list(chain) == [0, 1, 0, 1, 2] and len(chain) == 5
    with pytest.raises(AssertionError):
        list(data.ChainDataset([squares()]))


def test_datasets_that_define_nothing(data):
    with pytest.raises(NotImplementedError):
        data.Dataset()[0]


def test_random_split(torch, data, squares):
    parts = data.random_split(squares(10), [7, 3])
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(itertools.chain(*(p.indices for p in parts))) == list(range(10))
    assert [len(p) for p in data.random_split(range(10), [0.34, 0.33, 0.33])] == [4, 3, 3]
    again = data.random_split(range(30), [0.5, 0.5], generator=torch.Generator().manual_seed(1))
    same = data.random_split(range(30), [0.5, 0.5], generator=torch.Generator().manual_seed(1))
    assert again[0].indices == same[0].indices
    for lengths in ([7, 2], [1.5, -0.5]):
        with pytest.raises(ValueError):
            data.random_split(range(10), lengths)
    with pytest.warns(UserWarning, match="1 is 0"):
        data.random_split(range(2), [1.0, 0.0])


# ---- samplers
def test_sequential_and_batches(data):
    assert list(data.SequentialSampler("abcd")) == [0, 1, 2, 3] and len(data.SequentialSampler("abcd")) == 4
    for drop, batches in ((False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])):
        sampler = data.BatchSampler(data.SequentialSampler(range(7)), 3, drop)
        assert list(sampler) == batches and len(sampler) == len(batches)
    assert list(data.BatchSampler([5, 6, 7], 2, False)) == [[5, 6], [7]]


def test_random_sampler(torch, data):
    sampler = data.RandomSampler(range(50))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second and len(sampler) == 50
    assert len(list(data.RandomSampler(range(5), num_samples=12))) == 12
    drawn = list(data.RandomSampler(range(5), replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) == set(range(5))
    fixed = [list(data.RandomSampler(range(9), generator=torch.Generator().manual_seed(4))) for _ in range(2)]
    assert fixed[0] == fixed[1]


def test_subset_random_sampler(data):
    sampler = data.SubsetRandomSampler([3, 5, 8])
    assert sorted(sampler) == [3, 5, 8] and len(sampler) == 3


def test_weighted_sampler(torch, data):
    torch.manual_seed(0)
    weights = [0.0, 1.0, 3.0, 0.0]
    drawn = list(data.WeightedRandomSampler(weights, 4000))
    assert set(drawn) == {1, 2} and drawn.count(2) / 4000 == pytest.approx(0.75, abs=0.03)
    firsts = [list(data.WeightedRandomSampler(weights, 2, replacement=False)) for _ in range(2000)]
    assert all(sorted(pair) == [1, 2] for pair in firsts)
    assert sum(pair[0] == 2 for pair in firsts) / 2000 == pytest.approx(0.75, abs=0.04)
    assert len(data.WeightedRandomSampler(weights, 3)) == 3
    for bad in ([-1.0, 2.0], [0.0, 0.0], [math.inf, 1.0]):
        with pytest.raises(RuntimeError):
            list(data.WeightedRandomSampler(bad, 3))
    with pytest.raises(RuntimeError):
        list(data.WeightedRandomSampler(weights[:3], 4, replacement=False))


def test_weights_of_zero_are_never_drawn(data, beyond_pytorch):
    with pytest.raises(RuntimeError, match="only 2 weights"):
        list(data.WeightedRandomSampler([0.0, 1.0, 3.0, 0.0], 3, replacement=False))


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (ValueError, lambda d: d.RandomSampler([])),
        (ValueError, lambda d: d.RandomSampler([1], num_samples=0)),
        (ValueError, lambda d: d.RandomSampler([1], num_samples=1.5)),
        (TypeError, lambda d: d.RandomSampler([1], replacement=1)),
        (ValueError, lambda d: d.BatchSampler([1], 0, False)),
        (ValueError, lambda d: d.BatchSampler([1], True, False)),
        (ValueError, lambda d: d.BatchSampler([1], 2, 1)),
        (ValueError, lambda d: d.WeightedRandomSampler([1.0], 0)),
        (ValueError, lambda d: d.WeightedRandomSampler([1.0], 1, replacement=1)),
        (ValueError, lambda d: d.WeightedRandomSampler([[1.0]], 1)),
    ],
)
def test_bad_samplers(data, error, make):
    with pytest.raises(error):
        make(data)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: list(d.RandomSampler(range(100))),
        lambda d: list(d.RandomSampler(range(7), num_samples=20)),
        lambda d: list(d.RandomSampler(range(7), replacement=True, num_samples=70)),
        lambda d: list(d.SubsetRandomSampler(range(0, 60, 3))),
        lambda d: [p.indices for p in d.random_split(range(40), [0.7, 0.3])],
        lambda d: list(d.WeightedRandomSampler([0.1, 0.5, 0.0, 2.0, 1.0], 50)),
        lambda d: [b.tolist() for b in d.DataLoader(range(25), batch_size=4, shuffle=True)],
        lambda d: [[b.tolist() for b in loader] for loader in [d.DataLoader(range(9), 2, shuffle=True)] for _ in "ab"],
        lambda d: [b.tolist() for b in d.DataLoader(range(9), 2)],
    ],
)
def test_torch_visits_in_the_same_order(torch, data, oracle, make):
    """Twice in a row from one seed, so that what is left of the random numbers agrees too."""
    import torch.utils.data as reference

    torch.manual_seed(11)
    ours = make(data), make(data), torch.rand(3).tolist()
    oracle.manual_seed(11)
    theirs = make(reference), make(reference), oracle.rand(3).tolist()
    assert ours == theirs


def test_torch_leaves_a_shared_generator_at_the_same_place(torch, data, oracle):
    import torch.utils.data as reference

    left = []
    for library, module in ((torch, data), (oracle, reference)):
        generator = library.Generator()
        generator.manual_seed(6)
        loader = module.DataLoader(range(10), 3, shuffle=True, generator=generator)
        order = [b.tolist() for _ in range(2) for b in loader]
        left.append((order, library.rand(2, generator=generator).tolist()))
    assert left[0] == left[1]


# ---- collating
Point = namedtuple("Point", "x y")


def test_collating_kinds(torch, data):
    collate = data.default_collate
    assert collate([torch.tensor([1, 2]), torch.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    floats, ints, bools = collate([0.5, 1.5]), collate([1, 2]), collate([True, False])
    assert (floats.dtype, ints.dtype, bools.dtype) == (torch.float64, torch.int64, torch.bool)
    arrays = collate([np.zeros(3, dtype=np.float32), np.ones(3, dtype=np.float32)])
    assert arrays.dtype == torch.float32 and arrays.tolist() == [[0] * 3, [1] * 3]
    assert collate([np.float32(1), np.float32(2)]).dtype == torch.float32
    assert collate([np.int32(1), np.int32(2)]).tolist() == [1, 2]
    assert collate(["a", "b"]) == ["a", "b"] and collate([b"a"]) == [b"a"]


def test_collating_structures(torch, data):
    collate = data.default_collate
    got = collate([(1, {"a": 2.0}), (3, {"a": 4.0})])
    assert isinstance(got, list) and got[0].tolist() == [1, 3] and got[1]["a"].tolist() == [2, 4]
    assert [t.tolist() for t in collate([[1, 2], [3, 4]])] == [[1, 3], [2, 4]]
    point = collate([Point(1, 2), Point(3, 4)])
    assert isinstance(point, Point) and point.y.tolist() == [2, 4]
    for kind in (OrderedDict, UserDict):
        got = collate([kind(a=1), kind(a=2)])
        assert isinstance(got, kind) and got["a"].tolist() == [1, 2]
    assert collate([MappingProxyType({"a": 1})])["a"].tolist() == [1]
    assert [t.tolist() for t in collate([range(2), range(2)])] == [[0, 0], [1, 1]]


def test_what_cannot_be_collated(torch, data):
    for error, batch in (
        (RuntimeError, [[1, 2], [3]]),
        (RuntimeError, [torch.zeros(2), torch.zeros(3)]),
        (TypeError, [object(), object()]),
        (TypeError, [None, None]),
        (TypeError, [np.array(["a"]), np.array(["b"])]),
    ):
        with pytest.raises(error):
            data.default_collate(batch)


def test_converting(torch, data):
    convert = data.default_convert
    x = torch.zeros(1)
    assert convert(x) is x and convert(5) == 5 and convert("a") == "a"
    assert convert(np.arange(2)).tolist() == [0, 1] and convert(np.float64(2.5)).item() == 2.5
    got = convert((np.arange(2), [np.int64(3)], {"k": np.ones(1)}, Point(np.arange(1), 0)))
    assert got[0].tolist() == [0, 1] and got[1][0].item() == 3 and got[2]["k"].tolist() == [1]
    assert isinstance(got[3], Point) and got[3].x.tolist() == [0]
    text = np.array(["a"])
    assert convert(text) is text


# ---- the loader
def test_batches_of_a_tensor_dataset(data, pairs):
    batches = list(data.DataLoader(pairs, batch_size=4))
    assert [len(y) for _, y in batches] == [4, 4, 2] and isinstance(batches[0], list)
    assert batches[2][0].tolist() == [[16, 17], [18, 19]] and batches[2][1].tolist() == [80, 90]
    assert len(data.DataLoader(pairs, batch_size=4, drop_last=True)) == 2
    assert len(list(data.DataLoader(pairs, batch_size=4, drop_last=True))) == 2


@pytest.mark.parametrize("order", [[3, 1, 1], [-1, -10, 2]])
def test_reading_a_batch_at_once_equals_reading_sample_by_sample(torch, data, pairs, order):
    at_once = list(data.DataLoader(pairs, batch_sampler=[order]))[0]  # noqa: RUF015
    one_by_one = data.default_collate([pairs[i] for i in order])
    assert [t.tolist() for t in at_once] == [t.tolist() for t in one_by_one]
    inside = list(data.DataLoader(data.Subset(pairs, range(9, -1, -1)), batch_sampler=[order]))[0]  # noqa: RUF015
    assert inside[1].tolist() == [[9, 8, 7, 6, 5, 4, 3, 2, 1, 0][i] * 10 for i in order]


def test_batches_are_copies(data, pairs):
    x, y = next(iter(data.DataLoader(pairs, batch_size=10)))
    x.zero_()
    y.zero_()
    assert pairs[9][0].tolist() == [18, 19] and pairs[9][1].item() == 90


def test_indices_out_of_range(data, pairs):
    for order in ([0, 10], [-11]):
        with pytest.raises(IndexError):
            list(data.DataLoader(pairs, batch_sampler=[order]))


def test_a_subclass_keeps_its_own_lookup(torch, data):
    class Doubled(data.TensorDataset):
        def __getitem__(self, i):
            return tuple(2 * t for t in super().__getitem__(i))

    class Shifted(data.Subset):
        def __getitem__(self, i):
            return super().__getitem__(i) + 1

        def __getitems__(self, indices):
            return [self[i] for i in indices]

    doubled = Doubled(torch.arange(4))
    assert [b[0].tolist() for b in data.DataLoader(doubled, 2)] == [[0, 2], [4, 6]]
    assert [b[0].tolist() for b in data.DataLoader(data.Subset(doubled, [3, 0]), 2)] == [[6, 0]]
    assert [b.tolist() for b in data.DataLoader(Shifted(range(9), [5, 6]), 2)] == [[6, 7]]


def test_collate_fn_gets_the_samples(data, pairs):
    seen = next(iter(data.DataLoader(pairs, batch_size=3, collate_fn=lambda samples: samples)))
    assert isinstance(seen, list) and [y.item() for _, y in seen] == [0, 10, 20]


def test_getitems_is_used(data, squares):
    class Many(squares):
        def __getitems__(self, indices):
            return [-i for i in indices]

    assert [b.tolist() for b in data.DataLoader(Many(4), batch_size=2)] == [[0, -1], [-2, -3]]


def test_without_batching(data, squares):
    assert list(data.DataLoader(squares(4), batch_size=None)) == [0, 1, 4, 9]
    converted = list(data.DataLoader([np.arange(2)], batch_size=None))
    assert converted[0].tolist() == [0, 1]
    assert list(data.DataLoader([7, 8, 9], batch_size=None, sampler=[2, 0])) == [9, 7]


def test_samplers_of_users(data, squares):
    assert [b.tolist() for b in data.DataLoader(squares(), 2, sampler=[3, 1, 2])] == [[9, 1], [4]]
    loader = data.DataLoader(squares(), batch_sampler=[[1], [2, 3]])
    assert [b.tolist() for b in loader] == [[1], [4, 9]] and len(loader) == 2
    assert loader.batch_size is None and loader.drop_last is False


def test_shuffling_visits_everything_once(torch, data):
    def order(seed):
        generator = torch.Generator()
        generator.manual_seed(seed)
        return torch.cat(list(data.DataLoader(range(20), 3, shuffle=True, generator=generator))).tolist()

    assert sorted(order(3)) == list(range(20)) and order(3) == order(3) and order(3) != order(4)


def test_iterable_datasets(data, stream):
    assert [b.tolist() for b in data.DataLoader(stream(), 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [b.tolist() for b in data.DataLoader(stream(), 3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert list(data.DataLoader(stream(3), batch_size=None)) == [0, 1, 2]
    for options, length in (({}, 3), ({"drop_last": True}, 2)):
        assert len(data.DataLoader(stream(), 3, **options)) == length
    assert len(data.DataLoader(stream(), batch_size=None)) == 7
    assert data.get_worker_info() is None


def test_a_stream_longer_than_announced_warns(data, stream):
    class Liar(stream):
        def __len__(self):
            return 2

    loader = data.DataLoader(Liar(), batch_size=1)
    len(loader)
    with pytest.warns(UserWarning, match="2"):
        list(loader)


def test_several_passes_at_once(data):
    loader = data.DataLoader(range(6), 2)
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader, strict=True)] == [
        ([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4, 5], [4, 5])
    ]  # fmt: skip


def test_an_empty_dataset(data, squares):
    assert list(data.DataLoader(squares(0), 4)) == [] and len(data.DataLoader(squares(0), 4)) == 0
    with pytest.raises(ValueError):
        data.DataLoader(squares(0), 4, shuffle=True)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": 2, "batch_sampler": [[1]]},
        {"shuffle": True, "batch_sampler": [[1]]},
        {"shuffle": True, "sampler": [1]},
        {"batch_size": None, "drop_last": True},
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
        {"multiprocessing_context": "spawn"},
    ],
)
def test_options_that_contradict_each_other(data, options):
    with pytest.raises(ValueError):
        data.DataLoader(range(4), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_options_that_a_stream_has_no_use_for(data, stream, options):
    with pytest.raises(ValueError, match="IterableDataset"):
        data.DataLoader(stream(), **options)
    data.DataLoader(stream(), shuffle=False)


def test_what_is_fixed_after_construction(data):
    loader = data.DataLoader(range(4), 2)
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=name):
            setattr(loader, name, None)
    loader.collate_fn = len
    assert list(loader) == [2, 2]


def test_pin_memory_only_warns(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(list(data.DataLoader(range(4), 2, pin_memory=True))) == 2
    assert any("accelerator" in str(w.message) for w in caught)


# ---- several processes
def test_distributed_sampler(data):
    def parts(n, replicas, **options):
        samplers = [data.DistributedSampler(range(n), replicas, rank, **options) for rank in range(replicas)]
        for sampler in samplers:
            sampler.set_epoch(2)
            assert len(list(sampler)) == len(sampler) == samplers[0].num_samples
        return [list(sampler) for sampler in samplers]

    assert parts(7, 3, shuffle=False) == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    assert parts(7, 3, shuffle=False, drop_last=True) == [[0, 3], [1, 4], [2, 5]]
    assert parts(2, 5, shuffle=False) == [[0], [1], [0], [1], [0]]
    assert sorted(itertools.chain(*parts(12, 4))) == list(range(12))
    for error, options in ((ValueError, {"rank": 3}), (ValueError, {"rank": -1})):
        with pytest.raises(error, match="Invalid rank"):
            data.DistributedSampler(range(4), 3, **options)


def test_distributed_sampler_draws_as_pytorchs(torch, data, oracle):
    import torch.utils.data as reference

    for options in ({}, {"drop_last": True}, {"seed": 7}, {"shuffle": False}):
        for n, replicas in ((10, 3), (9, 3), (2, 5), (1, 1)):
            for rank in range(replicas):
                ours, theirs = (m.DistributedSampler(range(n), replicas, rank, **options) for m in (data, reference))
                for epoch in range(3):
                    ours.set_epoch(epoch)
                    theirs.set_epoch(epoch)
                    assert list(ours) == list(theirs) and len(ours) == len(theirs)


def test_distributed_sampler_asks_nobody(data, beyond_pytorch):
    with pytest.raises(RuntimeError, match="num_replicas and rank"):
        data.DistributedSampler(range(4))


def test_everything_that_pytorch_has_is_there(data, oracle):
    import torch.utils.data as reference

    public = {name for name in reference.__all__ if not name.startswith("_")}
    pipes = {name for name in public if "pipe" in name.lower()} | {"DataChunk", "argument_validation"}
    deferred = {"guaranteed_datapipes_determinism", "non_deterministic"}
    types = {"runtime_validation", "runtime_validation_disabled"}  # of pipes
    assert {name for name in public - pipes - deferred - types if not hasattr(data, name)} == set()


def test_types_of_elements_can_be_written(data):
    assert data.DataLoader[int](range(3)) and data.Dataset[int] and data.Sampler[int]
