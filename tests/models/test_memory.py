"""A remembered feature is the one the encoder gave; what is spoilt on disk is only forgotten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ossl.config import PromptConfig, RecipeConfig
from ossl.errors import InputError
from ossl.methods.openprompt import OpenPrompt
from ossl.models import memory as memory_module
from ossl.models.frozen import FrozenBackbone, freeze
from ossl.models.memory import FeatureMemory, namespace, picture_keys
from tests.methods import tiny

FROZEN = RecipeConfig(
    prompt=PromptConfig(size=0),
    contrast=False,
    train_encoder="auto",
    detector="evidence",
    head="closed_form",
)


def net(seed: int = 0, size: int = tiny.SIZE) -> FrozenBackbone:
    """A frozen tiny encoder."""
    return freeze(tiny.encoder(tiny.convolutional(seed), size=size))


class Encode:
    """What an encoder says, and how many pictures it was asked for at a time."""

    def __init__(self, of: FrozenBackbone) -> None:
        self.of = of
        self.asked: list[int] = []

    def __call__(self, pictures: Tensor) -> Tensor:
        self.asked.append(len(pictures))
        with torch.no_grad():
            features: Tensor = self.of(self.of.normalise(pictures))
        return features


def some(*places: int) -> Tensor:
    """Some of the tiny pool's pictures."""
    return tiny.pool_pictures().take(list(places))


def folder_of(root: Path) -> Path:
    (folder,) = root.iterdir()
    return folder


def test_only_what_is_missing_goes_through_the_network() -> None:
    encoder = net()
    encode, memory = Encode(encoder), FeatureMemory()
    first = memory.features(encoder, some(0, 1, 2), encode)
    assert torch.equal(first, Encode(encoder)(some(0, 1, 2)))  # a whole batch as without it
    mixed = memory.features(encoder, some(2, 5, 0, 5), encode)
    assert encode.asked == [3, 1]  # and a picture that comes twice is one picture
    assert torch.equal(mixed[[0, 2]], first[[2, 0]])
    torch.testing.assert_close(mixed[1:4:2], Encode(encoder)(some(5, 5)))
    assert memory.counts == (3, 4)
    assert mixed.dtype == torch.float32


def test_the_next_run_remembers(tmp_path: Path) -> None:
    encoder, said = net(), list[str]()
    with FeatureMemory(tmp_path / "cache", said.append) as memory:
        first = memory.features(encoder, some(0, 1), Encode(encoder))
    assert said == [f"0 features remembered, 2 worked out ({tmp_path / 'cache'})"]
    with FeatureMemory(tmp_path / "cache", said.append) as memory:
        encode = Encode(net())  # built anew: the same weights are the same encoder
        again = memory.features(encode.of, some(1, 0, 4), encode)
    assert encode.asked == [1]
    assert torch.equal(again[:2], first[[1, 0]])
    assert said[1].startswith("2 features remembered, 1 worked out")
    shards = sorted(folder_of(tmp_path / "cache").iterdir())
    assert len(shards) == 2  # one a run
    with FeatureMemory(tmp_path / "cache") as memory:
        memory.features(encoder, some(0, 1, 4), Encode(encoder))
    assert sorted(folder_of(tmp_path / "cache").iterdir()) == shards  # nothing new, no shard


def test_everything_that_decides_a_feature_is_in_its_place() -> None:
    whole = tiny.encoder(tiny.convolutional(0))
    other_mean = tiny.encoder(tiny.convolutional(0))
    other_mean.mean += 0.1
    named = tiny.encoder(tiny.convolutional(0))
    named.name = "hf-hub:someone/net"
    names = [
        namespace(frozen)
        for frozen in (
            net(0),
            net(1),
            net(0, size=24),
            freeze(whole, dtype=torch.bfloat16),
            freeze(other_mean),
            freeze(named),
        )
    ]
    assert len(set(names)) == len(names)
    assert names[0] == namespace(freeze(whole))
    assert names[0].startswith("tiny-16-float32-")
    assert names[5].startswith("hf-hub_someone_net-16-")
    memory, encoders = FeatureMemory(), [net(0), net(1)]
    made = [memory.features(encoder, some(0), Encode(encoder)) for encoder in encoders]
    assert not torch.equal(*made)


def test_a_key_is_of_the_pictures_bytes_alone() -> None:
    keys = picture_keys(some(0, 1, 0))
    assert keys[0] == keys[2] != keys[1]
    assert {len(key) for key in keys} == {16}
    # However they lie in memory.
    odd = some(0, 1).to(memory_format=torch.channels_last)
    assert picture_keys(odd) == keys[:2]
    with pytest.raises(ValueError, match="uint8"):
        picture_keys(some(0).float())


