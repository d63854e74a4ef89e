"""`SummaryWriter`: PyTorch's, on the event files of the library tensorboard."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from cygrad.utils.tensorboard import summaries
from cygrad.utils.tensorboard.graphs import graph_of

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to one file of a folder, in a thread of its own.

    Parameters
    ----------
    log_dir : path
        Made if it does not exist.
    max_queue : int
        So many events wait at most to be written.
    flush_secs : int
        Seconds after which they are written anyway.
    filename_suffix : str
    """

    def __init__(
        self, log_dir: str | os.PathLike, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Event, step: Any = None, walltime: float | None = None) -> None:
        """Add an event, with its step and time (now by default)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Summary, global_step: Any = None, walltime: float | None = None) -> None:
        """Add a summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Wait until all is written."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes what TensorBoard shows: ``tensorboard --logdir runs``.

    Every ``add_`` method takes a tag, under which the values are shown, and ``global_step``, their place on the axis;
    ``walltime`` is the time in seconds, now by default. Tensors, NumPy arrays and numbers are taken.

    Parameters
    ----------
    log_dir : path, optional
        Folder of this run; by default one in ``runs`` with time, host and `comment` in its name.
    comment : str
    purge_step : int, optional
        A run that goes on from a checkpoint: events of this step and later that are in the folder are not shown.
    max_queue, flush_secs, filename_suffix
        See `FileWriter`.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            import socket

            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self._writers: dict[str, FileWriter] = {}
        self._projector = ProjectorConfig()
        self._writer()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _writer(self, below: str = "") -> FileWriter:
        """The writer of the run's folder, or of one whose path goes on with `below`; opened again after `close`."""
        folder = str(self.log_dir) + below
        writer = self._writers.get(folder)
        if writer is None:
            writer = self._writers[folder] = FileWriter(folder, *self._options)
            if self.purge_step is not None and not below:
                writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                writer.add_event(Event(session_log=SessionLog(status=SessionLog.START)), self.purge_step)
                self.purge_step = None
        return writer

    def get_logdir(self) -> str | os.PathLike:
        """The folder of this run."""
        return self.log_dir

    def flush(self) -> None:
        """Wait until all events are in the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Close the files; adding more opens new ones."""
        for writer in self._writers.values():
            writer.flush()
            writer.close()
        self._writers = {}

    # ---- numbers

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number; with `new_style` as a tensor, of dtype double if asked for."""
        message = summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._writer().add_summary(message, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add numbers that are shown in one chart: name to value. Each name is a run of its own, in a folder beside."""
        walltime = time.time() if walltime is None else walltime
        for name, value in tag_scalar_dict.items():
            message = summaries.scalar(main_tag, value)
            below = "/" + main_tag.replace("/", "_") + "_" + name
            self._writer(below).add_summary(message, global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Add all elements of a tensor."""
        self._writer().add_summary(summaries.tensor(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add how values are distributed.

        Parameters
        ----------
        values : Tensor or array
        bins : str or sequence
            As for ``numpy.histogram``; "tensorflow" has bins that grow by a tenth.
        max_bins : int, optional
            Put bins together until there are about so many.

        Raises
        ------
        ValueError
            There are no values.
        """
        self._writer().add_summary(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a histogram that was counted elsewhere, with right limits of the bins."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        limits, counts = (summaries.array_of(v).reshape(-1).tolist() for v in (bucket_limits, bucket_counts))
        proto = HistogramProto(
            min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=limits, bucket=counts
        )
        self._writer().add_summary(Summary(value=[Summary.Value(tag=tag, histo=proto)]), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add precision and recall of predictions, from 0 to 1, for labels 0 or 1 of the same shape."""
        message = summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._writer().add_summary(message, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a curve of precision and recall that was counted elsewhere: of each, a value for every threshold."""
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        message = summaries.pr_curve_of([*counts, precision, recall], tag, num_thresholds)
        self._writer().add_summary(message, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, Sequence[Any]]]) -> None:
        """Say which scalars are shown together: ``{"category": {"title": ["Multiline", ["tag", "other tag"]]}}``.

        ``["Margin", ["value", "lower", "upper"]]`` shows a value between two others.
        """
        self._writer().add_summary(summaries.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Say that these scalars are shown in one chart; see `add_custom_scalars`."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Say that the first of three scalars is shown between the two others; see `add_custom_scalars`."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Add the settings of a run (numbers, text, bools) and what came of it, for comparing runs.

        Parameters
        ----------
        hparam_dict, metric_dict : dict
            Names to settings, and to results.
        hparam_domain_discrete : dict, optional
            Name to the list of values that a setting may have.
        run_name : str, optional
            Name of the folder below the run's; by default the time.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        choices = {} if hparam_domain_discrete is None else hparam_domain_discrete
        for name, values in choices.items():
            kind = type(hparam_dict.get(name))
            if name not in hparam_dict or not isinstance(values, list) or not all(isinstance(v, kind) for v in values):
                raise TypeError(f"hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]")
        messages = summaries.hparams(hparam_dict, metric_dict, choices)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as run:
            for message in messages:
                run._writer().add_summary(message, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    # ---- pictures, sounds, text

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add an image, of uint8 or of numbers from 0 to 1; `dataformats` names its dimensions (HW: grey)."""
        self._writer().add_summary(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add images side by side; see `add_image`. A list of them is stacked."""
        if isinstance(img_tensor, (list, tuple)):
            img_tensor = summaries.np.stack([summaries.array_of(image) for image in img_tensor])
        self._writer().add_summary(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_image_with_boxes(
        self, tag: str, img_tensor: Any, box_tensor: Any, global_step: Any = None, walltime: float | None = None,
        rescale: float = 1, dataformats: str = "CHW", labels: Sequence[str] | None = None,
    ) -> None:
        """Add an image with boxes drawn into it.

        Parameters
        ----------
        img_tensor : Tensor or array
            See `add_image`.
        box_tensor : Tensor or array, shape (N, 4)
            Left, upper, right and lower edge of each.
        rescale : float
            Factor by which the image, with its boxes, is made larger.
        labels : list of str, optional
            What is written at each box.

        Raises
        ------
        ValueError
            The boxes have another shape, or the labels another number.
        """
        message = summaries.image(tag, img_tensor, dataformats, (box_tensor, labels), rescale)
        self._writer().add_summary(message, global_step, walltime)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Add films of shape (N, T, C, H, W), side by side, as an animated picture with `fps` frames a second."""
        self._writer().add_summary(summaries.video(tag, vid_tensor, fps), global_step, walltime)

    def add_mesh(
        self, tag: str, vertices: Any, colors: Any = None, faces: Any = None,
        config_dict: dict[str, Any] | None = None, global_step: Any = None, walltime: float | None = None,
    ) -> None:
        """Add points in space, or triangles between them.

        Parameters
        ----------
        vertices : Tensor or array, shape (N, V, 3)
        colors : Tensor or array, shape (N, V, 3), optional
            From 0 to 255, one for each point.
        faces : Tensor or array, shape (N, F, 3), optional
            Numbers of the three points of each triangle.
        config_dict : dict, optional
            Cameras, lights and materials, for three.js.
        """
        self._writer().add_summary(summaries.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Add a figure of Matplotlib, or a list of them, which are closed then unless `close` is False."""
        from matplotlib import pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        drawn = []
        for each in figure if isinstance(figure, list) else [figure]:
            canvas = FigureCanvasAgg(each)
            canvas.draw()
            drawn.append(summaries.np.asarray(canvas.buffer_rgba())[:, :, :3])
            if close:
                pyplot.close(each)
        array, order = (summaries.np.stack(drawn), "NHWC") if isinstance(figure, list) else (drawn[0], "HWC")
        self._writer().add_summary(summaries.image(tag, array, order), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Add sound, of shape (1, L) or (L,), with amplitudes from -1 to 1."""
        self._writer().add_summary(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Add text, shown as Markdown."""
        self._writer().add_summary(summaries.text(tag, text_string), global_step, walltime)

    # ---- models

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Add the graph that autograd records when the model is called with `input_to_model`, a tensor or a tuple."""
        event = Event(graph_def=graph_of(model, () if input_to_model is None else input_to_model).SerializeToString())
        if verbose:
            print(event.graph_def)
        self._writer().add_event(event)

    def add_onnx_graph(self, prototxt: Any) -> None:
        """NotImplementedError: `add_graph` draws models."""
        raise NotImplementedError(
            f"add_onnx_graph does not read ONNX files ({prototxt!r}): add_graph(model, input) draws the operations"
        )

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Add points for the projector.

        Parameters
        ----------
        mat : Tensor or array, shape (N, D)
        metadata : list, optional
            A label for each point; with `metadata_header`, the names of columns, a list for each.
        label_img : Tensor or array, shape (N, C, H, W), optional
            A picture for each point.
        """
        from cygrad.utils.tensorboard.embeddings import write_embedding

        step = 0 if global_step is None else global_step
        folder = str(self._writer().get_logdir())
        write_embedding(self._projector, folder, mat, metadata, label_img, step, tag, metadata_header)
