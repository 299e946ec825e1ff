"""`stowage.fit` inside of other people's training loops; each imports its library when it is used.

`stowage.integrations.transformers` for Trainer and TRL, `stowage.integrations.lightning` for
Lightning. With accelerate, call `stowage.fit` after `accelerator.prepare`.
"""
