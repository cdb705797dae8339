"""The EMA teacher: a slow copy of what is trained, and of nothing else."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Ema(nn.Module):
    """θ_t ← m θ_t + (1 − m) θ_s over the parameters of `trained`; buffers are copied as they are.

    `trained` names the parts that learn, such as `{"prompt": prompt, "head": head}`. What is
    frozen is left out of it and shared by student and teacher: it is neither copied nor averaged.
    Where the encoder learns too it is simply one more part. A single module is the part `"module"`.

    `warm_up` uses min(m, (1 + t) / (10 + t)) at update t = 0, 1, …, so that a teacher of a few
    steps is not mostly its start. The copies carry no gradient and stay in evaluation mode.
    """

    updates: Tensor

    def __init__(
        self,
        trained: Mapping[str, nn.Module] | nn.Module,
        decay: float = 0.999,
        *,
        warm_up: bool = False,
    ) -> None:
        super().__init__()
        if not 0.0 <= decay <= 1.0:
            raise ValueError(f"an EMA decay lies between 0 and 1, and {decay} does not")
        parts = {"module": trained} if isinstance(trained, nn.Module) else dict(trained)
        # A plain tuple: registered, the student would be saved with its teacher, and trained twice.
        self._students = tuple(parts.items())
        self.copies = nn.ModuleDict({name: copy.deepcopy(part) for name, part in parts.items()})
        self.copies.requires_grad_(False)
        self.decay = decay
        self.warm_up = warm_up
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.train(False)

    def __getitem__(self, name: str) -> nn.Module:
        """The teacher's copy of the named part."""
        return self.copies[name]

    @property
    def module(self) -> nn.Module:
        """The teacher's copy, where one module was given."""
        return self.copies["module"]

    def current_decay(self) -> float:
        """The decay of the next update."""
        if not self.warm_up:
            return self.decay
        done = int(self.updates)
        return min(self.decay, (1 + done) / (10 + done))

    @torch.no_grad()
    def restart(self) -> None:
        """Nothing; puts the teacher where the student is now."""
        for name, student in self._students:
            self.copies[name].load_state_dict(student.state_dict())
        self.updates.zero_()

    @torch.no_grad()
    def update(self, *names: str) -> None:
        """Nothing; moves the teacher one step towards the student, in the named parts or in all.

        A part that took no step has nothing to be averaged over, so it is left out by its name.
        """
        weight = 1.0 - self.current_decay()
        for name, student in self._students:
            if names and name not in names:
                continue
            teacher = self.copies[name]
            slow: list[Tensor] = list(teacher.parameters())
            fast = [p.to(s.dtype) for s, p in zip(slow, student.parameters(), strict=True)]
            torch._foreach_lerp_(slow, fast, weight)  # one launch on a GPU for a whole network
            if kept := list(teacher.buffers()):
                torch._foreach_copy_(kept, list(student.buffers()))
        self.updates += 1

    def train(self, mode: bool = True) -> Ema:  # noqa: ARG002 - the teacher never trains
        """The teacher, in evaluation mode whatever its parent is put into."""
        return super().train(False)
