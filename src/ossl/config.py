"""Every setting of a run: frozen, strict, one default per field, units in comments.

`RUN/config.json` is exactly a `RunConfig`; an unknown key is refused with the nearest right one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Annotated, Any, Literal

from annotated_types import Gt
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from ossl.errors import InputError, nearest
from ossl.method_config import BASELINES, AnyBaseline

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)

Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Batch = Annotated[int, Field(ge=1, le=65_536)]
Positive = Annotated[float, Gt(0)]

Template = Literal["padding", "fixed_patch", "random_patch"]
Placement = Literal["overlay", "surround"]
PromptStart = Literal["normal", "zero"]
SpaceKind = Literal["raw", "unit", "scaled", "whitened", "whitened_unit"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "fp32", "bf16"]
Profile = Literal["desk", "full"]
RecipeName = Literal["default", "paper"]
Budget = Literal["fast", "balanced", "best"]
View = Literal["bare", "mirrored", "prompted", "prompted_mirrored"]


@dataclass(frozen=True, config=STRICT)
class PromptConfig:
    """The border of learnable pixels (DESIGN rows 1 and 2)."""

    size_at_224: Count = 40  # pixels of border on a 224-pixel picture; scaled to other sizes
    size: Count | None = None  # pixels of border at the run's own size; overrides size_at_224
    template: Template = "padding"
    placement: Placement = "overlay"
    start: PromptStart = "normal"


@dataclass(frozen=True, config=STRICT)
class RecipeConfig:
    """OpenPrompt's settings, one per row of DESIGN section 2; the defaults are the paper's."""

    prompt: PromptConfig = PromptConfig()  # rows 1, 2
    # a feature is the mean over these views of a picture; others than the paper's for the default
    # recipe's detector only. Mirrored ones are left out where schedule.flip is false.
    views: Annotated[tuple[View, ...], Field(min_length=1)] = ("prompted",)
    # row 4: "auto" trains the encoder in stage 1 only when it has no pretrained weights
    train_encoder: Literal["always", "auto", "never"] = "always"
    candidates: Annotated[int, Field(ge=1)] = 5  # rows 6, 8: N tangents
    space: SpaceKind = "unit"  # row 7: S
    ridge: Fraction = 0.2  # shrinkage of the covariance, whitened spaces only
    tangent_tolerance: Positive = 0.1  # row 7: in units of S
    circle_limit: Positive = 0.5  # row 9: λ
    threshold: Literal["circle", "mixture"] = "circle"  # where λ comes from: given, or the pool
    # where a person knows better than the estimate; the default recipe's detector only
    outlier_share: Fraction | None = None  # put so much of the pool aside
    max_false_rejects: Fraction | None = None  # put aside at most so much of the known
    centre_rounds: Annotated[int, Field(ge=1)] = 1  # row 10: detections per pass over the pool
    # row 17; "evidence" is the default recipe's joint space
    detector: Literal["joint_space", "discriminator", "evidence"] = "joint_space"
    # row 4: how C is fitted; "closed_form" where the features are frozen, else by gradient too
    head: Literal["gradient", "closed_form"] = "gradient"
    pseudo_threshold: Fraction = 0.7  # row 11: η, smallest confidence of a pseudo-label
    pseudo_labels: Literal["teacher", "student"] = "teacher"  # row 11
    consistency: Literal["signed", "absolute"] = "signed"  # row 12
    contrast: bool = True  # row 13: without it there is no outlier prompt either
    # row 13: hinge on the cosine; -1 leaves it unhinged
    contrast_margin: Annotated[float, Field(ge=-1, lt=1)] = 0.0
    ema_decay: Fraction = 0.999  # row 15
    predict_with: Literal["teacher", "student"] = "teacher"


@dataclass(frozen=True, config=STRICT)
class ScheduleConfig:
    """How long and how fast the two stages learn (row 15)."""

    labelled_epochs: Count = 100  # stage 1
    labelled_steps: Count = 100  # steps an epoch
    # Then rounds of learning from the pool, for the default recipe's encoder without weights: the
    # joint space says before each what the pool is.
    rounds: Count = 0
    round_steps: Count = 270  # steps a round
    pool_epochs: Count = 500  # stage 2
    pool_steps: Count = 100  # steps an epoch
    outlier_steps: Count = 20  # steps of the outlier prompt at each epoch's end
    labelled_batch: Batch = 64  # pictures
    pool_batch: Batch = 128  # pictures
    learning_rate: Positive = 0.3
    momentum: Fraction = 0.9
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    decay_at: Fraction = 0.8  # part of a stage's epochs after which the rate is cut to a tenth
    flip: bool = True  # whether a mirrored picture is still of its class
    # The default recipe's prompt on a frozen encoder, before stage 2; --budget sets the epochs.
    tuning_epochs: Count = 0
    tuning_steps: Count = 50  # steps an epoch; after each the heads are fitted anew
    tuning_labelled: Batch = 64  # pictures
    tuning_pool: Batch = 64  # pictures, of those that are likely known and surely of a class
    tuning_rate: Positive = 0.5  # length of the first step; a cosine takes it to 0


@dataclass(frozen=True, config=STRICT)
class BackboneConfig:
    """The encoder E."""

    name: str = "lite0"
    weights: str | None = None  # a safetensors file
    image_size: Annotated[int, Field(ge=8)] | None = None  # pixels; None: the backbone's own


@dataclass(frozen=True, config=STRICT)
class FolderData:
    """A folder of class folders, and a folder of unlabelled pictures."""

    kind: Literal["folders"] = "folders"
    labelled: str = ""
    unlabelled: str = ""
    corrections: str | None = None  # what a person said of pool pictures; a CSV file


@dataclass(frozen=True, config=STRICT)
class ProtocolData:
    """A benchmark's data set under one of the published splits."""

    kind: Literal["protocol"] = "protocol"
    split: str = "cifar10-100"
    data_root: str | None = None  # None: ./data, downloaded where the set allows it


