"""The cases of ``cases.py`` for asv: one class a group, one parameter a case."""

from .cases import CASES, GROUPS


def _timed(group):
    cases = {case.name: case for case in CASES if case.group == group}

    class Group:
        __doc__ = GROUPS[group][0]
        params = tuple(cases)
        param_names = ("case",)

        def setup(self, name):
            self.run = cases[name].prepared()
            self.run(1)

        def time_case(self, name):
            self.run(1)

    Group.__name__ = Group.__qualname__ = "".join(word.capitalize() for word in group.replace(",", "").split())
    return Group


globals().update({group.__name__: group for group in map(_timed, GROUPS)})
