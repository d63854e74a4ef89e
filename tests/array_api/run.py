"""Run the test suite of the Python array API standard, which is no part of this repository, on `cygrad.array_api`.

    python tests/array_api/run.py FOLDER [pytest options]

FOLDER is where the suite lies; what is not there yet is cloned from GitHub. Nothing is skipped. A test that fails is
allowed to only if ``docs/array_api.md`` lists it with a reason, as a line that begins with "- `file.py::test`: ".
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

SUITE = "https://github.com/data-apis/array-api-tests"
COMMIT = "55fcc60"                      # of 2026-04
SPECIFICATION = "https://github.com/data-apis/array-api"
LISTED = Path(__file__).parents[2] / "docs" / "array_api.md"


def clone(folder):
    """Get the suite and the standard's signatures that it reads, where they are missing."""
    for url, place, commit in ((SUITE, folder, COMMIT), (SPECIFICATION, folder / "array-api", None)):
        if place.is_dir() and any(place.iterdir()):
            continue
        done = subprocess.run(["git", "clone", "--quiet", url, str(place)])
        if done.returncode == 0 and commit:
            done = subprocess.run(["git", "-C", str(place), "checkout", "--quiet", commit])
        if done.returncode:
            sys.exit(f"{url} could not be cloned into {place}: the suite comes from GitHub. On a machine without "
                     f"network put a clone of it there by other means, with one of {SPECIFICATION} in its folder "
                     "array-api.")


def run(folder, options):
    """The names of the tests that failed, and how many there were."""
    env = os.environ | {"ARRAY_API_TESTS_MODULE": "cygrad.array_api", "ARRAY_API_TESTS_VERSION": "2024.12",
                        "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryDirectory() as place:
        results = Path(place, "results.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=short", "-p", "no:cacheprovider",
                   f"--junitxml={results}", "array_api_tests", *options]
        code = subprocess.run(command, cwd=folder, env=env).returncode
        if code not in (0, 1):
            sys.exit(f"the suite ended with code {code}")
        cases = list(ElementTree.parse(results).iter("testcase"))
    failed = set()
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            _, module, *classes = case.get("classname").split(".")
            failed.add("::".join([f"{module}.py", *classes, case.get("name")]))
    return failed, len(cases)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    clone(folder)
    failed, count = run(folder, sys.argv[2:])
    listed = set(re.findall(r"^- `(.+?::.+)`: ", LISTED.read_text(), re.MULTILINE))
    print(f"\n{count} tests, {len(failed)} failed, of which {len(failed & listed)} are listed in docs/array_api.md")
    for name in sorted(failed - listed):
        print(f"not listed: {name}")
    if len(sys.argv) == 2:
        for name in sorted(listed - failed):
            print(f"listed, but passes: {name}")
    sys.exit(bool(failed - listed))


if __name__ == "__main__":
    main()
