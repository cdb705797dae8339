"""A line for every finished run, whatever happened to the line before."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from ossl.config import BackboneConfig, DigitsData, RunConfig
from ossl.errors import InputError
from ossl.reproduce.results import Result, append_result, read_results, run_hash
from ossl.versions import installed

RESULT = Result(
    table="tiny",
    cell="a",
    seed=0,
    profile="desk",
    run_hash="x",
    ossl="1",
    torch="2",
    seconds=3.5,
    resumed=False,
    features_remembered=None,
    shortfall="pool=19k of 50k",
    metrics={"auroc": 0.9, "data": "größe\u2028"},
)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert read_results(path) == ([], 0)
    others = [RESULT, replace(RESULT, seed=1)]
    for result in others:
        append_result(path, result)
    assert read_results(path) == (others, 0)
    assert len(path.read_bytes().splitlines()) == 2


def test_a_line_that_was_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append_result(path, RESULT)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert read_results(path) == ([RESULT], 1)
    append_result(path, RESULT)
    path.write_bytes(path.read_bytes() + b'{"table": 1}\n\n[]\n')
    assert read_results(path) == ([RESULT, RESULT], 3)


def test_a_place_that_takes_no_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        append_result(tmp_path, RESULT)
    with pytest.raises(InputError, match="cannot be read"):
        read_results(tmp_path)


def test_the_hash_is_of_all_that_decides_a_run() -> None:
    config = RunConfig(data=DigitsData())
    hashes = [
        run_hash(config, (), None),
        run_hash(replace(config, seed=1), (), None),
        run_hash(replace(config, backbone=BackboneConfig(image_size=64)), (), None),
        run_hash(config, ("svhn",), None),
        run_hash(config, (), Path("truth.csv")),
    ]
    assert len(set(hashes)) == len(hashes)
    assert hashes[0] == run_hash(RunConfig(data=DigitsData()), (), None)


def test_a_run_from_the_source_has_a_version_too() -> None:
    assert installed("torch") == version("torch")
    assert installed("no-such-package-at-all") == "from source"
