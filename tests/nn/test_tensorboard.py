"""Event files: what TensorBoard's own reader finds in ours, and in PyTorch's for the same calls."""

import importlib
import os

import numpy as np
import pytest

pytest.importorskip("tensorboard")


@pytest.fixture
def board(backend):
    return importlib.import_module(backend + ".utils.tensorboard")


def read(folder):
    """File's folder, step and summary or graph of all events below a folder, in order."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    found = []
    for path, _, names in sorted(os.walk(folder)):
        for name in sorted(n for n in names if n.startswith("events.")):
            for event in LegacyEventFileLoader(os.path.join(path, name)).Load():
                kind = event.WhichOneof("what")
                if kind not in ("file_version", "source_metadata"):
                    place = os.path.relpath(path, folder)
                    found.append((place, event.step, kind, event))
    return found


def write(library, board, folder):
    """The same calls in either library."""
    torch = library
    noise = np.random.RandomState(0)
    values = noise.randn(200).astype(np.float32)
    colours = noise.rand(3, 6, 5).astype(np.float32)
    with board.SummaryWriter(folder) as writer:
        writer.add_scalar("loss", 0.25, 3, walltime=5.0)
        writer.add_scalar("loss", torch.tensor([0.5], requires_grad=True).bfloat16(), 4)
        writer.add_scalar("new", np.float64(0.1), 1, new_style=True, double_precision=True)
        writer.add_scalar("new", 0.1, 2, new_style=True)
        writer.add_scalars("both/of them", {"a": 1, "b": torch.tensor(2.0)}, 5)
        writer.add_tensor("tensor", torch.tensor([[1.0, 2.0]]), 1)
        writer.add_tensor("integers", torch.tensor([1, -2]), 1)
        writer.add_histogram("h", torch.from_numpy(values), 1)
        writer.add_histogram("h of numpy", values, 1, bins="auto")
        writer.add_histogram("h coarse", values, 1, bins=64, max_bins=10)
        writer.add_histogram_raw("raw", 0, 2, 3, 4, 5, [1.0, 2.0], torch.tensor([1, 2]).tolist(), 1)
        writer.add_image("image", torch.from_numpy(colours), 1)
        writer.add_image("grey", (colours[0] * 255).astype(np.uint8), 1, dataformats="HW")
        writer.add_images("images", torch.from_numpy(colours)[:, None].expand(3, 3, 6, 5), 1)
        writer.add_images("last", noise.rand(9, 6, 5, 1), 1, dataformats="NHWC")
        writer.add_text("text", "**words** ä", 2)
        writer.add_audio("sound", torch.linspace(-1, 1, 50)[None], 2, sample_rate=8000)
        writer.add_pr_curve("pr", torch.from_numpy((values > 0).astype(np.int64)), 1 / (1 + np.exp(-values)), 2)
        writer.add_pr_curve_raw("raw", *([[3, 2], [2, 1], [0, 1], [0, 1], [0.6, 0.7], [1.0, 0.7]]), 2, num_thresholds=2)
        writer.add_custom_scalars_multilinechart(["loss", "new"])
        writer.add_custom_scalars_marginchart(["a", "b", "c"], "cat", "title")
        boxes = torch.tensor([[1.0, 2.0, 20.0, 15.0], [5.0, 5.0, 9.0, 9.0]])
        large = torch.from_numpy(noise.rand(3, 24, 30).astype(np.float32))
        writer.add_image_with_boxes("boxes", large, boxes, 1)
        writer.add_image_with_boxes("last", large.numpy().transpose(1, 2, 0), boxes, 1, dataformats="HWC")
        points = torch.arange(12.0).view(1, 4, 3)
        writer.add_mesh("points", points, global_step=3)
        writer.add_mesh("solid", points, torch.zeros(1, 4, 3, dtype=torch.uint8), torch.tensor([[[0, 1, 2]]]),
                        {"camera": {"cls": "PerspectiveCamera"}}, 3)
        writer.add_custom_scalars({"c": {"t": ["Multiline", ["loss", "new"]], "m": ["Margin", ["a", "b", "c"]]}})
        writer.add_hparams({"lr": 0.1, "name": "x", "n": 3, "none": None}, {"hparam/acc": 0.9},
                           {"name": ["x", "y"]}, run_name="trial")
        writer.add_embedding(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), ["a", "b", "c"],
                             torch.from_numpy(colours.transpose(0, 2, 1).copy())[:, None], 7, "points")
        writer.add_embedding(np.ones((2, 3)), [["a", "1"], ["b", "2"]], metadata_header=["name", "number"])


def pixels(image):
    from PIL import Image

    return np.asarray(Image.open(__import__("io").BytesIO(image.encoded_image_string))).tolist()


def plain(event):
    """A summary's values for comparing; of pictures what is seen, not how it is packed."""
    values = []
    for value in event.summary.value:
        if value.WhichOneof("value") == "image":
            picture = value.image
            values.append((value.tag, picture.height, picture.width, picture.colorspace, pixels(picture)))
        else:
            values.append(str(value))
    return values