@dataclass(frozen=True, config=STRICT)
class DigitsData:
    """scikit-learn's digits: 0–5 known by five labels each, 6–9 outliers; the pool is judged."""

    kind: Literal["digits"] = "digits"


@dataclass(frozen=True, config=STRICT)
class ArrayData:
    """Pictures that a program held in memory; the run does not know where they came from."""

    kind: Literal["arrays"] = "arrays"


DataConfig = Annotated[
    FolderData | ProtocolData | DigitsData | ArrayData, Field(discriminator="kind")
]


@dataclass(frozen=True, config=STRICT)
class RunConfig:
    """All of a run; what `RUN/config.json` holds."""

    data: DataConfig
    method: str = "openprompt"
    baseline: AnyBaseline | None = None  # the settings of any other method, which then are all
    recipe_name: RecipeName = "default"
    recipe: RecipeConfig = RecipeConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    backbone: BackboneConfig = BackboneConfig()
    preset: str | None = None
    budget: Budget | None = None  # what was asked for; recipe and schedule hold what it means
    profile: Profile | None = None
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    device: Device = "auto"
    precision: Precision = "auto"

    @property
    def train_encoder(self) -> Literal["always", "auto", "never"]:
        """Whether the encoder learns; "auto": when it has no pretrained weights."""
        return self.recipe.train_encoder if self.baseline is None else self.baseline.train_encoder


_DATA_KINDS = {
    "folders": FolderData,
    "protocol": ProtocolData,
    "digits": DigitsData,
    "arrays": ArrayData,
}
_KINDS = {**_DATA_KINDS, **BASELINES}
_ADAPTER: TypeAdapter[RunConfig] = TypeAdapter(RunConfig)