def test_a_crash_loses_no_more_than_a_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "SHARD_ROWS", 2)
    encoder = net()
    memory = FeatureMemory(tmp_path / "cache")
    memory.features(encoder, some(0, 1), Encode(encoder))
    memory.features(encoder, some(2), Encode(encoder))  # never flushed
    again = FeatureMemory(tmp_path / "cache")
    encode = Encode(encoder)
    again.features(encoder, some(0, 1, 2), encode)
    assert encode.asked == [1]
    with pytest.raises(KeyboardInterrupt), FeatureMemory(tmp_path / "cache") as stopped:
        stopped.features(encoder, some(6), Encode(encoder))
        raise KeyboardInterrupt
    again = FeatureMemory(tmp_path / "cache")
    again.features(encoder, some(6), encode)
    assert encode.asked == [1]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _foreign(path: Path) -> None:
    save_file({"weight": torch.ones(2)}, path)


def _of_another(path: Path) -> None:
    keys = torch.zeros(1, 16, dtype=torch.uint8)
    save_file({"keys": keys, "features": torch.ones(1, tiny.WIDTH)}, path, {"about": "other"})


def _misshapen(path: Path) -> None:
    about = {"about": f"{memory_module.FORMAT} {path.parent.name}"}
    keys = torch.zeros(1, 16, dtype=torch.uint8)
    save_file({"keys": keys, "features": torch.ones(2, tiny.WIDTH)}, path, about)


@pytest.mark.parametrize("spoil", [_cut, _empty, _foreign, _of_another, _misshapen])
def test_a_spoilt_shard_is_one_line(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    encoder, said = net(), list[str]()
    with FeatureMemory(tmp_path) as memory:
        first = memory.features(encoder, some(0, 1), Encode(encoder))
    (shard,) = folder_of(tmp_path).iterdir()
    spoil(shard)
    (folder_of(tmp_path) / "notes.txt").write_text("mine")
    memory = FeatureMemory(tmp_path, said.append)
    encode = Encode(encoder)
    assert torch.equal(memory.features(encoder, some(0, 1), encode), first)
    assert encode.asked == [2]
    assert len(said) == 1
    assert said[0].startswith(f"cache {tmp_path}: 1 file ignored ({shard.name}: ")
    memory.flush()  # the same features have the same name: the shard is mended
    assert torch.equal(FeatureMemory(tmp_path).features(encoder, some(0, 1), encode), first)
    assert encode.asked == [2]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(InputError, match=r"--cache .*is a file"):
        FeatureMemory(tmp_path / "file")
    encoder, said = net(), list[str]()
    with FeatureMemory(tmp_path / "cache", said.append) as memory:
        memory.features(encoder, some(0), Encode(encoder))
        (tmp_path / "cache").write_text("in the way")
    assert "cannot write" in said[0]  # and the run goes on


# --- in the method --------------------------------------------------------------------------------


def made_with(memory: FeatureMemory | None, recipe: RecipeConfig = FROZEN) -> OpenPrompt:
    """A method fitted on the tiny pictures."""
    made = tiny.method(recipe, on=tiny.encoder(pretrained=True))
    if memory is not None:
        made.remember(memory)
    return tiny.in_stage_two(made).eval()


def test_a_run_with_a_memory_is_the_run_without(tmp_path: Path) -> None:
    data = tiny.pool_pictures().data
    plain = made_with(None)
    expected, simple = plain.predict_with_simple(data)
    for remembered, computed in ((31, 43), (74, 0)):
        with FeatureMemory(tmp_path) as memory:
            made = made_with(memory)
            said, scores = made.predict_with_simple(data)
        assert memory.counts == (remembered, computed)  # 12 labelled and 31 of the pool, once
        assert made.joint_space().keys() == plain.joint_space().keys()
        for name, tensor in plain.joint_space().items():
            assert torch.equal(made.joint_space()[name], tensor), name
        torch.testing.assert_close(said.outlier_score, expected.outlier_score)
        assert all(torch.allclose(scores[name], simple[name], atol=1e-5) for name in simple)


def test_what_changes_is_not_remembered() -> None:
    memory = FeatureMemory()
    made_with(memory, tiny.RECIPE).predict(some(0))  # a prompt learns
    assert memory.counts == (0, 0)
    made = made_with(memory)
    before = memory.counts
    made.train()
    made.features(some(0), made.prompt)  # a view of a training step is drawn once and never again
    assert memory.counts == before
    fresh = tiny.method(FROZEN)  # from scratch: stage 1 trains the encoder
    fresh.remember(memory)
    fresh.enter(fresh.stages[0])
    fresh.eval()
    fresh.features(some(0), fresh.prompt)
    assert memory.counts == before
