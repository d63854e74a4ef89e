"""``python -m cygrad.storage.opgen show NAME`` prints the generated text of one row of the op table."""
import sys

from . import TableError, show


def main(argv):
    if len(argv) != 2 or argv[0] != "show":
        print("usage: python -m cygrad.storage.opgen show NAME", file=sys.stderr)
        return 2
    try:
        print(show(argv[1]), end="")
    except (KeyError, TableError) as error:
        print(error.args[0], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
