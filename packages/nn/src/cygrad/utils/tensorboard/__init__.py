"""Event files that TensorBoard shows: `SummaryWriter`. Needs the library ``tensorboard``, which writes the records."""

from cygrad.storage.parts import require

require("autograd")

try:
    import tensorboard
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "cygrad.utils.tensorboard needs the library tensorboard: pip install tensorboard", name="tensorboard"
    ) from error

from cygrad.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
