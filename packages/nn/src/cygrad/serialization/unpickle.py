"""Reading a checkpoint's pickle without running anything: a machine that knows the opcodes of data only.

The opcodes are those of Python's ``pickletools``. A name (GLOBAL) is looked up in `names.KNOWN` or among the classes
that the user declared safe, never imported; a call (REDUCE) is one of `names.CALLED`.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from typing import Any

from cygrad import Tensor
from cygrad.nn.parameter import Parameter
from cygrad.serialization.names import CALLED, KNOWN, set_attributes

__all__ = ["Refused", "Unpickler", "names_in"]

KEY_PARTS = 1000  # of a key that is a tuple: hashing one that contains itself many times over would never end
CONTAINERS = (str, bytes, bytearray, list, tuple, set, frozenset, dict)
MARK = object()
FIXED = {
    pickle.NONE[0]: None,
    pickle.NEWTRUE[0]: True,
    pickle.NEWFALSE[0]: False,
    pickle.EMPTY_TUPLE[0]: (),
}
# Opcodes that push a number of fixed size, and opcodes that push text or bytes behind their length.
NUMBERS = {
    pickle.BININT[0]: struct.Struct("<i"),
    pickle.BININT1[0]: struct.Struct("<B"),
    pickle.BININT2[0]: struct.Struct("<H"),
    pickle.BINFLOAT[0]: struct.Struct(">d"),
}
ONE, FOUR, EIGHT = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<Q")
RUNS: dict[int, tuple[struct.Struct, Callable]] = {
    pickle.SHORT_BINUNICODE[0]: (ONE, lambda raw: raw.decode("utf-8", "surrogatepass")),
    pickle.BINUNICODE[0]: (FOUR, lambda raw: raw.decode("utf-8", "surrogatepass")),
    pickle.BINUNICODE8[0]: (EIGHT, lambda raw: raw.decode("utf-8", "surrogatepass")),
    pickle.SHORT_BINBYTES[0]: (ONE, bytes),
    pickle.BINBYTES[0]: (FOUR, bytes),
    pickle.BINBYTES8[0]: (EIGHT, bytes),
    pickle.BYTEARRAY8[0]: (EIGHT, bytearray),
    pickle.SHORT_BINSTRING[0]: (ONE, lambda raw: raw.decode("latin1")),
    pickle.BINSTRING[0]: (FOUR, lambda raw: raw.decode("latin1")),
    pickle.LONG1[0]: (ONE, lambda raw: int.from_bytes(raw, "little", signed=True)),
    pickle.LONG4[0]: (FOUR, lambda raw: int.from_bytes(raw, "little", signed=True)),
}
PUTS = {pickle.BINPUT[0]: ONE, pickle.LONG_BINPUT[0]: FOUR}
GETS = {pickle.BINGET[0]: ONE, pickle.LONG_BINGET[0]: FOUR}


def check_key(key: Any) -> Hashable:
    """A key of a dictionary or an element of a set; TypeError for one that is no plain value."""
    waiting, seen = [key], 0
    while waiting:
        part = waiting.pop()
        seen += 1
        if seen > KEY_PARTS:
            raise TypeError(f"a key with more than {KEY_PARTS} parts is not supported")
        if isinstance(part, (tuple, frozenset)):
            waiting += part
    return key


def _check_keys(function: Any, args: tuple) -> None:
    """TypeError if a call would hash something that is no plain value."""
    pairs = function in (dict, OrderedDict, defaultdict)
    if not pairs and function not in (set, frozenset, Counter):
        return
    for arg in args:
        if isinstance(arg, dict) or not isinstance(arg, CONTAINERS):
            continue  # its keys were checked when it was made; a class that makes values is no container
        for item in arg:
            if pairs and not (isinstance(item, (list, tuple)) and len(item) == 2):
                raise TypeError(f"a dictionary is made from pairs, got {type(item).__name__}")
            check_key(item[0] if pairs else item)


class Refused(pickle.UnpicklingError):
    """Carries an error through the pickle machine as it is."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Unpickler:
    """One reading of one pickle.

    Parameters
    ----------
    data : bytes
        The pickle.
    find_storage : callable
        Gives the storage that a persistent id names.
    safe : mapping of (module, name) to object
        Further names that may be used and called: the user trusts them.
    """

    def __init__(self, data: bytes, find_storage: Callable[[tuple], Any], safe: dict[tuple[str, str], Any]) -> None:
        self.data = data
        self.at = 0
        self.find_storage = find_storage
        self.safe = safe
        self.trusted = {id(value) for value in safe.values()}
        # What calls may copy in all: without a limit, a small file could name one large object again and again.
        self.budget = (1 << 20) + 64 * len(data)
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The object; UnpicklingError if the pickle is damaged or names something that is not allowed."""
        try:
            while True:
                code = self._byte()
                if code == pickle.STOP[0]:
                    return self._pop()
                self._step(code)
        except pickle.UnpicklingError:
            raise
        except Exception as error:  # whatever a hostile pickle makes the steps raise
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise pickle.UnpicklingError(f"the pickle is damaged or hostile, at byte {self.at}: {why}") from error

    # ---- bytes
    def _take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise pickle.UnpicklingError(f"the pickle ends too early, after {len(self.data)} bytes")
        self.at += count
        return self.data[self.at - count : self.at]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _number(self, form: struct.Struct) -> Any:
        return form.unpack(self._take(form.size))[0]

    def _line(self) -> str:
        end = self.data.index(b"\n", self.at)
        line = self.data[self.at : end].decode()
        self.at = end + 1
        return line

    def _pop(self) -> Any:
        """The top of the stack, which is to be a value."""
        value = self.stack.pop()
        if value is MARK:
            raise pickle.UnpicklingError(f"a value is missing at byte {self.at - 1}")
        return value

    # ---- steps
    def _step(self, code: int) -> None:
        stack = self.stack
        if code in FIXED:
            stack.append(FIXED[code])
        elif code in NUMBERS:
            stack.append(self._number(NUMBERS[code]))
        elif code in RUNS:
            form, make = RUNS[code]
            stack.append(make(self._take(self._number(form))))
        elif code in PUTS:
            self.memo[self._number(PUTS[code])] = stack[-1]
        elif code in GETS:
            stack.append(self.memo[self._number(GETS[code])])
        elif code == pickle.MARK[0]:
            stack.append(MARK)
        elif code in HANDLERS:
            HANDLERS[code](self)
        else:
            raise pickle.UnpicklingError(f"the opcode {code} at byte {self.at - 1} is not one of a checkpoint's")

    def _since_mark(self) -> list[Any]:
        """What was pushed since the last mark, taken off the stack."""
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not MARK:
            at -= 1
            if at < 0:
                raise pickle.UnpicklingError(f"the mark that byte {self.at - 1} asks for is missing")
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def _memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _header(self) -> None:
        version = self._byte()
        if version > pickle.HIGHEST_PROTOCOL:
            raise pickle.UnpicklingError(f"unsupported pickle protocol: {version}")

    def _empty(self, kind: type) -> None:
        self.stack.append(kind())

    def _tuple(self, count: int) -> None:
        items = self.stack[-count:]
        if len(items) < count or any(item is MARK for item in items):
            raise pickle.UnpicklingError(f"the tuple at byte {self.at - 1} has fewer than {count} items")
        self.stack[-count:] = [tuple(items)]

    def _marked(self, make: Callable) -> None:
        items = self._since_mark()
        self.stack.append(make(items))

    def _append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise TypeError(f"items are appended to a list, not to {type(target).__name__}")
        target.extend(items)

    def _add(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not set:
            raise TypeError(f"elements are added to a set, not to {type(target).__name__}")
        target.update(check_key(item) for item in items)

    def _set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter, defaultdict):
            raise TypeError(f"items are set in a dictionary, not in {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[check_key(key)] = value

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _global(self) -> None:
        module = self._line()
        self.stack.append(self._find(module, self._line()))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise TypeError("a name is text")
        self.stack.append(self._find(module, name))

    def _find(self, module: str, name: str) -> Any:
        for table in (self.safe, KNOWN):
            if (module, name) in table:
                return table[module, name]
        raise pickle.UnpicklingError(
            f"Unsupported global: {module}.{name} was not an allowed global by default. If you trust it, allow it with "
            f"`cygrad.serialization.add_safe_globals([{name}])`; if you trust the whole file, which may then run any "
            "code, load it with `weights_only=False`"
        )

    def _reduce(self) -> None:
        args, function = self._pop(), self._pop()
        if type(args) is not tuple:
            raise TypeError(f"a call has a tuple of arguments, not {type(args).__name__}")
        if id(function) in self.trusted:
            self.stack.append(function(*args))
            return
        if id(function) not in CALLED:
            raise TypeError(f"{getattr(function, '__name__', type(function).__name__)} is not to be called")
        self.budget -= sum(len(arg) for arg in args if isinstance(arg, CONTAINERS))
        if self.budget < 0:
            raise MemoryError("the objects that the pickle makes are many times as large as itself")
        _check_keys(function, args)
        self.stack.append(CALLED[id(function)](*args))

    def _new_object(self) -> None:
        args, kind = self._pop(), self._pop()
        if kind is OrderedDict and args == ():
            self.stack.append(OrderedDict())
        elif id(kind) in self.trusted and isinstance(kind, type):
            self.stack.append(kind.__new__(kind, *args))
        else:
            raise TypeError(f"an object of {getattr(kind, '__name__', type(kind).__name__)} is not to be made")

    def _build(self) -> None:
        state = self._pop()
        target = self.stack[-1]
        if type(target) in (OrderedDict, Tensor, Parameter):
            set_attributes(target, state)
        elif any(type(target) is value for value in self.safe.values()):
            setter = getattr(target, "__setstate__", None)
            if setter is not None:
                setter(state)
            else:
                target.__dict__.update(state)
        else:
            raise TypeError(f"an object of {type(target).__name__} has no state to be set")

    def _persistent(self) -> None:
        key = self._pop()
        if type(key) is not tuple:
            raise TypeError(f"a storage is named by a tuple, not by {type(key).__name__}")
        self.stack.append(self.find_storage(key))

    def _int(self) -> None:
        line = self._line()
        self.stack.append({"00": False, "01": True}.get(line, line) if line in ("00", "01") else int(line))

    def _pop_mark(self) -> None:
        self._since_mark()


HANDLERS: dict[int, Callable[[Unpickler], None]] = {
    pickle.PROTO[0]: Unpickler._header,
    pickle.FRAME[0]: lambda self: self._take(8) and None,
    pickle.MEMOIZE[0]: Unpickler._memoize,
    pickle.POP[0]: lambda self: self._pop() and None,
    pickle.POP_MARK[0]: Unpickler._pop_mark,
    pickle.DUP[0]: lambda self: self.stack.append(self.stack[-1]),
    pickle.INT[0]: Unpickler._int,
    pickle.EMPTY_LIST[0]: lambda self: self._empty(list),
    pickle.EMPTY_DICT[0]: lambda self: self._empty(dict),
    pickle.EMPTY_SET[0]: lambda self: self._empty(set),
    pickle.TUPLE1[0]: lambda self: self._tuple(1),
    pickle.TUPLE2[0]: lambda self: self._tuple(2),
    pickle.TUPLE3[0]: lambda self: self._tuple(3),
    pickle.TUPLE[0]: lambda self: self._marked(tuple),
    pickle.LIST[0]: lambda self: self._marked(list),
    pickle.FROZENSET[0]: lambda self: self._marked(lambda items: frozenset(check_key(item) for item in items)),
    pickle.APPEND[0]: lambda self: self._append([self._pop()]),
    pickle.APPENDS[0]: lambda self: self._append(self._since_mark()),
    pickle.ADDITEMS[0]: lambda self: self._add(self._since_mark()),
    pickle.SETITEM[0]: Unpickler._set_item,
    pickle.SETITEMS[0]: lambda self: self._set_items(self._since_mark()),
    pickle.GLOBAL[0]: Unpickler._global,
    pickle.STACK_GLOBAL[0]: Unpickler._stack_global,
    pickle.REDUCE[0]: Unpickler._reduce,
    pickle.NEWOBJ[0]: Unpickler._new_object,
    pickle.BUILD[0]: Unpickler._build,
    pickle.BINPERSID[0]: Unpickler._persistent,
}


def names_in(data: bytes) -> list[tuple[str, str]]:
    """The names in a pickle, found by following its stack and memo without making anything.

    Raises
    ------
    UnpicklingError
        If the pickle is damaged, or it puts a name together from something that is no text.
    """
    import pickletools

    names: list[tuple[str, str]] = []
    stack: list[Any] = []  # text, MARK, or None for any other object
    memo: dict[int, Any] = {}
    try:
        for opcode, arg, at in pickletools.genops(data):
            if opcode.name in ("GLOBAL", "INST"):
                module, _, name = str(arg).partition(" ")
                names.append((module, name))
            elif opcode.name == "STACK_GLOBAL":
                module, name = stack[-2:]
                if type(module) is not str or type(name) is not str:
                    raise pickle.UnpicklingError(f"the name at byte {at} is put together from objects that are no text")
                names.append((module, name))
            _follow(opcode, arg, stack, memo)
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # whatever a hostile pickle makes the steps raise
        raise pickle.UnpicklingError(f"the pickle is damaged or hostile: {type(error).__name__}: {error}") from error
    return list(dict.fromkeys(names))


def _follow(opcode: Any, arg: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """Do to the stack what an opcode does, as far as text is concerned."""
    import pickletools

    if opcode.name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif "PUT" in opcode.name:
        memo[int(arg)] = stack[-1]
    elif "GET" in opcode.name:
        stack.append(memo[int(arg)])
    elif opcode.name == "DUP":
        stack.append(stack[-1])
    elif opcode.name == "MARK":
        stack.append(MARK)
    elif opcode.name == "POP":
        stack.pop()
    else:
        taken = list(opcode.stack_before)
        if pickletools.markobject in taken:
            while stack.pop() is not MARK:
                pass
            taken = taken[: taken.index(pickletools.markobject)]
        if taken:
            del stack[-len(taken) :]
        text = isinstance(arg, str) and ("UNICODE" in opcode.name or "STRING" in opcode.name)
        stack += [arg if text else None] * len(opcode.stack_after)
