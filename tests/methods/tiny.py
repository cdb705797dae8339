"""A network and pictures so small that a whole run takes a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from ossl.config import PromptConfig, RecipeConfig, ScheduleConfig
from ossl.data.arrays import ArrayPictures
from ossl.data.batches import Batch, Batches
from ossl.data.store import MemoryPictures, load
from ossl.methods.base import Phase, Scan, Stage
from ossl.methods.openprompt import OpenPrompt
from ossl.models.backbone import Backbone
from ossl.models.parameters import seeded
from ossl.train.distributed import DataScan
from ossl.train.step import train_step

SIZE, WIDTH, CLASSES = 16, 8, 3
RECIPE = RecipeConfig(prompt=PromptConfig(size=2))
SCHEDULE = ScheduleConfig(
    labelled_epochs=3,
    labelled_steps=3,
    pool_epochs=3,
    pool_steps=3,
    outlier_steps=2,
    labelled_batch=6,
    pool_batch=8,
    learning_rate=0.05,
)


def convolutional(seed: int = 0) -> nn.Module:
    """Two convolutions with BatchNorm, folded once frozen like the real ones."""
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )


def linear(seed: int = 0, size: int = SIZE, width: int = 4) -> nn.Module:
    """One layer on all pixels, for references in plain loops."""
    with seeded(seed):
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, width))


def encoder(
    net: nn.Module | None = None, width: int = WIDTH, size: int = SIZE, pretrained: bool = False
) -> Backbone:
    """The tiny encoder E."""
    return Backbone(
        net or convolutional(),
        name="tiny",
        width=width,
        image_size=size,
        mean=(0.5, 0.4, 0.6),
        std=(0.2, 0.3, 0.25),
        pretrained=pretrained,
    )


def pictures(labels: list[int], seed: int = 0, size: int = SIZE) -> MemoryPictures:
    """Noise around a colour of each class's own; -1 is of a fourth colour."""
    generator = torch.Generator().manual_seed(seed)
    colours = torch.tensor([[200, 60, 60], [60, 200, 60], [60, 60, 200], [220, 220, 40]])
    noise = torch.randint(-50, 51, (len(labels), size, size, 3), generator=generator)
    values = (colours[labels][:, None, None] + noise).clamp(0, 255).to(torch.uint8)
    return load(ArrayPictures(values, [max(label, 0) for label in labels], tuple("abc")), size)  # type: ignore[return-value]


def labelled_pictures() -> MemoryPictures:
    """Four of each class."""
    return pictures([0, 1, 2] * 4)


def pool_pictures() -> MemoryPictures:
    """Twenty known, eleven outliers; an odd number, so that two processes cannot halve it."""
    return pictures([0, 1, 2, 0, 1] * 4 + [-1] * 11, seed=1)


def method(
    recipe: RecipeConfig = RECIPE,
    schedule: ScheduleConfig = SCHEDULE,
    *,
    on: Backbone | None = None,
    seed: int = 0,
    **changes: Any,
) -> OpenPrompt:
    """OpenPrompt on the tiny encoder; `changes` are settings of the recipe."""
    return OpenPrompt(on or encoder(), CLASSES, replace(recipe, **changes), schedule, seed)


def scan(labelled: MemoryPictures | None = None, pool: MemoryPictures | None = None) -> Scan:
    """The pass over the tiny pictures."""
    return DataScan(
        labelled or labelled_pictures(), pool or pool_pictures(), Accelerator(cpu=True), 16
    )


def in_stage_two(made: OpenPrompt, passes: Scan | None = None) -> OpenPrompt:
    """The method at stage 2's start."""
    made.enter(made.stages[1])
    made.eval()
    made.begin(made.stages[1], passes or scan())
    return made.train()


def phase_of(made: OpenPrompt, name: str) -> tuple[Stage, Phase]:
    """A phase by its name, with its stage."""
    return next((s, p) for s in made.stages for p in s.phases if p.name == name)


def batch_of(made: OpenPrompt, name: str, seed: int = 0) -> Batch:
    """The first batch of a phase."""
    _, phase = phase_of(made, name)
    choice = made.pool_choice(phase)
    return next(
        Batches(labelled_pictures(), pool_pictures(), phase.plan, [seed], pool_choice=choice)
    )


def take_steps(made: OpenPrompt, name: str, count: int = 1) -> dict[str, Tensor]:
    """The parts of the last of some steps of a phase, as the training loop takes them."""
    stage, phase = phase_of(made, name)
    optimiser = torch.optim.SGD(
        made.trained(phase).values(), lr=phase.learning_rate, momentum=phase.momentum
    )
    parts: dict[str, Tensor] = {}
    for number in range(count):
        parts, finite = train_step(
            made, batch_of(made, name, number), phase, optimiser, Accelerator(cpu=True), stage
        )
        assert finite
    return parts


def snapshot(made: nn.Module) -> dict[str, Tensor]:
    """A copy of everything that would be saved."""
    return {name: value.clone() for name, value in made.state_dict().items()}


def changed(before: dict[str, Tensor], after: nn.Module) -> set[str]:
    """The names of the tensors that are not the same, to the last bit."""
    now = after.state_dict()
    return {name for name, value in before.items() if not torch.equal(value, now[name])}


@dataclass(frozen=True)
class FixedScan:
    """A pass that gives the same features whatever the encoder says."""

    labelled: Tensor
    pool: Tensor

    @property
    def labels(self) -> Tensor:
        """The first picture is of class 0, the second of 1, and so on around."""
        return torch.arange(len(self.labelled)) % CLASSES

    @property
    def pool_count(self) -> int:
        """The number of pictures in the pool."""
        return len(self.pool)

    def labelled_batches(self) -> Iterator[Tensor]:
        """The tiny labelled pictures, for what wants pixels."""
        yield from scan().labelled_batches()

    def mixed_batches(self, count: int) -> Iterator[Tensor]:
        """The tiny pictures of both sides, for what wants pixels."""
        yield from scan().mixed_batches(count)

    def __call__(
        self, which: Literal["labelled", "pool"], encode: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The features of one side."""
        del encode
        return self.labelled if which == "labelled" else self.pool


def fixed_scan(labelled: Tensor, pool: Tensor) -> Scan:
    """A pass that gives these features whatever the encoder says."""

    return FixedScan(labelled, pool)


@contextmanager
def counted_calls(module: nn.Module) -> Iterator[list[Tensor]]:
    """The inputs that a module is called with."""
    seen: list[Tensor] = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()
