"""What the build says where CUDA is asked for and cannot be had, and what a build without it says to programs."""

import importlib.util
from pathlib import Path

import pytest

import cygrad
from cygrad.storage import cuda as devices

RULES = Path(__file__).resolve().parents[2] / "build_support/cygrad_cuda.py"


@pytest.fixture
def rules():
    spec = importlib.util.spec_from_file_location("cygrad_cuda", RULES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_missing_compiler_is_named_in_one_sentence(rules, monkeypatch, tmp_path):
    monkeypatch.setenv("CYGRAD_CUDA", "1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.setattr(rules.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"^CYGRAD_CUDA=1 compiles for CUDA, but nvcc is missing: .*$"):
        rules.compiler()


def test_where_the_compiler_is_looked_for(rules, monkeypatch, tmp_path):
    for name in ("NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for folder in ("path", "home/bin"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "home/bin/nvcc").chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert rules.find_nvcc() == str(tmp_path / "home/bin/nvcc")
    (tmp_path / "path/nvcc").chmod(0o755)
    assert rules.find_nvcc() == str(tmp_path / "path/nvcc")
    monkeypatch.setenv("NVCC", "/opt/nvcc")
    assert rules.find_nvcc() == "/opt/nvcc"


def test_a_toolkit_without_the_static_run_time_is_named(rules, monkeypatch, tmp_path):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho '#$ TOP={tmp_path}' >&2\n")
    nvcc.chmod(0o755)
    with pytest.raises(SystemExit, match="libcudart_static"):
        rules.library_folder(str(nvcc))
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64/libcudart_static.a").write_text("")
    assert rules.library_folder(str(nvcc)) == (tmp_path / "lib64").resolve()


@pytest.mark.parametrize(("word", "meaning"), [("", "0"), ("0", "0"), ("1", "1"), (" HOST ", "host")])
def test_the_words_for_what_is_wanted(rules, monkeypatch, word, meaning):
    monkeypatch.setenv("CYGRAD_CUDA", word)
    assert rules.mode() == meaning


def test_another_word_is_refused(rules, monkeypatch):
    monkeypatch.setenv("CYGRAD_CUDA", "yes")
    with pytest.raises(SystemExit, match=r"1 .*host.*0"):
        rules.mode()


def test_objects_are_compiled_again_when_their_text_changes(rules, monkeypatch, tmp_path):
    monkeypatch.setenv("CYGRAD_CUDA", "host")
    if rules.shutil.which(rules.compiler()[0]) is None:
        pytest.skip("no C++ compiler")
    source, build = tmp_path / "src", tmp_path / "build"
    source.mkdir()
    build.mkdir()
    (source / "a.cu").write_text('#include "a.cuh"\nint f() { return ONE; }\n')
    (source / "a.cuh").write_text("#define ONE 1\n")
    made = [Path(p) for p in rules.objects(source, build, build, 1)]
    first = made[0].stat().st_mtime_ns
    assert [p.name for p in made] == ["a.o"]
    rules.objects(source, build, build, 1)
    assert made[0].stat().st_mtime_ns == first
    (source / "a.cuh").write_text("#define ONE 2\n")
    rules.objects(source, build, build, 1)
    assert made[0].stat().st_mtime_ns > first


def test_a_build_without_cuda_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(devices, "extension", lambda: None)
    assert not cygrad.cuda.is_available() and cygrad.cuda.device_count() == 0
    for call in (lambda: cygrad.ones(1).to("cuda"), lambda: cygrad.zeros(1, device="cuda:0"),
                 lambda: cygrad.Generator("cuda")):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"no device 'cuda.*CYGRAD_CUDA=1"):
            call()
    with pytest.raises(RuntimeError, match=r"no CUDA device is available.*CYGRAD_CUDA=1"):
        cygrad.cuda.Stream()
    with pytest.raises(RuntimeError, match="accelerator"):
        cygrad.ones(1).pin_memory()
    assert cygrad.ones(1).get_device() == -1 and not cygrad.ones(1).is_pinned()
