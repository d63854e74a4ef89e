"""show_storage: which element of which view lies where."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cygrad as torch
from cygrad.tools import show_storage

CHAPTER = """\
storage of 12 float32, 48 bytes
  t: shape (3, 4), stride (4, 1), offset 0, contiguous
  t.t(): shape (4, 3), stride (1, 4), offset 0
  t[::2]: shape (2, 4), stride (8, 1), offset 0
  t[1]: shape (4,), stride (1,), offset 4, contiguous

  slot     0   1   2   3   4   5   6   7   8   9  10  11
  value   0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11.
  t      0,0 0,1 0,2 0,3 1,0 1,1 1,2 1,3 2,0 2,1 2,2 2,3
  t.t()  0,0 1,0 2,0 3,0 0,1 1,1 2,1 3,1 0,2 1,2 2,2 3,2
  t[::2] 0,0 0,1 0,2 0,3   .   .   .   . 1,0 1,1 1,2 1,3
  t[1]     .   .   .   .   0   1   2   3   .   .   .   ."""


def matrix():
    return torch.arange(12, dtype=torch.float32).view(3, 4)


def test_the_figure_of_the_chapter():
    t = matrix()
    picture = show_storage(t, t.t(), t[::2], t[1], names=["t", "t.t()", "t[::2]", "t[1]"])
    assert repr(picture) == picture.to_text() == CHAPTER
    assert repr(show_storage(t, t.t(), t[::2], t[1])) == CHAPTER  # names are as they are written


def named(picture):
    return [row.name for storage in picture.storages for row in storage.tensors]


def test_names_are_what_is_written_in_the_call():
    t, größe = matrix(), matrix()
    assert named(show_storage(größe.t(), t)) == ["größe.t()", "t"]
    assert named(
        show_storage(
            t,
            t.view(4, 3),
        )
    ) == ["t", "t.view(4, 3)"]
    assert named(show_storage(t[0], limit=5)) == ["t[0]"]
    assert len(named(show_storage(t.view(3, 4).view(12).view(4, 3).view(2, 6)))[0]) == 24
    assert named(show_storage(*[t, t.t()])) == ["tensor 0", "tensor 1"]
    assert named(eval("show_storage(t, t)", globals(), {"t": t})) == ["tensor 0", "tensor 1"]
    assert named((lambda *many: show_storage(*many))(t)) == ["tensor 0"]


def test_different_storages_have_different_pictures():
    t = matrix()
    picture = show_storage(t, t.clone(), t[0])
    assert [len(s.tensors) for s in picture.storages] == [2, 1]
    assert named(picture) == ["t", "t[0]", "t.clone()"]


def test_an_expanded_dimension_is_a_star():
    picture = show_storage(torch.arange(3).expand(5, 3))
    assert picture.storages[0].tensors[0].cells == {0: "*,0", 1: "*,1", 2: "*,2"}


def test_further_elements_in_a_slot_are_counted():
    picture = show_storage(torch.arange(4).as_strided((3, 2), (1, 1)))
    assert picture.storages[0].tensors[0].cells == {0: "0,0", 1: "0,1+1", 2: "1,1+1", 3: "2,1"}


@given(st.lists(st.integers(1, 4), max_size=4), st.randoms(use_true_random=False))
def test_each_element_is_found_in_its_slot(shape, rng):
    count = 1
    for n in shape:
        count *= n
    t = torch.arange(count).reshape(shape)
    order = list(range(len(shape)))
    rng.shuffle(order)
    view = t.permute(order) if shape else t
    cells = show_storage(view, limit=1000).storages[0].tensors[0].cells
    assert len(cells) == count
    for slot, text in cells.items():
        index = tuple(int(k) for k in text.split(",")) if shape else ()
        assert view[index].item() == slot


def test_a_large_storage_shows_its_ends():
    picture = show_storage(torch.arange(1000), torch.arange(10)[3:5], limit=10)
    assert list(picture.storages[0].values) == [0, 1, 2, 3, 4, 995, 996, 997, 998, 999]
    assert "|" in picture.to_text()


def test_lines_are_folded_at_80_characters():
    t = torch.arange(200)
    assert max(len(line) for line in show_storage(t, t[::3]).to_text().split("\n")) <= 80


@pytest.mark.parametrize(
    "tensors",
    [
        lambda: (matrix(), matrix().t()),
        lambda: (torch.zeros(()),),
        lambda: (torch.zeros(0, 3),),
        lambda: (torch.arange(48).view(2, 2, 3, 4), torch.arange(6).view(1, 1, 6)[0, :, 2:]),
        lambda: (torch.arange(5000).view(50, 100),),
        lambda: (torch.tensor([True, False]), torch.tensor([1, 2], dtype=torch.uint8)),
    ],
)
def test_svg_is_well_formed(tensors):
    picture = show_storage(*tensors())
    root = ET.fromstring(picture.to_svg())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert picture._repr_svg_() == picture.to_svg()


def test_svg_escapes_names():
    picture = show_storage(matrix(), names=['<b>"&\x00'])
    texts = [t.text for t in ET.fromstring(picture.to_svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert '<b>"&\ufffd' in texts


def test_saving_goes_by_the_suffix(tmp_path):
    picture = show_storage(matrix())
    picture.save(tmp_path / "s.svg")
    picture.save(tmp_path / "s.txt")
    assert (tmp_path / "s.txt").read_text(encoding="utf-8") == picture.to_text() + "\n"
    with pytest.raises(ValueError, match=r"\.svg or \.txt, not '\.pdf'"):
        picture.save(tmp_path / "s.pdf")


def test_recording_tensors_are_only_looked_at():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    show_storage(x, y)
    assert (x._version, y._version, x.grad) == (0, 0, None)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="at least one tensor"):
        show_storage()
    with pytest.raises(TypeError, match="argument 1 is a list"):
        show_storage(torch.ones(1), [1.0])
    with pytest.raises(ValueError, match="more names given for 1 tensors"):
        show_storage(torch.ones(1), names=range(2**62))
    with pytest.raises(ValueError, match="1 names given for 2 tensors"):
        show_storage(torch.ones(1), torch.ones(1), names=["a"])
    with pytest.raises(ValueError, match="at least 2 slots, not 0"):
        show_storage(torch.ones(1), limit=0)
