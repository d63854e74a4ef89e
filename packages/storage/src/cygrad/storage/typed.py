"""TypedStorage: a storage read as numbers of one type."""

from .array import Array
from .core import Storage, device, dtype


class TypedStorage:
    """A storage read as a one-dimensional run of numbers of one type.

    Parameters
    ----------
    storage : Storage
        Memory, shared.
    dtype : dtype
        How its bytes are read. Bytes left over at the end belong to no element.
    """

    __slots__ = ("_array", "_storage", "dtype")
    __module__ = "cygrad.storage"

    def __init__(self, storage: Storage, dtype: dtype) -> None:
        self._array = Array.over(storage, dtype)
        self._storage = storage
        self.dtype = dtype

    @property
    def device(self) -> device:
        """Where the memory lies."""
        return self._storage.device

    def untyped(self) -> Storage:
        """The same memory, counted in bytes."""
        return self._storage

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._storage.data_ptr()

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._storage.nbytes()

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """Number of elements."""
        return len(self)

    def tolist(self) -> list[float]:
        """The elements as Python numbers."""
        values: list[float] = self._array.tolist()
        return values

    def fill_(self, value: float) -> "TypedStorage":
        """Overwrite all elements with one number."""
        self._array.fill_(value)
        return self

    def __len__(self) -> int:
        return len(self._array)

    def _at(self, index: int) -> Array:
        if isinstance(index, slice) or not hasattr(index, "__index__"):
            raise RuntimeError(f"a typed storage is indexed with an int, not with {index!r}; slice its tensor instead")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for a storage of size {len(self)}")
        return self._array.select(0, index)

    def __getitem__(self, index: int) -> float:
        return self._at(index).item()

    def __setitem__(self, index: int, value: float) -> None:
        self._at(index).fill_(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._storage is other._storage and self.dtype is other.dtype

    def __hash__(self) -> int:
        return hash((id(self._storage), self.dtype))

    def __repr__(self) -> str:
        values = "".join(f" {v}\n" for v in self.tolist())
        return f"{values}[torch.storage.TypedStorage(dtype={self.dtype!r}, device={self.device}) of size {len(self)}]"
