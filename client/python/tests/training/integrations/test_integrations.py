"""Other people's trainers train a fitted model as they train a plain one."""

from __future__ import annotations

import contextlib
import copy
import os
import pathlib
import warnings
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import accelerate
import datasets
import lightning.pytorch
import peft
import pytest
import tokenizers
import torch
import transformers
import trl
from torch import Tensor, nn

import stowage
import stowage.integrations.lightning
import stowage.integrations.transformers
from stowage.torch import NotAChainError

_TOKENS = 200
_IDS = torch.randint(3, _TOKENS, (60, 32), generator=torch.Generator().manual_seed(4))


def _llama(**more: Any) -> transformers.PreTrainedModel:
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        num_hidden_layers=5, hidden_size=32, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=_TOKENS, attention_dropout=0.1, bos_token_id=1,
        eos_token_id=2, pad_token_id=0, **more,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def _rows() -> list[dict[str, Tensor]]:
    return [
        {"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)} for row in _IDS
    ]


@pytest.fixture(autouse=True)
def _alone() -> None:
    """Nothing is printed, and nothing is left of another test's accelerator."""
    transformers.utils.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


class Trained:
    """What a run of a trainer has left."""

    def __init__(self, trainer: Any) -> None:
        history = trainer.state.log_history
        self.losses = [e[key] for e in history for key in ("loss", "eval_loss") if key in e]
        self.weights = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Trained)
        return (
            self.losses == other.losses
            and self.weights.keys() == other.weights.keys()
            and all(torch.equal(p, other.weights[name]) for name, p in self.weights.items())
        )


def _callback(**more: Any) -> stowage.integrations.transformers.StowageCallback:
    arguments = {"activations": "10%", "verbose": False, **more}
    return stowage.integrations.transformers.StowageCallback(**arguments)


def _recomputes(report: stowage.torch.Report | None) -> bool:
    return report is not None and any(layer.kept != "all" for layer in report.layers)


def _arguments(folder: pathlib.Path, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "max_steps": 30,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "seed": 3,
        "disable_tqdm": True,
        **more,
    }


def _train(folder: pathlib.Path, callback: Any, model: Any = None, **more: Any) -> Trained:
    arguments = transformers.TrainingArguments(**_arguments(folder, **more))
    trainer = transformers.Trainer(
        model or _llama(),
        arguments,
        train_dataset=_rows(),
        eval_dataset=_rows()[:5],
        callbacks=[callback] if callback else None,
    )
    trainer.train()
    return Trained(trainer)


TRAINERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "evaluation": {"eval_strategy": "steps", "eval_steps": 10},
    "bfloat16, accumulation, clipping": {
        "bf16": True,
        "gradient_accumulation_steps": 2,
        "max_grad_norm": 0.1,
    },
    "label smoothing": {"label_smoothing_factor": 0.1},
}


@pytest.mark.parametrize("name", TRAINERS)
def test_trainer(name: str, tmp_path: pathlib.Path) -> None:
    expected = _train(tmp_path, None, **TRAINERS[name])
    callback = _callback()
    assert _train(tmp_path, callback, **TRAINERS[name]) == expected
    assert len(expected.losses) >= 30
    assert _recomputes(callback.report)


