"""A run as one ONNX graph, from uint8 pictures to probabilities, outlier scores and decisions.

The graph is what `Method.predict` computes, in float32: the prompt, the encoder, the classifier,
and the joint space with the features that it compares a picture with. Nothing is written twice.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ossl.compute import compute_dtype
from ossl.errors import InputError
from ossl.export.about import INPUT, OUTPUTS, about, public_config_text
from ossl.files import write_whole
from ossl.fit import LoadedRun, restored
from ossl.methods.base import Method

EXAMPLE = 3  # pictures; neither 0 nor 1, which an exporter takes for fixed


class Graph(nn.Module):
    """Probabilities [N, K], outlier scores [N] and decisions [N] of uint8 pictures [N, H, W, 3]."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the run says of the pictures."""
        said = self.method.predict(pictures.permute(0, 3, 1, 2))
        score = said.outlier_score.float()
        return said.logits.float().softmax(1), score, score > self.method.threshold


def write_onnx(run: LoadedRun, path: Path) -> None:
    """Write a run as an ONNX file, in float32 whatever it computes in itself.

    Input `pictures` is uint8 [batch, H, W, 3], RGB, of the run's size; any number of them.
    """
    onnx, onnxscript = check_installed()
    method = run.method
    if compute_dtype(run.config.precision, run.accelerator.device) != torch.float32:
        config = replace(run.config, precision="fp32")
        method = restored(
            config,
            method.state_dict(),
            method.joint_space(),
            run.classes,
            run.accelerator,
            run.folder.path,
        )
    graph = Graph(method).eval()
    side = method.image_size
    example = torch.zeros(EXAMPLE, side, side, 3, dtype=torch.uint8, device=run.accelerator.device)
    graph(example)  # what is worked out once and kept is then no part of the graph
    batch = torch.export.Dim("batch")
    with torch.no_grad(), _quiet():
        traced = torch.export.export(
            graph, (example,), dynamic_shapes={INPUT: {0: batch}}, strict=False
        )
        program = torch.onnx.export(
            traced,
            (),
            dynamo=True,
            input_names=[INPUT],
            output_names=list(OUTPUTS),
            optimize=False,
        )
        assert program is not None
        # Its full optimiser takes longer than all the rest, and a runtime does the same on loading.
        onnxscript.optimizer.fold_constants(program.model, onnx_shape_inference=False)
        onnxscript.optimizer.remove_unused_nodes(program.model)
    model = program.model_proto
    _name_batch(model.graph)
    entries = about(run) | {"config": public_config_text(run.config)}
    onnx.helper.set_model_props(model, entries)
    model.producer_name, model.doc_string = "ossl", str(graph.forward.__doc__)
    onnx.checker.check_model(model)
    write_whole(path, lambda place: onnx.save_model(model, str(place)))


def _name_batch(graph: Any) -> None:
    """None; calls the number of pictures `batch` throughout, where the tracer numbered it."""
    drawn = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for side in value.type.tensor_type.shape.dim:
            if side.dim_param == drawn:
                side.dim_param = "batch"


def check_installed() -> tuple[Any, Any]:
    """The packages onnx and onnxscript, which an export needs."""
    try:
        import onnx
        import onnxscript.optimizer
    except ImportError as error:
        raise InputError(
            f"--format onnx needs a package that is not installed ({error.name}): "
            "pip install 'ossl[onnx]'"
        ) from error
    return onnx, onnxscript


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter's own words, which are for those who build exporters, unsaid."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