def to_json(config: RunConfig) -> str:
    """The text of `config.json`."""
    return json.dumps(asdict(config), indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, where: str) -> RunConfig:
    """The configuration in `text`; `where` names the file in errors."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON: {error}; mend it or fit the run again.") from error
    if not isinstance(values, dict):
        raise InputError(f"{where} holds no settings, but {_shown(values)}; fit the run again.")
    return from_dict(values, where)


def from_dict(values: Mapping[str, Any], where: str) -> RunConfig:
    """The configuration with these values; an unknown key names the nearest right one."""
    try:
        return _ADAPTER.validate_python(dict(values))
    except ValidationError as error:
        raise InputError(f"{where}: {_first_problem(error)}") from error


def with_settings(config: RunConfig, settings: Mapping[str, str]) -> RunConfig:
    """`config` with dotted settings replaced, such as `recipe.circle_limit` = `0.3`."""
    for dotted, text in settings.items():
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        config = with_value(config, dotted, value, "--set")
    return config


def with_value(config: RunConfig, dotted: str, value: Any, where: str) -> RunConfig:
    """`config` with one setting replaced; `where` names the option in errors."""
    names = _dotted_names(config)
    if dotted not in names:
        guess = nearest(dotted, names)
        hint = f"did you mean {guess!r}?" if guess else "see the config.json of any run."
        raise InputError(f"{where} {dotted}: there is no such setting; {hint}")
    if config.baseline is not None and dotted.startswith(("recipe.", "schedule.")):
        raise InputError(
            f"{where} {dotted}: method {config.method} takes its settings from `baseline`, such as "
            "baseline.learning_rate; config.json of any of its runs has them all."
        )
    values = asdict(config)
    *parents, last = dotted.split(".")
    place = values
    for name in parents:
        place = place[name]
    place[last] = value
    return from_dict(values, where)


def with_data_root(config: RunConfig, data_root: str) -> RunConfig:
    """`config` with its benchmark's data, or its pool, looked for elsewhere."""
    if isinstance(config.data, ProtocolData):
        return replace(config, data=replace(config.data, data_root=data_root))
    if isinstance(config.data, FolderData):
        return replace(config, data=replace(config.data, unlabelled=data_root))
    return config


def _dotted_names(config: Any, prefix: str = "") -> list[str]:
    names = []
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            names += _dotted_names(value, f"{prefix}{field.name}.")
        else:
            names.append(prefix + field.name)
    return names


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"]]
    dotted = ".".join(part for part in path if part not in _KINDS)
    if problem["type"] == "unexpected_keyword_argument":
        siblings = _siblings(path[:-1])
        guess = nearest(path[-1], siblings)
        hint = (
            f"did you mean {guess!r}?" if guess else f"known keys: {', '.join(sorted(siblings))}."
        )
        return f"unknown key {dotted!r}; {hint}"
    given = problem.get("input")
    if problem["type"] == "union_tag_invalid":
        tag = problem["ctx"]["tag"]
        kinds = BASELINES if dotted == "baseline" else _DATA_KINDS
        guess = nearest(tag, kinds)
        hint = f"did you mean {guess!r}?" if guess else f"choose one of: {', '.join(kinds)}."
        return f"{dotted}.kind = {tag!r}: {hint}"
    if problem["type"] in ("missing", "missing_argument"):
        return f"{dotted} is missing; fit the run again."
    if problem["type"] == "literal_error":
        options = re.findall(r"'([^']+)'", problem["ctx"]["expected"])
        guess = nearest(str(given), options)
        hint = f"did you mean {guess!r}?" if guess else f"choose one of: {', '.join(options)}."
        return f"{dotted} = {_shown(given)}: {hint}"
    return f"{dotted} = {_shown(given)}: {problem['msg'].lower()}."


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _siblings(path: list[str]) -> list[str]:
    parts: dict[str, type] = {
        "recipe": RecipeConfig,
        "prompt": PromptConfig,
        "schedule": ScheduleConfig,
        "backbone": BackboneConfig,
        **_KINDS,
    }
    owner = next((parts[name] for name in reversed(path) if name in parts), RunConfig)
    return [field.name for field in fields(owner)]
