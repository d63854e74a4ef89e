"""The version, as torch.version; back ends that are not there have None."""

cuda = hip = xpu = git_version = None
debug = False


def __getattr__(name):
    if name == "__version__":           # read from the installed distribution
        import cygrad

        return cygrad.__version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