@pytest.mark.parametrize("reentrant", [False, True])
def test_the_trainers_own_checkpointing_is_turned_off_with_a_line(
    reentrant: bool, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = _train(tmp_path, None)
    callback = _callback()
    kwargs = {"use_reentrant": reentrant}
    model = _llama()
    assert (
        _train(
            tmp_path,
            callback,
            model,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs=kwargs,
        )
        == expected
    )
    assert "gradient_checkpointing is turned off" in caplog.text
    assert _recomputes(callback.report)
    # The model is plain again.
    assert "forward" not in vars(model.model.layers[0])


def test_checkpointing_on_top_of_a_plan_is_named(tmp_path: pathlib.Path) -> None:
    expected = _train(tmp_path, None)
    model = _llama()
    sample = {"input_ids": _IDS[:4], "labels": _IDS[:4], "attention_mask": torch.ones(4, 32).long()}
    stowage.fit(model, sample, activations="10%", verbose=False)
    with pytest.warns(UserWarning, match=r"model\.layers\.0 checkpoints itself"):
        assert _train(tmp_path, None, model, gradient_checkpointing=True) == expected


def test_a_model_that_checkpoints_itself_is_named() -> None:
    model = _llama()
    model.gradient_checkpointing_enable()
    with pytest.warns(UserWarning, match="checkpoints itself"):
        stowage.fit(
            model, {"input_ids": _IDS[:4], "labels": _IDS[:4]}, activations="50%", verbose=False
        )


def test_trainer_resumes(tmp_path: pathlib.Path) -> None:
    saves = {"save_strategy": "steps", "save_steps": 15}
    expected = _train(tmp_path, _callback(), **saves)
    trainer = transformers.Trainer(
        _llama(),
        transformers.TrainingArguments(**_arguments(tmp_path, **saves)),
        train_dataset=_rows(),
        callbacks=[_callback()],
    )
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-15"))
    assert Trained(trainer) == expected
    assert expected == _train(tmp_path, None)


def test_what_cannot_be_fitted_trains_as_it_is(tmp_path: pathlib.Path) -> None:
    expected = _train(tmp_path, None)
    with pytest.raises(stowage.InfeasibleError):
        _train(tmp_path, _callback(activations=1000))
    callback = _callback(activations=1000, strict=False)
    with pytest.warns(UserWarning, match="trains as it is"):
        assert _train(tmp_path, callback) == expected
    assert callback.report is None


def _tokenizer() -> transformers.PreTrainedTokenizerFast:
    words = {f"w{number}": number for number in range(_TOKENS)}
    level = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w3"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=level, bos_token="w1", eos_token="w2", pad_token="w0", unk_token="w3"
    )


def _sft(folder: pathlib.Path, callback: Any, **more: Any) -> Trained:
    config = trl.SFTConfig(**_arguments(folder, max_length=64, bf16=False))
    rows = [{"input_ids": row.tolist()} for row in _IDS]
    torch.manual_seed(5)
    trainer = trl.SFTTrainer(
        _llama(),
        config,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=_tokenizer(),
        callbacks=[callback] if callback else None,
        **more,
    )
    trainer.train()
    return Trained(trainer)


_LORA = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


