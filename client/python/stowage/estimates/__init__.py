"""Estimates of what a training job takes, without running it.

`estimate` reads in this order: `estimate` (what is asked, and what is found), `step` (a step of
training), `stand_ins` (a model whose tensors have sizes and no content), `ranks` (one that is
spread over several processes), `live_bytes` (what tensors would take), `gpu_choices` (what a GPU
would run otherwise than a CPU), `places` (what runs at a peak), `gpus` (cards),
`roofline` (how long operators would take there), `layer_profile` (the model's chain), `verdicts`
(whether it fits), `calibration` (how far such estimates are off), `batches` (the largest batch),
`__main__` (the command).
"""

from stowage.estimates.batches import Batch, Batches, largest_batch
from stowage.estimates.calibration import Calibration, CalibrationError, Spread
from stowage.estimates.estimate import Estimate, estimate
from stowage.estimates.hardware.gpus import Gpu, gpus
from stowage.estimates.step import Component, StepPeak
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
