"""A profile as a trace for chrome://tracing and Perfetto, and as a flame graph in a page of its own."""

import html
import json
from importlib.resources import files
from pathlib import Path


def write_trace(profile, path):
    """The Trace Event Format, complete events ("X") and a counter ("C") of the bytes in use."""
    numbers = {}
    found = []
    for event in profile.events:
        thread = numbers.setdefault(event.thread, len(numbers))
        arguments = {"phase": event.phase, "module": event.module}
        if event.kind == "op":
            arguments |= {"shapes": event.shapes, "bytes": event.bytes, "flops": event.flops}
        found.append({"name": event.name, "cat": event.kind, "ph": "X", "pid": 0, "tid": thread,
                      "ts": event.start * 1e6, "dur": event.duration * 1e6, "args": arguments})
        if event.live_bytes is not None:
            found.append({"name": "memory", "ph": "C", "pid": 0, "tid": 0, "ts": (event.start + event.duration) * 1e6,
                          "args": {"bytes": event.live_bytes}})
    found += [{"name": "thread_name", "ph": "M", "pid": 0, "tid": n, "args": {"name": f"thread {n}"}}
              for n in numbers.values()]
    Path(path).write_text(json.dumps({"traceEvents": found, "displayTimeUnit": "ms"}), encoding="utf-8")


def write_flame_graph(profile, path):
    """Stacks that are alike are one box, as wide as the time of all of them.

    What runs backward lies in a box of its own, and in it in the modules whose forward made the nodes.
    """
    root = {"name": "all", "value": profile.seconds, "calls": 1, "parts": {}}
    for event in profile.events:
        if event.parent is None:
            _merge(_backward(root, event) if event.kind == "node" else root, event)
    data = json.dumps(_plain(root)).replace("<", "\\u003c")          # a name cannot end the script
    page = files("cygrad.tools").joinpath("_flame.html").read_text(encoding="utf-8")
    title = html.escape(f"{profile.seconds * 1e3:.1f} ms, {len(profile.events)} events")
    Path(path).write_text(page.replace("{{title}}", title).replace("{{data}}", data), encoding="utf-8")


def _backward(root, event):
    """The box around the backward of a node, now wider by its time."""
    box = root
    parts = event.module.split(".") if event.module else []
    for name in ("backward", *(".".join(parts[: k + 1]) for k in range(len(parts)))):
        new = {"name": name, "kind": "region", "value": 0.0, "calls": 0, "phase": "backward", "parts": {}}
        box = box["parts"].setdefault(name, new)
        box["value"] += event.duration
    return box


def _merge(around, event):
    waiting = [(around, event)]
    while waiting:
        box, event = waiting.pop()
        part = box["parts"].setdefault(event.name, {"name": event.name, "kind": event.kind, "value": 0.0, "calls": 0,
                                                    "phase": event.phase, "parts": {}})
        part["value"] += event.duration
        part["calls"] += 1
        waiting += [(part, child) for child in reversed(event.children)]


def _plain(box):
    """Without the dictionaries; depth is that of nested calls, which Python's stack has held before."""
    parts = [_plain(part) for part in box["parts"].values()]
    return {**{k: v for k, v in box.items() if k != "parts"}, "parts": parts}