@pytest.mark.parametrize("more", [{}, {"peft_config": _LORA}], ids=["full", "LoRA"])
def test_sft(more: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """With TRL's own defaults, in which it checkpoints every layer."""
    expected = _sft(tmp_path, None, **copy.deepcopy(more))
    callback = _callback()
    assert _sft(tmp_path, callback, **copy.deepcopy(more)) == expected
    assert _recomputes(callback.report)


def _dpo(folder: pathlib.Path, callback: Any) -> Trained:
    config = trl.DPOConfig(**_arguments(folder, bf16=False, max_steps=10))
    words = [" ".join(f"w{token}" for token in row) for row in _IDS.tolist()]
    rows = [
        {"prompt": text[:40].rsplit(" ", 1)[0], "chosen": text[40:], "rejected": text[60:]}
        for text in words
    ]
    torch.manual_seed(5)
    trainer = trl.DPOTrainer(
        _llama(),
        ref_model=_llama(),
        args=config,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=_tokenizer(),
        callbacks=[callback] if callback else None,
    )
    trainer.train()
    return Trained(trainer)


def test_dpo(tmp_path: pathlib.Path) -> None:
    expected = _dpo(tmp_path, None)
    callback = _callback()
    assert _dpo(tmp_path, callback) == expected
    assert _recomputes(callback.report)


class Lit(lightning.pytorch.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = _llama()
        self.losses: list[float] = []

    def training_step(self, batch: dict[str, Tensor], number: int) -> Tensor:
        loss = self.model(**batch).loss
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: dict[str, Tensor], number: int) -> None:
        self.losses.append(self.model(**batch).loss.item())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def _lightning(
    folder: pathlib.Path, *callbacks: Any, unused: nn.Module | None = None, **more: Any
) -> list[float]:
    lightning.pytorch.seed_everything(2, verbose=False)
    module = Lit()
    module.model.lm_head.unused = unused
    trainer = lightning.pytorch.Trainer(
        accelerator="cpu", devices=1, max_steps=30, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=list(callbacks),
        default_root_dir=str(folder), **more,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(_rows(), batch_size=4, shuffle=True)
    trainer.fit(module, loader, torch.utils.data.DataLoader(_rows()[:4], batch_size=2))
    return [*module.losses, *(float(p.double().sum()) for p in module.parameters())]


@pytest.mark.parametrize(
    "more",
    [{}, {"precision": "bf16-mixed", "accumulate_grad_batches": 2, "gradient_clip_val": 0.1}],
    ids=["plain", "bfloat16, accumulation, clipping"],
)
def test_lightning(more: dict[str, Any], tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _lightning(tmp_path, **more)
        callback = stowage.integrations.lightning.StowageCallback(activations="10%", verbose=False)
        assert _lightning(tmp_path, callback, **more) == expected
    assert _recomputes(callback.report)


def test_lightning_names_a_module_that_is_not_called(tmp_path: pathlib.Path) -> None:
    arguments = {"module": "model.lm_head.unused", "activations": "10%", "verbose": False}
    for strict in (True, False):
        callback = stowage.integrations.lightning.StowageCallback(strict=strict, **arguments)
        with contextlib.ExitStack() as stack:
            if strict:
                stack.enter_context(pytest.raises(stowage.StowageError, match="was not called"))
            else:
                stack.enter_context(pytest.warns(UserWarning, match="Identity was not called"))
            _lightning(tmp_path, callback, unused=nn.Identity())


def test_lightning_names_the_module_that_it_lacks(tmp_path: pathlib.Path) -> None:
    callback = stowage.integrations.lightning.StowageCallback("net", activations="10%")
    with pytest.raises(stowage.StowageError, match="Lit has no module 'net'"):
        _lightning(tmp_path, callback)


def _accelerated(precision: str, *, fits: bool) -> list[float]:
    accelerate.state.AcceleratorState._reset_state()
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision)
    model: nn.Module = _llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(_rows(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if fits:
        stowage.fit(model, next(iter(loader)), activations="10%", verbose=False)
        assert _recomputes(stowage.report(model))
    torch.manual_seed(6)
    losses = []
    for _ in range(2):
        for batch in loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerate(precision: str) -> None:
    assert _accelerated(precision, fits=True) == _accelerated(precision, fits=False)


def test_the_cache_for_generation_is_off_while_a_model_is_fitted() -> None:
    model = _llama(use_cache=True)
    fitted = stowage.fit(
        model, {"input_ids": _IDS[:4], "labels": _IDS[:4]}, activations="20%", verbose=False
    )
    assert "config.use_cache is False until stowage.unfit(model)" in str(fitted)
    generated = model.generate(_IDS[:1, :8], max_new_tokens=4, do_sample=False)
    stowage.unfit(model)
    assert model.config.use_cache
    assert torch.equal(generated, model.generate(_IDS[:1, :8], max_new_tokens=4, do_sample=False))
    with pytest.raises(NotAChainError):
        stowage.fit(
            model, {"input_ids": _IDS[:4]}, layers=[torch.nn.Linear(2, 2)], activations="20%"
        )
    assert model.config.use_cache


def _averaged(model: Any, losses: list[float]) -> None:
    """With an average of the weights, as training scripts keep for evaluation."""
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for ids in _IDS.split(4):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        losses += [loss.item(), average(input_ids=ids, labels=ids).loss.item()]


def _scaled(model: Any, losses: list[float]) -> None:
    """In float16, with a scaler of the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for ids in _IDS.split(4):
        with torch.autocast("cpu", torch.float16):
            loss = model(input_ids=ids, labels=ids).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        losses.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())


def _adapted(model: Any, losses: list[float]) -> None:
    """With adapters that are added to a model that was fitted without them."""
    adapters = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)
    adapted = peft.get_peft_model(model, adapters).train()
    optimizer = torch.optim.AdamW(adapted.parameters(), lr=1e-2)
    for ids in _IDS.split(4):
        loss = adapted(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())


@pytest.mark.parametrize("script", [_averaged, _scaled, _adapted])
@pytest.mark.parametrize("budget", ["60%", "0%"])
def test_what_scripts_put_around_a_fitted_model(script: Any, budget: str) -> None:
    def run(fits: bool) -> list[float]:
        model, losses = _llama().train(), []
        sample = {"input_ids": _IDS[:4], "labels": _IDS[:4]}
        if fits:
            kind = torch.float16 if script is _scaled else None
            with torch.autocast("cpu", kind, enabled=kind is not None):
                stowage.fit(model, sample, activations=budget, verbose=False)
            assert stowage.report(model).run != "plain"
        torch.manual_seed(5)
        script(model, losses)
        return losses

    assert run(fits=True) == run(fits=False)
