"""Features and rotations drawn from a seed, for tests that hold for any of them."""

from __future__ import annotations

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

examples = settings(deadline=None, max_examples=25, derandomize=True)

seeds = st.integers(min_value=0, max_value=2**31 - 1)
sizes = st.integers(min_value=1, max_value=12)
dimensions = st.integers(min_value=1, max_value=6)
scales = st.floats(min_value=1e-3, max_value=1e3)


def source(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    """Return float64 features, so that a loop over Python floats can be met to 1e-9."""
    return torch.randn(*shape, generator=source(seed), dtype=torch.float64)


def rotation(size: int, seed: int) -> Tensor:
    """Return an orthogonal matrix [size, size]."""
    orthogonal: Tensor = torch.linalg.qr(normal(size, size, seed=seed)).Q
    return orthogonal


def shuffled(size: int, seed: int) -> Tensor:
    return torch.randperm(size, generator=source(seed))


def close(ours: Tensor | float, theirs: object, tolerance: float = 1e-9) -> None:
    """Fail unless both agree to `tolerance`, relative or absolute."""
    torch.testing.assert_close(
        torch.as_tensor(ours, dtype=torch.float64),
        torch.as_tensor(theirs, dtype=torch.float64),
        rtol=tolerance,
        atol=tolerance,
    )