def test_the_same_events_as_torch(torch, board, oracle, tmp_path):
    write(torch, board, str(tmp_path / "ours"))
    write(oracle, importlib.import_module("torch.utils.tensorboard"), str(tmp_path / "theirs"))
    ours, theirs = read(tmp_path / "ours"), read(tmp_path / "theirs")
    assert [event[:3] for event in ours] == [event[:3] for event in theirs] and len(ours) >= 24
    for (place, _, _, mine), (_, _, _, wanted) in zip(ours, theirs, strict=True):
        assert plain(mine) == plain(wanted), place
    assert ours[0][3].wall_time == 5.0
    files = [sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if "events." not in p.name)
             for root in (tmp_path / "ours", tmp_path / "theirs")]
    assert files[0] == files[1]
    for name in files[0]:
        mine, wanted = tmp_path / "ours" / name, tmp_path / "theirs" / name
        if mine.suffix in (".tsv", ".pbtxt"):
            assert mine.read_text() == wanted.read_text(), name


def test_halves_are_written_as_their_sixteen_bits(torch, board, tmp_path, beyond_pytorch):
    """PyTorch writes the 32 bits of the same number as a float32."""
    with board.SummaryWriter(tmp_path) as writer:
        writer.add_tensor("t", torch.tensor([1.0, -2.0]).bfloat16(), 1)
        writer.add_tensor("t", torch.tensor([1.0, -2.0]).half(), 1)
    found = [list(event.summary.value[0].tensor.half_val) for *_, event in read(tmp_path)]
    assert found == [[0x3F80, 0xC000], [0x3C00, 0xC000]]


def test_figures(board, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with board.SummaryWriter(tmp_path) as writer:
        figures = [pyplot.figure(figsize=(2, 1), dpi=50) for _ in range(3)]
        writer.add_figure("one", figures[0], 1, close=False)
        writer.add_figure("two", figures[:2], 1)
    assert pyplot.fignum_exists(figures[2].number) and not pyplot.fignum_exists(figures[0].number)
    pyplot.close(figures[2])
    one, two = (event.summary.value[0].image for *_, event in read(tmp_path))
    assert (one.width, one.height, two.width, two.height) == (100, 50, 200, 50)


def test_boxes_in_larger_pictures(torch, board, oracle, tmp_path, beyond_pytorch):
    """The same pixels; PyTorch notes the size from before."""
    grey, boxes = np.linspace(0, 1, 720, dtype=np.float32).reshape(1, 24, 30), np.array([[1, 2, 20, 15]])
    seen = []
    for each, name in ((board, "ours"), (importlib.import_module("torch.utils.tensorboard"), "theirs")):
        with each.SummaryWriter(tmp_path / name) as writer:
            writer.add_image_with_boxes("larger", grey, boxes, 1, rescale=2)
        ((*_, event),) = read(tmp_path / name)
        seen.append(event.summary.value[0].image)
    assert pixels(seen[0]) == pixels(seen[1]) and (seen[0].height, seen[0].width) == (48, 60)


def test_videos_and_labels(torch, board, tmp_path, beyond_pytorch):
    """PyTorch's videos need another library, and its labels another font."""
    from PIL import Image

    films = torch.zeros(2, 3, 1, 4, 6)
    films[0, 1], films[1, 2] = 1, 1
    boxes = torch.tensor([[2, 3, 90, 40]])
    with board.SummaryWriter(tmp_path) as writer:
        writer.add_video("v", films, 1, fps=5)
        for labels in (None, ["seen"]):
            writer.add_image_with_boxes("b", torch.zeros(3, 50, 100), boxes, 1, labels=labels)
    film, bare, labelled = (event.summary.value[0].image for *_, event in read(tmp_path))
    moving = Image.open(__import__("io").BytesIO(film.encoded_image_string))
    assert (film.height, film.width, moving.n_frames, moving.info["duration"]) == (4, 12, 3, 200)
    for frame in range(3):
        moving.seek(frame)
        seen = np.asarray(moving.convert("L")) > 127
        assert (seen[:, :6] == (frame == 1)).all() and (seen[:, 6:] == (frame == 2)).all()
    red = [np.asarray(pixels(image))[..., 0] > 127 for image in (bare, labelled)]
    assert red[0][3, 2:91].all() and red[0][3:41, 90].all() and not red[0][10:30, 10:80].any()
    assert (red[0] <= red[1]).all() and red[1].sum() > red[0].sum()


def test_a_graph(torch, nn, board, tmp_path, beyond_pytorch):
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with board.SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, torch.ones(1, 3))
        with pytest.raises(RuntimeError, match="no graph to draw"):
            writer.add_graph(nn.ReLU(), torch.ones(1))
    ((_, _, kind, event),) = read(tmp_path)
    nodes = {node.name: node for node in GraphDef.FromString(event.graph_def).node}
    assert kind == "graph_def"
    assert {f"parameters/{i}/{name}" for i in (0, 2) for name in ("weight", "bias")} | {"output/0"} < set(nodes)
    assert all(name in nodes for node in nodes.values() for name in node.input)
    assert [d.size for d in nodes["parameters/0/weight"].attr["_output_shapes"].list.shape[0].dim] == [4, 3]
    assert any(node.op.startswith("ReluBackward") for node in nodes.values())


