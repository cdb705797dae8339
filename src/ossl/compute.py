"""Where and how precisely to compute."""

from __future__ import annotations

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
