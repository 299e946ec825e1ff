"""PyTorch models under a memory budget: `fit`, `unfit`, `report`.

Reads in this order: `wishes` and `fitting` (the way from a model to a schedule), `sharding` with
`ranks`, `gathers` and `common_profile` (models of several processes, and what is refused),
`visits`, `discover` and `separate_layers` (which layers are a chain, or are replayed apart),
`profiler` (times and sizes), `separate_bytes` (those of layers apart), `ways` and `recording` (what
a layer may keep in part), `model_state` (what measuring leaves as it was), `planning` (the plan for
a budget), `program` and `executor` (a schedule in the model's own autograd graph), `route` and
`checkpointed` (plans that PyTorch's own `checkpoint` runs), `saved_tensors`, `kept_results`,
`values`, `replay` with `attributes`, and `transfers` (what the executor needs), `installation` and
`coordinator` (what stands in the layers' forwards).
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