def test_purging_closing_and_names(board, tmp_path, monkeypatch):
    with board.SummaryWriter(tmp_path / "run", purge_step=7) as writer:
        writer.add_scalar("a", 1.0, 7)
        writer.close()
        writer.add_scalar("a", 2.0, 8)                    # opens a file again
        assert writer.get_logdir() == tmp_path / "run"
    assert [(step, kind) for _, step, kind, _ in read(tmp_path / "run")][:2] == [(7, "session_log"), (7, "summary")]
    assert len(read(tmp_path / "run")) == 3
    monkeypatch.chdir(tmp_path)
    board.SummaryWriter(comment="_words").close()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("_words")


def test_bad_input(torch, board, tmp_path):
    with board.SummaryWriter(tmp_path) as writer:
        for call, error in (
            (lambda: writer.add_scalar("a", torch.ones(2)), AssertionError),
            (lambda: writer.add_scalar("a", "words"), (NotImplementedError, ValueError)),
            (lambda: writer.add_histogram("a", torch.ones(0)), ValueError),
            (lambda: writer.add_histogram_raw("a", 0, 1, 1, 1, 1, [1], [1, 2]), ValueError),
            (lambda: writer.add_image("a", torch.ones(2, 2)), AssertionError),
            (lambda: writer.add_image("a", torch.ones(2, 2), dataformats="HH"), AssertionError),
            (lambda: writer.add_audio("a", torch.ones(2, 2)), AssertionError),
            (lambda: writer.add_hparams([], {}), TypeError),
            (lambda: writer.add_hparams({"a": [1]}, {}), ValueError),
            (lambda: writer.add_hparams({"a": 1}, {}, {"a": ["x"]}), TypeError),
            (lambda: writer.add_custom_scalars({"c": {"t": ["Margin", ["a"]]}}), AssertionError),
            (lambda: writer.add_embedding(torch.ones(2)), AssertionError),
            (lambda: writer.add_embedding(torch.ones(2, 2), ["a"]), AssertionError),
            (lambda: writer.add_tensor("a", torch.ones(2, dtype=torch.complex64)), (ValueError, KeyError)),
            (lambda: writer.add_custom_scalars_marginchart(["a"]), AssertionError),
        ):
            with pytest.raises(error):
                call()
    assert read(tmp_path) == []


def test_bad_pictures(torch, board, tmp_path, beyond_pytorch):
    grey = torch.zeros(1, 8, 8)
    with board.SummaryWriter(tmp_path) as writer:
        for call, error, words in (
            (lambda: writer.add_video("a", torch.ones(2, 3, 4, 4)), ValueError, r"\(N, T, 1 or 3, H, W\)"),
            (lambda: writer.add_video("a", torch.ones(1, 2, 3, 4, 4), fps=0), ValueError, "fps"),
            (lambda: writer.add_mesh("a", torch.ones(4, 3)), ValueError, r"\(N, \*, 3\)"),
            (lambda: writer.add_image_with_boxes("a", grey, torch.ones(3)), ValueError, r"\(N, 4\)"),
            (lambda: writer.add_image_with_boxes("a", grey, torch.ones(1, 4), labels=["a", "b"]), ValueError, "labels"),
            (lambda: writer.add_onnx_graph("model.onnx"), NotImplementedError, "add_graph"),
        ):
            with pytest.raises(error, match=words):
                call()
    assert read(tmp_path) == []


def test_fit_writes_its_columns(torch, nn, data, board, tmp_path, beyond_pytorch):
    fit = importlib.import_module(torch.__name__ + ".nn.training").fit
    model = nn.Linear(2, 1)
    loader = data.DataLoader(data.TensorDataset(torch.ones(4, 2), torch.ones(4, 1)), batch_size=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with board.SummaryWriter(tmp_path) as writer:
        history = fit(model, nn.functional.mse_loss, optimizer, loader, epochs=2, validation=loader, writer=writer,
                      progress=False)
    values = [(step, event.summary.value[0]) for _, step, _, event in read(tmp_path)]
    found = [(value.tag, step, value.simple_value) for step, value in values]
    assert [step for tag, step, _ in found if tag == "loss_of_step"] == [1, 2, 3, 4]
    for name in ("lr", "loss", "val_loss"):
        assert [v for tag, _, v in found if tag == name] == pytest.approx([row[name] for row in history], rel=1e-6)
