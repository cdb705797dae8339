"""What OpenPrompt is put together from: its two stages, its prompts and its detector."""

from __future__ import annotations

from torch import Tensor

from ossl.config import PromptConfig, RecipeConfig, ScheduleConfig
from ossl.data.batches import Plan
from ossl.jointspace.kernel_head import KernelHead, fit_kernel_head
from ossl.jointspace.marks import Marks
from ossl.methods.base import Phase, Stage
from ossl.methods.detectors import CircleDetector, Detector, DiscriminatorDetector
from ossl.methods.evidence_detector import EvidenceDetector
from ossl.methods.prompt_tuning import tuning_stage
from ossl.models.prompt import VisualPrompt, prompt_size_for

LABELLED, STUDENT, OUTLIERS = "labelled", "student", "outlier_prompt"


def two_stages(
    schedule: ScheduleConfig,
    *,
    learns_head: bool,
    learns_from_pool: bool,
    outlier_prompt: bool,
    mixed_precision: bool,
) -> tuple[Stage, ...]:
    """The stages of a schedule; one in which nothing learns has no epochs.

    Tuning a prompt on a frozen encoder is a stage of its own between them.
    """

    def phase(name: str, steps: int, labelled: int, pool: int) -> Phase:
        return Phase(
            name,
            steps,
            Plan(labelled=labelled, pool=pool, flip=schedule.flip),
            schedule.learning_rate,
            schedule.momentum,
            schedule.weight_decay if name == LABELLED else 0.0,
        )

    labelled, pool = schedule.labelled_batch, schedule.pool_batch
    first = phase(LABELLED, schedule.labelled_steps, labelled, 0)
    second = [phase(STUDENT, schedule.pool_steps, labelled, pool)]
    if outlier_prompt:
        second.append(phase(OUTLIERS, schedule.outlier_steps, 0, pool))
    tuning = (tuning_stage(schedule),) if schedule.tuning_epochs else ()
    return (
        Stage(
            "labelled",
            "learning from the labelled pictures",
            schedule.labelled_epochs if learns_head else 0,
            (first,),
            schedule.decay_at,
            mixed_precision=mixed_precision,
        ),
        *tuning,
        Stage(
            "pool",
            "learning from the pool",
            schedule.pool_epochs if learns_from_pool else 0,
            tuple(second),
            schedule.decay_at,
        ),
    )


def new_detector(recipe: RecipeConfig, width: int, seed: int) -> Detector:
    """What tells known from outlying, as the recipe says, for features of this width."""
    if recipe.detector == "joint_space":
        return CircleDetector(recipe)
    if recipe.detector == "discriminator":
        return DiscriminatorDetector(width, seed)
    return EvidenceDetector(recipe, seed)


def new_prompt(settings: PromptConfig, image_size: int, seed: int) -> VisualPrompt:
    """A prompt for pictures of this side in pixels."""
    size = settings.size
    if size is None:
        size = prompt_size_for(image_size, settings.size_at_224)
    return VisualPrompt(
        image_size,
        size,
        template=settings.template,
        placement=settings.placement,
        start=settings.start,
        seed=seed,
    )


def new_kernel_head(
    detector: Detector,
    classes: int,
    labelled: Tensor,
    labels: Tensor,
    pool: Tensor,
    fair: Tensor | None = None,
    marks: Marks | None = None,
) -> KernelHead:
    """The classifier in closed form of these features, on the CPU like the joint space.

    The solves are small, wherever the features are. `fair` are labelled pictures that the encoder
    has not learnt by label; of what a person marked, the known are the last labelled ones.
    """
    known = detector.known_probability(pool)
    labelled, labels, pool, known = (t.cpu() for t in (labelled, labels, pool, known))
    marked = 0
    if marks is not None:
        marked = marks.known_count
        known[marks.rows] = (~marks.outlying).to(known)
    fair = None if fair is None else fair.cpu()
    return fit_kernel_head(labelled, labels, classes, pool, known, fair, marked=marked)


def referee_figures(
    detector: Detector,
    classes: int,
    labelled: Tensor,
    labels: Tensor,
    pool: Tensor,
    referees: Tensor,
) -> tuple[float, float]:
    """The referees' accuracy, and their AUROC against the pool, by fits without them."""
    others, fresh = (labelled[~referees], labels[~referees], pool), labelled[referees]
    fitted = new_kernel_head(detector, classes, *others)
    right = fitted(fresh.cpu()).argmax(dim=1) == labels[referees].cpu()
    return float(right.float().mean()), detector.fresh_auroc(*others, fresh)
