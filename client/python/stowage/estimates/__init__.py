"""Estimates of what a training job takes, without running it.

`estimate` reads in this order: `estimate` (a step of training, and what is found), `stand_ins` (a
model whose tensors have sizes and no content), `live_bytes` (what they would take), `gpu_choices`
(what a GPU would run otherwise than a CPU), `places` (what runs at a peak), `gpus` (cards),
`roofline` (how long operators would take there), `layer_profile` (the model's chain), `verdicts`
(whether it fits), `calibration` (how far such estimates are off), `batches` (the largest batch),
`__main__` (the command).
"""

from stowage.estimates.batches import Batch, Batches, largest_batch
from stowage.estimates.calibration import Calibration, CalibrationError, Spread
from stowage.estimates.estimate import Component, Estimate, StepPeak, estimate
from stowage.estimates.gpus import Gpu, gpus
from stowage.estimates.verdicts import Verdict

__all__ = [
    "Batch",
    "Batches",
    "Calibration",
    "CalibrationError",
    "Component",
    "Estimate",
    "Gpu",
    "Spread",
    "StepPeak",
    "Verdict",
    "estimate",
    "gpus",
    "largest_batch",
]
