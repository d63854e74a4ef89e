"""The version, as torch.version; back ends that are not there have None."""

hip = xpu = git_version = None
debug = False


def __getattr__(name):
    if name == "__version__":           # read from the installed distribution
        import cygrad

        return cygrad.__version__
    if name == "cuda":                  # the version of CUDA that cygrad-storage was built with, as "13.0"
        from cygrad.storage.cuda import extension

        number = getattr(extension(), "VERSION", 0)
        return f"{number // 1000}.{number % 1000 // 10}" if number else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
