from collections.abc import Mapping

from typing_extensions import Buffer

ISAS: tuple[str, ...]
GROUPS: tuple[str, ...]
POINTWISE: tuple[str, ...]
SINGLE: tuple[str, ...]
CHOSEN: str
KERNELS: Mapping[str, tuple[int, tuple[str, ...], tuple[str, ...], str]]

def choose() -> str: ...
def isa() -> str: ...
def isas_available() -> tuple[str, ...]: ...
def loop_address(name: str, dtype: int, isa: str | None = None) -> int: ...
def module_name(group: str, isa: str) -> str: ...
def run_loop(
    name: str,
    dtype: int,
    out: Buffer,
    inputs: tuple[Buffer, ...],
    attr: tuple[float, ...] = (),
    isa: str | None = None,
) -> None: ...
def table_stamp() -> int: ...
