"""Where and how precisely to compute."""

from __future__ import annotations

import ctypes
import sys

import torch
from accelerate import Accelerator

from ossl.config import Device, Precision
from ossl.errors import InputError


def create_accelerator(device: Device = "auto") -> Accelerator:
    """The device and the processes of this run, one or several under torchrun."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this machine has no usable CUDA GPU; take --device cpu.")
    if device == "mps" and not torch.backends.mps.is_available():
        raise InputError("--device mps: this machine has no Apple GPU; take --device cpu.")
    return Accelerator(cpu=device == "cpu")


def compute_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The type of the frozen network's numbers: bf16 where the hardware multiplies it natively."""
    if precision == "fp32":
        return torch.float32
    if precision == "bf16":
        return torch.bfloat16
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(False) else torch.float32
    if device.type == "cpu":
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return torch.bfloat16 if native else torch.float32
    return torch.float32


def keep_freed_memory(device: torch.device) -> bool:
    """Whether memory that a step frees is kept for the next one, from now on in this process.

    glibc gives every large block back to the system and gets it anew, a page at a time: a gradient
    through EfficientNet-Lite0 on a CPU then takes twice as long. The most that is in use at a time
    stays the same. Other systems, and GPUs, have allocators of their own.
    """
    if device.type != "cpu" or sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):  # another C library than glibc
        return False
    largest = 2**31 - 1
    map_from, give_back_from = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
    kept: bool = library.mallopt(map_from, 2**30) == 1
    return library.mallopt(give_back_from, largest) == 1 and kept
