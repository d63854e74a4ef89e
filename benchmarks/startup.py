"""Time from a running interpreter to an imported library."""


class Import:
    params = ("numpy", "cygrad")
    param_names = ("library",)
    number = 1  # a second import in the same process would cost nothing
    repeat = 10
    warmup_time = 0

    def timeraw_import(self, library):
        return f"import {library}"
