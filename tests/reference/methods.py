"""OpenPrompt's losses by hand: plain loops over plain numbers, on an encoder of one linear layer.

Written from the paper's section 3 and the rows of DESIGN section 2; nothing here imports the
library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.reference import jointspace as slow

Vector = Sequence[float]
Matrix = Sequence[Vector]
Picture = Sequence[Sequence[Vector]]  # [channel][row][column]


@dataclass(frozen=True)
class Model:
    """Everything that a loss depends on beside the pictures; prompts are whole pictures."""

    mean: Vector
    std: Vector
    encoder_weight: Matrix
    encoder_bias: Vector
    head_weight: Matrix
    head_bias: Vector
    prompt: Picture
    teacher_prompt: Picture
    outlier_prompt: Picture
    teacher_outlier_prompt: Picture
    k_ic: Vector
    k_oc: Vector
    limit: float


def linear(weight: Matrix, bias: Vector, x: Vector) -> list[float]:
    outputs = []
    for row, b in zip(weight, bias, strict=True):
        total = b
        for w, value in zip(row, x, strict=True):
            total += w * value
        outputs.append(total)
    return outputs


def feature(model: Model, picture: Picture, prompt: Picture) -> list[float]:
    """f = E((x / 255 − mean) / std + v)."""
    pixels = []
    for channel in range(3):
        for row in range(len(picture[0])):
            for column in range(len(picture[0][0])):
                value = picture[channel][row][column] / 255
                normalised = (value - model.mean[channel]) / model.std[channel]
                pixels.append(normalised + prompt[channel][row][column])
    return linear(model.encoder_weight, model.encoder_bias, pixels)


def probabilities(model: Model, f: Vector) -> list[float]:
    logits = linear(model.head_weight, model.head_bias, f)
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]


def cross_entropy(model: Model, f: Vector, label: int) -> float:
    return -math.log(probabilities(model, f)[label])


def labelled_loss(model: Model, pictures: Sequence[Picture], labels: Sequence[int]) -> float:
    """L_l, row 4."""
    total = 0.0
    for picture, label in zip(pictures, labels, strict=True):
        total += cross_entropy(model, feature(model, picture, model.prompt), label)
    return total / len(pictures)


def is_known(model: Model, f: Vector) -> bool:
    """Rows 7 and 9 with S(f) = f / ‖f‖."""
    return slow.apollonius_ratio(slow.unit(f), model.k_ic, model.k_oc) <= model.limit


def supervised_loss(
    model: Model,
    weak: Sequence[Picture],
    strong: Sequence[Picture],
    pseudo_labels: str,
    threshold: float,
) -> float:
    """L_S, row 11: an outlier or an unsure picture counts as zero, and is counted in the mean."""
    judge = model.teacher_prompt if pseudo_labels == "teacher" else model.prompt
    total = 0.0
    for weakly, strongly in zip(weak, strong, strict=True):
        if not is_known(model, feature(model, weakly, model.teacher_prompt)):
            continue
        said = probabilities(model, feature(model, weakly, judge))
        if max(said) < threshold:
            continue
        pseudo = said.index(max(said))
        total += cross_entropy(model, feature(model, strongly, model.prompt), pseudo)
    return total / len(weak)


def consistency_loss(
    model: Model,
    weak: Sequence[Picture],
    strong: Sequence[Picture],
    form: str,
    student: Picture,
    teacher: Picture,
) -> float:
    """L_C, row 12, in the joint space."""
    f_s = [slow.unit(feature(model, picture, student)) for picture in strong]
    f_t = [slow.unit(feature(model, picture, teacher)) for picture in weak]
    return slow.consistency(f_s, f_t, model.k_ic, model.k_oc, form)


def contrast_loss(model: Model, margin: float) -> float:
    """L_CL, row 13; the pixels without a prompt are zero in both and change no cosine."""
    v = [x for channel in model.prompt for row in channel for x in row]
    v_bar = [x for channel in model.outlier_prompt for row in channel for x in row]
    return slow.prompt_contrast(v, v_bar, margin)


def stage_two_loss(
    model: Model,
    labelled: Sequence[Picture],
    labels: Sequence[int],
    weak: Sequence[Picture],
    strong: Sequence[Picture],
    *,
    pseudo_labels: str,
    threshold: float,
    form: str,
    margin: float,
) -> float:
    """L_l + L_S + L_C + L_CL."""
    return (
        labelled_loss(model, labelled, labels)
        + supervised_loss(model, weak, strong, pseudo_labels, threshold)
        + consistency_loss(model, weak, strong, form, model.prompt, model.teacher_prompt)
        + contrast_loss(model, margin)
    )
