"""What each of two processes checks: normalisation, gradients and the scan, against one process.

Run by `tests/train/test_processes.py` under torchrun; not a test by itself.
"""

from __future__ import annotations

import copy
import os

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.testing import assert_close

from ossl.models.backbone import create_backbone
from ossl.train.distributed import (
    DataScan,
    SyncedBatchNorm2d,
    SyncedBatchNormAct2d,
    mean_over_processes,
    sync_batch_norms,
    sync_gradients,
)
from tests.methods import tiny


def normalisation(rank: int) -> None:
    """Forward, backward and running statistics are BatchNorm's on the concatenated batch."""
    generator = torch.Generator().manual_seed(1)
    whole = 30 + torch.randn(6, 5, 4, 3, generator=generator)  # far from zero: cancellation shows
    whole[:, 2] = 100.0  # a dead channel
    weight = torch.randn(6, 5, 4, 3, generator=generator)
    mine = slice(3 * rank, 3 * rank + 3)
    for momentum in (0.1, None):
        plain = nn.BatchNorm2d(5, momentum=momentum)
        nn.init.normal_(plain.weight, generator=generator)
        synced = nn.Sequential(copy.deepcopy(plain))
        assert sync_batch_norms(synced) == []
        assert isinstance(synced[0], SyncedBatchNorm2d)
        for _ in range(3):
            x, y = whole.clone().requires_grad_(), whole[mine].clone().requires_grad_()
            expected, out = plain(x), synced(y)
            assert_close(out, expected[mine], rtol=1e-4, atol=1e-4)
            plain.zero_grad()
            synced.zero_grad()
            torch.autograd.backward((expected * weight).sin().mean())
            loss = (out * weight[mine]).sin().mean()
            torch.autograd.backward(loss)
            assert x.grad is not None
            assert y.grad is not None
            # A local mean weighs twice what the same picture weighs in the mean of the whole.
            assert_close(y.grad / 2, x.grad[mine], rtol=1e-3, atol=1e-5)
            average = sync_gradients(list(synced.parameters()), loss, 2)
            assert_close(average, (expected * weight).sin().mean().detach())
            for ours, theirs in zip(synced.parameters(), plain.parameters(), strict=True):
                assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
        for name, buffer in plain.named_buffers():
            assert_close(synced.state_dict()[f"0.{name}"], buffer, rtol=1e-5, atol=1e-5)
        assert_close(synced.eval()(whole), plain.eval()(whole))


def network(rank: int) -> None:
    """timm's layers, which fuse an activation into the normalisation, are synced as well."""
    plain = create_backbone("lite0", image_size=32, pretrained=False)
    synced = copy.deepcopy(plain)
    assert sync_batch_norms(synced) == []
    assert any(isinstance(layer, SyncedBatchNormAct2d) for layer in synced.modules())
    pictures = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    mine = slice(4 * rank, 4 * rank + 4)
    assert_close(synced(pictures[mine]), plain(pictures)[mine], rtol=1e-3, atol=1e-3)
    assert_close(synced.state_dict(), plain.state_dict(), rtol=1e-3, atol=1e-4)
    assert_close(synced.eval()(pictures), plain.eval()(pictures), rtol=1e-3, atol=1e-3)


def scans(accelerator: Accelerator) -> None:
    """Every process gets all features, in order, of a count that does not divide."""
    pool = tiny.pool_pictures()
    seen = 0

    def encode(pictures: Tensor) -> Tensor:
        nonlocal seen
        seen += len(pictures)
        return pictures.float().mean(dim=(2, 3))

    found = DataScan(tiny.labelled_pictures(), pool, accelerator, 5)("pool", encode)
    assert_close(found, pool.data.float().mean(dim=(2, 3)))
    assert found.device.type == accelerator.device.type
    assert seen == 16  # of 31, and one to fill up
    batches = list(DataScan(pool, pool, accelerator, 12).labelled_batches())
    assert_close(torch.cat(batches), pool.data)  # all of them in every process
    assert [len(batch) for batch in batches] == [11, 11, 9]


def main() -> None:
    """Compare, and say so."""
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    rank = accelerator.process_index
    normalisation(rank)
    network(rank)
    scans(accelerator)
    assert mean_over_processes(torch.tensor(float(rank)), 2) == 0.5
    print("same", flush=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()
    # All is compared and said. Leaving by Python's own way has now and then aborted in the
    # destructors of gloo's threads ("terminate called without an active exception").
    os._exit(0)


if __name__ == "__main__":
    main()
