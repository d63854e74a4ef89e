"""Time from a running interpreter to an imported library."""


class Import:
    params = ("numpy", "cygrad")
    param_names = ("library",)

    def timeraw_import(self, library):
        return f"import {library}"
