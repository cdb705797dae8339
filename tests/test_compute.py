"""Where memory that was freed goes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from ossl.compute import keep_freed_memory

FAULTS = """
import resource, sys, torch
from ossl.compute import keep_freed_memory
assert not len(sys.argv) > 1 or keep_freed_memory(torch.device("cpu"))
def used():
    torch.ones(20_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
used()
before = used()
for _ in range(10):
    after = used()
print(after - before)
"""


def test_a_gpu_has_its_own() -> None:
    assert not keep_freed_memory(torch.device("cuda"))


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has it")
def test_freed_memory_is_used_again() -> None:
    found = [
        int(subprocess.check_output([sys.executable, "-c", FAULTS, *words], text=True))
        for words in ([], ["keep"])
    ]
    assert found[0] > 10_000  # 80 MB anew each time, in pages
    assert found[1] < found[0] / 2
