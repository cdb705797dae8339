"""OpenPrompt (Li, Feng, Zhou, Xu and Chang): the paper's method, stage by stage.

Stage 1 learns the encoder E, the classifier C and the prompt v from labelled pictures. Stage 2
freezes E and C; a student's prompt learns from the pool under a moving-average teacher, a joint
space tells known from outlying, and a second prompt learns from the outliers to push v away.
The default recipe may tune its prompt on a frozen encoder instead (`prompt_tuning`).
Every reading of the paper is a setting of `RecipeConfig`, numbered as in DESIGN section 2.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from ossl.config import RecipeConfig, RunConfig, ScheduleConfig, View
from ossl.data.batches import Batch
from ossl.jointspace.kernel_head import KernelHead
from ossl.jointspace.marks import Marks
from ossl.jointspace.simple import logit_scores
from ossl.jointspace.state import from_tensors, to_tensors
from ossl.methods.base import LogValues, Method, MethodInfo, Phase, Predictions, Scan, Stage
from ossl.methods.openprompt_losses import (
    labelled_losses,
    outlier_prompt_losses,
    student_losses,
)
from ossl.methods.openprompt_parts import (
    LABELLED,
    OUTLIERS,
    STUDENT,
    new_detector,
    new_kernel_head,
    new_prompt,
    referee_figures,
    two_stages,
)
from ossl.methods.prompt_tuning import TUNING, PromptTuning, TuningState, check_views
from ossl.methods.rounds import KNOWN, ROUND, Rounds
from ossl.models.backbone import Backbone
from ossl.models.frozen import FrozenBackbone, freeze
from ossl.models.head import Head
from ossl.models.memory import FeatureMemory
from ossl.models.statistics import estimating_statistics
from ossl.models.teacher import Ema
from ossl.models.views import mean_of, view_features

CLASSIFIER = "classifier"  # before the names of its tensors in jointspace.safetensors


class OpenPrompt(Method):
    """The paper's method; see the module's docstring for its two stages."""

    info: ClassVar[MethodInfo] = MethodInfo(
        name="openprompt",
        title="OpenPrompt",
        paper="Prompt-driven efficient open-set semi-supervised learning",
        year=2022,
        trains="two prompts (stage 1: also the encoder and the classifier, unless frozen)",
    )

    def __init__(
        self,
        encoder: Backbone,
        classes: int,
        recipe: RecipeConfig,
        schedule: ScheduleConfig,
        seed: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.recipe = recipe
        self.dtype = dtype
        self.encoder = encoder
        self.trains_encoder = recipe.train_encoder == "always" or (
            recipe.train_encoder == "auto" and not encoder.pretrained
        )
        self.views = check_views(recipe, schedule, encoder, self.trains_encoder)
        tunes = schedule.tuning_epochs > 0
        self.tuning = PromptTuning(self.views, classes, seed) if tunes else None
        self.learns_by_paper = recipe.prompt.size != 0 and not tunes
        self.classes = classes
        rounds = self.trains_encoder and recipe.detector == "evidence" and schedule.rounds > 0
        self.rounds = Rounds(encoder, classes, schedule, seed, dtype) if rounds else None
        # On features that stay stage 1 is a fit in closed form.
        learnt = (self.trains_encoder and self.rounds is None) or self.learns_by_paper
        self.fits_head = recipe.head == "closed_form" and not learnt
        self.head = None if self.fits_head else Head(encoder.width, classes, seed=seed)
        self.fitted_head: KernelHead | None = None
        side = encoder.image_size
        self.prompt = new_prompt(recipe.prompt, side, seed + 1)
        self.outlier_prompt = new_prompt(recipe.prompt, side, seed + 2) if recipe.contrast else None
        self.detector = new_detector(recipe, encoder.width, seed + 3)
        self.teacher = Ema(self._prompts(), decay=recipe.ema_decay)
        self.outliers = torch.empty(0, dtype=torch.int64)
        self.marks: Marks | None = None
        first = () if self.rounds is None else self.rounds.stages
        self.stages = first + two_stages(
            schedule,
            learns_head=not self.fits_head,
            learns_from_pool=self.learns_from_pool,
            outlier_prompt=recipe.contrast,
            mixed_precision=self.trains_encoder and dtype != torch.float32,
        )
        # The frozen encoder is worked out from `encoder`, so it is kept out of the state dict.
        self._frozen: tuple[FrozenBackbone, ...] = ()
        self._memory: FeatureMemory | None = None
        self._settled = False  # whether the prompt has learnt all that it will

    @classmethod
    def create(cls, config: RunConfig, encoder: Backbone, classes: int, dtype: torch.dtype) -> Self:
        """The method of a run on its encoder."""
        return cls(encoder, classes, config.recipe, config.schedule, config.seed, dtype)

    # --- the stages ---------------------------------------------------------------------------

    @property
    def learns_from_pool(self) -> bool:
        """Whether anything is left for gradients in stage 2."""
        return self.learns_by_paper or self.recipe.detector == "discriminator"

    def enter(self, stage: Stage) -> None:
        """Freeze the encoder in stage 2, and in stage 1 too unless it is to be trained."""
        learns = stage.name in (KNOWN, ROUND) or (
            stage.name == LABELLED and self.trains_encoder and self.rounds is None
        )
        self._settled = stage.name == "pool" and not self.learns_by_paper
        self.encoder.requires_grad_(learns)
        # Convolutions in bf16 are faster over channels-last memory, on the CPU too.
        self.encoder.to(memory_format=torch.channels_last)
        if self.head is not None:
            self.head.requires_grad_(stage.name == "labelled")
        self.zero_grad(set_to_none=True)  # of the stage before: what is frozen keeps no gradient
        self._frozen = () if learns else (freeze(self.encoder, dtype=self.dtype),)

    def begin(self, stage: Stage, scan: Scan) -> LogValues:
        """The values to log after stage 2's start: teacher from student, first boundary."""
        if self.rounds is not None and stage.name in (KNOWN, ROUND):
            return self.rounds.begin(stage, scan, self.detector)
        if stage.name == TUNING and self.tuning is not None:
            labelled, pool = self._scan_features(scan)
            values = self.fit(labelled, scan.labels, pool)
            known, logits = self.detector.known_probability(pool), self.logits(pool)
            picked = 0 if self.marks is None else self.marks.known_count
            return values | self.tuning.start(labelled, scan.labels, pool, known, logits, picked)
        if stage.name != "pool":
            return {}
        if self.trains_encoder:
            self._settle_encoder(scan)
        self.teacher.restart()
        if self.tuning is not None:
            return self.tuning.choose(self, scan)
        labelled, pool = self._scan_features(scan)
        return self.fit(labelled, scan.labels, pool)

    def fit(self, labelled: Tensor, labels: Tensor, pool: Tensor) -> LogValues:
        """The values to log after fitting detector and classifier on these features."""
        fair = None if self.rounds is None else self.rounds.fair(labels)
        seen = torch.arange(len(labelled), device=labelled.device)
        if fair is not None:  # and then what a person has marked
            picked = 0 if self.marks is None else self.marks.known_count
            seen = torch.cat([fair, seen[len(seen) - picked :]])
        values = self.detector.initialise(labelled[seen], pool, labels[seen], self.marks)
        if self.fits_head:
            values |= self._fit_head(labelled, labels, pool, fair)
        self._collect_outliers(pool)
        return values

    def trained(self, phase: Phase) -> dict[str, nn.Parameter]:
        """The parameters that a phase learns, by name."""
        if self.rounds is not None and phase.name in (KNOWN, ROUND):
            return self.rounds.trained()
        learning: dict[str, nn.Module] = {"prompt": self.prompt}
        if phase.name == LABELLED:
            if self.head is not None:
                learning["head"] = self.head
            if self.trains_encoder:
                learning["encoder"] = self.encoder
        elif phase.name == STUDENT:
            learning["detector"] = self.detector
        elif phase.name == OUTLIERS and self.outlier_prompt is not None:
            learning = {"outlier_prompt": self.outlier_prompt}
        return {
            f"{part}.{name}": parameter
            for part, module in learning.items()
            for name, parameter in module.named_parameters()
        }

    def pool_choice(self, phase: Phase) -> Tensor | None:
        """The outliers for the outlier prompt, what is sure for a tuning, else the whole pool."""
        if phase.name == TUNING and self.tuning is not None:
            return self.tuning.pool_choice
        return self.outliers if phase.name == OUTLIERS else None

    # --- the losses ---------------------------------------------------------------------------

    def forward(self, batch: Batch, phase: Phase) -> dict[str, Tensor]:
        """The named losses of one batch."""
        if self.rounds is not None and phase.name == KNOWN:
            return self.rounds.known_losses(batch)
        if self.rounds is not None and phase.name == ROUND:
            return self.rounds.round_losses(batch)
        if phase.name == LABELLED:
            return labelled_losses(self, batch)
        if phase.name == STUDENT:
            return student_losses(self, batch)
        if phase.name == TUNING and self.tuning is not None:
            pictures = torch.cat([batch.labelled["weak"], batch.pool["weak"]])
            return self.tuning.losses(self.features(pictures, self.prompt), batch)
        return outlier_prompt_losses(self, batch)

    def after_step(self, phase: Phase) -> None:
        """Move the teacher of the prompt that took the step (row 15); stage 1 has none yet."""
        if self.rounds is not None and phase.name in (KNOWN, ROUND):
            self.rounds.average.update()
        elif phase.name == STUDENT:
            self.teacher.update("prompt")
        elif phase.name == OUTLIERS:
            self.teacher.update("outlier_prompt")

    def end_phase(self, phase: Phase, scan: Scan) -> LogValues:
        """The values to log after the pass that ends an epoch of the student (row 10)."""
        if self.rounds is not None and phase.name == ROUND:
            return self.rounds.end_round(scan, self.detector)
        if phase.name == TUNING and self.tuning is not None:
            encode = partial(self.encode, view="prompted")
            return self.tuning.refit(scan("labelled", encode), scan.labels)
        if phase.name != STUDENT:
            return {}
        labelled, pool = self._scan_features(scan)
        values = self.detector.update(labelled, pool)
        self._collect_outliers(pool)
        return values

    # --- features and predictions -------------------------------------------------------------

    def features(self, pictures: Tensor, prompt: nn.Module) -> Tensor:
        """f = E(x + v), float32, for uint8 pictures; out of training the mean over the views."""
        # In training no picture comes twice: every view of it is drawn anew.
        if self.training or not self._frozen:
            net = self._frozen[0] if self._frozen else self.encoder
            return view_features(net, prompt, pictures, "prompted")
        views = self.views if self.tuning is None else self.tuning.views
        return mean_of(self.encode(pictures, view, prompt) for view in views)

    @torch.no_grad()
    def encode(self, pictures: Tensor, view: View, prompt: nn.Module | None = None) -> Tensor:
        """The features of uint8 pictures in one view, remembered where they stay."""
        net, prompt = self._frozen[0], prompt or self.prompt
        return view_features(net, prompt, pictures, view, self._memory, settled=self._settled)

    def remember(self, memory: FeatureMemory) -> None:
        """Take the frozen encoder's features of pictures without a prompt from a memory."""
        self._memory = memory

    def heed(self, marks: Marks) -> None:
        """Have the detector and a classifier in closed form learn from marked pictures."""
        self.marks = marks

    @property
    def frozen_encoder(self) -> nn.Module:
        """The folded encoder that stage 2 computes with."""
        return self._frozen[0]

    @torch.inference_mode()
    def embed(self, pictures: Tensor) -> Tensor:
        """The features of uint8 pictures that predictions are made from."""
        return self.features(pictures, self._predicting_prompt())

    @torch.inference_mode()
    def predict(self, pictures: Tensor) -> Predictions:
        """The predictions for uint8 pictures by the recipe's choice of student or teacher."""
        return self._judge(self.embed(pictures))

    @torch.inference_mode()
    def predict_with_simple(self, pictures: Tensor) -> tuple[Predictions, dict[str, Tensor]]:
        """The predictions, and beside them the simple outlier scores to compare with, by name."""
        features = self.features(pictures, self._predicting_prompt())
        said = self._judge(features)
        return said, logit_scores(said.logits) | self.detector.simple_scores(features)

    @torch.no_grad()
    def penultimate(self, pictures: Tensor) -> Tensor:
        """The features [B, D] of uint8 pictures that predictions are made of."""
        return self.features(pictures, self._predicting_prompt())

    def classify(self, features: Tensor) -> Tensor:
        """C(f) of such features."""
        return self.logits(features)

    @property
    def last_layer(self) -> nn.Linear | None:
        """The classifier that gradients moved; None for the one fitted in closed form."""
        return self.head

    @property
    def image_size(self) -> int:
        """The side in pixels of the pictures it takes."""
        return self.encoder.image_size

    @property
    def threshold(self) -> float:
        """The ratio λ (or probability) above which a picture is put aside."""
        return self.detector.limit

    @property
    def outlier_share(self) -> float | None:
        """The estimated share of outliers in the pool."""
        return self.detector.share

    @property
    def closed_form_parameters(self) -> int:
        """How many numbers of the classifier were solved for instead of learnt step by step."""
        return 0 if self.fitted_head is None else self.fitted_head.parameter_count

    @property
    def held_out_accuracy(self) -> float | None:
        """How often the classifier in closed form was right on labelled pictures held out."""
        return None if self.fitted_head is None else self.fitted_head.held_out_accuracy

    @property
    def remark(self) -> str | None:
        """Whether a tuned prompt is used, and why."""
        return None if self.tuning is None else self.tuning.remark

    def figures(
        self, labelled: Tensor, labels: Tensor, pool: Tensor, referees: Tensor
    ) -> tuple[float, float]:
        """The referees' accuracy, and their AUROC against the pool, by fits without them."""
        return referee_figures(self.detector, self.classes, labelled, labels, pool, referees)

    @property
    def outlier_share_interval(self) -> tuple[float, float] | None:
        """Where the share of outliers in the pool lies in nine cases of ten."""
        return self.detector.interval

    def joint_space(self) -> dict[str, Tensor]:
        """The detector's space, centres and λ, and which pool pictures it put aside."""
        head = to_tensors(self.fitted_head, CLASSIFIER)
        tuning = {} if self.tuning is None else to_tensors(self.tuning.state, TUNING)
        rounds = {} if self.rounds is None else self.rounds.tensors()
        own = {**self.detector.tensors(), **head, **tuning, **rounds}
        return {**own, "pool_outliers": self.outliers}

    def load_joint_space(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `joint_space` gave."""
        kept = dict(tensors)
        self.outliers = kept.pop("pool_outliers").cpu()
        if self.rounds is not None:
            self.rounds.take_tensors(kept)
        own = {name: kept.pop(name) for name in tensors if name.startswith(f"{CLASSIFIER}.")}
        # Copied: memory of another alignment may be multiplied otherwise, by the last bit.
        state = {n: kept.pop(n).clone() for n in tensors if n.startswith(f"{TUNING}.")}
        if self.tuning is not None:
            self.tuning.state = from_tensors(TuningState, state, TUNING)
        if own:
            self.fitted_head = from_tensors(KernelHead, own, CLASSIFIER)
        self.detector.load_tensors(kept)

    def _judge(self, features: Tensor) -> Predictions:
        return Predictions(self.logits(features), self.detector.score(features))

    def _predicting_prompt(self) -> nn.Module:
        teacher = self.recipe.predict_with == "teacher"
        return self.teacher["prompt"] if teacher else self.prompt

    @torch.no_grad()
    def _scan_features(self, scan: Scan) -> tuple[Tensor, Tensor]:
        prompt = self._predicting_prompt()

        def encode(pictures: Tensor) -> Tensor:
            return self.features(pictures, prompt)

        return scan("labelled", encode), scan("pool", encode)

    @torch.no_grad()
    def _settle_encoder(self, scan: Scan) -> None:
        """Take stage 1's BatchNorm statistics over plain pictures, and freeze with them."""
        if self.rounds is not None:
            self.rounds.finish(scan)
            self._frozen = (freeze(self.encoder, dtype=self.dtype),)
            return
        with estimating_statistics(self.encoder):
            for pictures in scan.labelled_batches():
                self.encoder(self.prompt(self.encoder.normalise(pictures)))
        self._frozen = (freeze(self.encoder, dtype=self.dtype),)

    def logits(self, features: Tensor) -> Tensor:
        """C(f), by the classifier that gradients moved or the one fitted in closed form."""
        if self.head is not None:
            logits: Tensor = self.head(features)
            return logits
        if self.fitted_head is None:
            raise RuntimeError("the classifier is not fitted yet; stage 2 fits it first")
        return self.fitted_head(features)

    @torch.no_grad()
    def _fit_head(
        self, labelled: Tensor, labels: Tensor, pool: Tensor, fair: Tensor | None
    ) -> LogValues:
        fitted = new_kernel_head(
            self.detector, self.classes, labelled, labels, pool, fair, self.marks
        )
        tensors = {name: value.to(labelled.device) for name, value in to_tensors(fitted).items()}
        self.fitted_head = from_tensors(KernelHead, tensors)
        values: LogValues = {"pool_part_in_classifier": fitted.pool_part}
        if fitted.held_out_accuracy is not None:
            values["held_out_accuracy"] = fitted.held_out_accuracy
        return values

    def _collect_outliers(self, pool_features: Tensor) -> None:
        self.outliers = self.detector.detect(pool_features).nonzero().squeeze(1).cpu()

    def _prompts(self) -> dict[str, nn.Module]:
        prompts: dict[str, nn.Module] = {"prompt": self.prompt}
        if self.outlier_prompt is not None:
            prompts["outlier_prompt"] = self.outlier_prompt
        return prompts
