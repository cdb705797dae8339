"""Views of a picture: what each is, their mean, and what of them is remembered."""

from __future__ import annotations

import pytest
import torch

from ossl.errors import InputError
from ossl.models.frozen import freeze
from ossl.models.memory import FeatureMemory
from ossl.models.prompt import VisualPrompt
from ossl.models.views import VIEWS, allowed_views, mean_of, view_features
from tests.methods import tiny

FROZEN = freeze(tiny.encoder())
PROMPT = VisualPrompt(tiny.SIZE, 2, seed=3)
PICTURES = tiny.pool_pictures().data


@pytest.mark.parametrize("view", VIEWS)
@torch.no_grad()
def test_a_view_is_what_it_is_called(view: str) -> None:
    seen = PICTURES.flip(3) if "mirrored" in view else PICTURES
    x = FROZEN.normalise(seen)
    expected = FROZEN(PROMPT(x) if view.startswith("prompted") else x)
    assert torch.equal(view_features(FROZEN, PROMPT, PICTURES, view), expected)  # type: ignore[arg-type]


def test_the_views_of_a_picture_are_four_different_ones() -> None:
    with torch.no_grad():
        made = [view_features(FROZEN, PROMPT, PICTURES, view) for view in VIEWS]
    for place, one in enumerate(made):
        assert not any(torch.allclose(one, other) for other in made[:place])
    torch.testing.assert_close(mean_of(made), torch.stack(made).mean(dim=0))
    assert mean_of(made[:1]) is made[0]


def test_mirrored_ones_go_where_nothing_may_be_mirrored() -> None:
    assert allowed_views(("prompted", "mirrored", "bare", "bare"), True) == VIEWS[:3]
    assert allowed_views(VIEWS, False) == ("bare", "prompted")
    with pytest.raises(InputError, match=r"schedule\.flip is false"):
        allowed_views(("mirrored",), False)


@torch.no_grad()
def test_what_is_remembered() -> None:
    memory = FeatureMemory()
    count = len(PICTURES)

    def look(view: str, prompt: VisualPrompt = PROMPT, settled: bool = True) -> torch.Tensor:
        return view_features(FROZEN, prompt, PICTURES, view, memory, settled=settled)  # type: ignore[arg-type]

    first = {view: look(view) for view in VIEWS}
    assert memory.counts == (0, 4 * count)
    assert all(torch.equal(look(view), first[view]) for view in VIEWS)
    assert memory.counts == (4 * count, 4 * count)
    # Another prompt is another thing to remember; one that still learns is not remembered.
    other = VisualPrompt(tiny.SIZE, 2, seed=4)
    assert not torch.equal(look("prompted", other), first["prompted"])
    assert memory.counts == (4 * count, 5 * count)
    assert torch.equal(look("prompted", settled=False), first["prompted"])
    assert memory.counts == (4 * count, 5 * count)
    # A prompt without pixels changes nothing: it is the bare view.
    nothing = VisualPrompt(tiny.SIZE, 0)
    assert torch.equal(look("prompted", nothing, settled=False), first["bare"])
    assert memory.counts == (5 * count, 5 * count)


@torch.no_grad()
def test_a_tuned_prompts_features_outlast_the_run(tmp_path) -> None:  # type: ignore[no-untyped-def]
    kept = []
    for _ in range(2):
        with FeatureMemory(tmp_path) as memory:
            kept.append(view_features(FROZEN, PROMPT, PICTURES, "prompted", memory, settled=True))
    assert memory.counts == (len(PICTURES), 0)
    assert torch.equal(*kept)
