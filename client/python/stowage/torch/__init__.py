"""PyTorch models under a memory budget: `fit`, `unfit`, `report`.

Reads in this order: `arguments`, `fitting` and `placing` (the way from a model to a schedule),
`fitted` and `trial` (what is done to the model, and how that is checked). Each folder imports those
before it:
`distributed` (models of several processes, and what is refused), `tensors` (what is kept between a
forward, its replays and its backward), `layers` (which layers are a chain, or are replayed apart,
and what stands in their forwards), `execution` (a schedule in the model's own autograd graph),
`measuring` (steps that leave the model as it was), `profiling` (times and sizes, and what a layer
may keep in part), and `choosing` (the plan for a budget, and whether PyTorch's own `checkpoint`
runs it).
"""

from stowage.errors import BudgetError, NotAChainError
from stowage.torch.fitted import Fitted, LayerReport, unfit
from stowage.torch.fitting import fit
from stowage.torch.reporting import Report, SizeReport, report

__all__ = [
    "BudgetError",
    "Fitted",
    "LayerReport",
    "NotAChainError",
    "Report",
    "SizeReport",
    "fit",
    "report",
    "unfit",
]
