"""``python -m cygrad.storage.opgen show NAME`` prints what every reader of the op table makes of one row."""
import sys

from . import TableError, show
from .parse import TABLE


def shown(name):
    """The kernels of a row, then its recorded operation, and in a checkout also its backward function."""
    from .autograd import show_autograd

    source = TABLE.parents[4] / "autograd" / "src" / "cygrad" / "autograd"  # absent where storage is installed alone
    parts = [show(name), show_autograd(name, source if (source / "_core.pxd").is_file() else None)]
    return "\n".join(part for part in parts if part)


def main(argv):
    if len(argv) != 2 or argv[0] != "show":
        print("usage: python -m cygrad.storage.opgen show NAME", file=sys.stderr)
        return 2
    try:
        print(shown(argv[1]), end="")
    except (KeyError, TableError) as error:
        print(error.args[0], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
