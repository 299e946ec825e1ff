"""Peaks of training that others have published, beside `stowage.estimate` of the same step.

usage: published.py [--only WORDS]

Prints a table in Markdown. Models are made of their libraries' configurations, without weights, so
that nothing is downloaded and no GPU is needed. What a report does not say is as its software had
it by default then; published.md says where the two differ, and why.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn
from torch.nn import functional

import stowage

GB, MIB, GIB = 10**9, 2**20, 2**30
# What a report's number is: bytes of tensors, those and the allocator's cache, or those, the cache
# and the CUDA context, of which the report gives the size or not.
ALLOCATED, RESERVED, DEVICE = "allocated", "reserved", "nvidia-smi"


@dataclass(frozen=True, slots=True)
class Report:
    what: str
    source: str
    counter: str
    bytes: float
    make: Callable[[], nn.Module]
    sample: Any
    optimizer: Callable[[Any], torch.optim.Optimizer] | None
    autocast: torch.dtype | None = None
    loss: Callable[[Any], Tensor] | None = None
    # What that software kept besides, at the step's peak, and today's does not: published.md.
    kept_then: int = 0


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters)


def fused_adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, fused=True)


def one_by_one_adamw(parameters: Any) -> torch.optim.Optimizer:
    """As transformers' own AdamW, which was the Trainer's default in 2022."""
    return torch.optim.AdamW(parameters, foreach=False)


def adafactor(parameters: Any) -> torch.optim.Optimizer:
    return transformers.Adafactor(parameters)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def plain_sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def classes_loss(logits: Tensor) -> Tensor:
    targets = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return functional.cross_entropy(logits, targets)


def words_loss(output: Any) -> Tensor:
    return classes_loss(output.logits.flatten(0, 1))


def images(batch: int, kind: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(batch, 3, 224, 224, dtype=kind, device="meta")


def words(batch: int, length: int, **labels: tuple[int, ...]) -> dict[str, Tensor]:
    shapes = {"input_ids": (batch, length), **labels}
    return {
        name: torch.empty(shape, dtype=torch.long, device="meta") for name, shape in shapes.items()
    }


def answers(batch: int) -> dict[str, tuple[int, ...]]:
    return {"start_positions": (batch,), "end_positions": (batch,)}


def vit_l_16(classes: int, kind: torch.dtype = torch.float32) -> Callable[[], nn.Module]:
    return lambda: torchvision.models.vit_l_16(num_classes=classes).to(kind).train()


def vision_transformer(name: str, kind: torch.dtype, *, checkpoint: bool) -> nn.Module:
    model = timm.create_model(name, num_classes=45, img_size=224)
    model.set_grad_checkpointing(checkpoint)
    return model.to(kind).train()


def bert_large(*, checkpoint: bool = False) -> nn.Module:
    config = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    )
    # transformers had no other attention in 2022.
    config._attn_implementation = "eager"
    model = transformers.BertForSequenceClassification(config)
    if checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": True})
    return model.train()


def bert_large_for_questions() -> nn.Module:
    return transformers.BertForQuestionAnswering(bert_large().config).train()


def xlm_roberta_base() -> nn.Module:
    config = transformers.XLMRobertaConfig(
        vocab_size=250002, max_position_embeddings=514, type_vocab_size=1
    )
    config._attn_implementation = "eager"
    return transformers.XLMRobertaForQuestionAnswering(config).train()


def gpt2(attention: str, kind: torch.dtype, **values: Any) -> nn.Module:
    config = transformers.GPT2Config(use_cache=False, **values)
    config._attn_implementation = attention
    return transformers.GPT2LMHeadModel(config).to(kind).train()


def book_gpt2(attention: str, vocabulary: int) -> Callable[[], nn.Module]:
    return lambda: gpt2(
        attention,
        torch.bfloat16,
        vocab_size=vocabulary,
        activation_function="gelu_pytorch_tanh",
        tie_word_embeddings=False,
    )


def llama_7b() -> nn.Module:
    config = transformers.LlamaConfig(use_cache=False)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16).train()


TUTORIAL = (
    "[a tutorial of PyTorch]"
    "(https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html)"
)
VIT_LOGS = "[logs of a blog](https://github.com/rasbt/pytorch-memory-optim/blob/main/logs.md)"
TRAINER = "[transformers 4.21](https://huggingface.co/docs/transformers/v4.21.0/perf_train_gpu_one)"
TORCHAO = "[torchao](https://github.com/pytorch/ao/tree/main/torchao/optim)"
TORCHTUNE = "[torchtune](https://github.com/meta-pytorch/torchtune/pull/389)"
BOOK = "[a book](https://github.com/rasbt/LLMs-from-scratch/tree/main/ch05/10_llm-training-speed)"
GPT2_QUESTION = (
    "[a question](https://discuss.huggingface.co/t/gpt-2-finetuning-peaks-at-8-gib-of-vram/172332)"
)
FORUM = "[a question](https://discuss.pytorch.org/t/resnet-alexnet-memory-usage/36280)"
SQUAD_BERT = "[a model card](https://huggingface.co/Centaur31/mybert/blob/main/train_results.json)"
SQUAD_XLM_R = "[a model card](https://huggingface.co/jakobwes/xlm_roberta_squad_v1.1)"
ILRG = "[an issue](https://github.com/mankasto/iLRG/issues/1)"

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
BERT_BYTES = 4 * 335_000_000  # approximately: weights, and so gradients
XLM_R_BYTES, VIT_L_WEIGHTS = 4 * 277_000_000, 303_000_000
CONTEXT = 1343 * MIB  # of the V100, as the Trainer's document says


def scores(layers: int, batch: int, heads: int, length: int) -> int:
    """Of attention, in single precision: the softmaxes' inputs, which PyTorch kept before 1.11."""
    return 4 * layers * batch * heads * length**2


def of_the_trainer(
    what: str,
    used: int,
    batch: int,
    *,
    checkpoint: bool = False,
    autocast: torch.dtype | None = None,
    optimizer: Callable[[Any], torch.optim.Optimizer] = one_by_one_adamw,
) -> Report:
    return Report(
        f"BERT-large, {batch} x 512, {what}", TRAINER, f"{DEVICE} less its context",
        used * MIB - CONTEXT, lambda: bert_large(checkpoint=checkpoint),
        words(batch, 512, labels=(batch,)), optimizer, autocast,
        kept_then=0 if checkpoint else BERT_BYTES + scores(24, batch, 16, 512),
    )  # fmt: skip


def of_the_book(
    what: str, reserved: float, batch: int, attention: str, vocabulary: int = 50257
) -> Report:
    return Report(
        f"GPT-2, untied, {batch} x 1024, bfloat16, fused AdamW, {what}", BOOK, RESERVED,
        reserved * GIB, book_gpt2(attention, vocabulary), words(batch, 1024), fused_adamw,
        loss=words_loss,
    )  # fmt: skip


def of_the_logs(
    what: str,
    reserved: float,
    batch: int,
    kind: torch.dtype = F32,
    autocast: torch.dtype | None = None,
    kept: int = 1,
) -> Report:
    return Report(
        f"ViT-L/16 of torchvision, {batch} x 224², {what}, Adam", VIT_LOGS, RESERVED,
        reserved * GB, vit_l_16(10, kind), images(batch, kind), adam, autocast, classes_loss,
        kept_then=kept * kind.itemsize * VIT_L_WEIGHTS,
    )  # fmt: skip


REPORTS = [
    Report(
        "ViT-L/16 of torchvision, 1 x 224², float32, Adam", TUTORIAL, "a snapshot's peak", 6 * GB,
        vit_l_16(1000), images(1), adam, loss=torch.sum,
    ),
    of_the_logs("float32", 26.79, 64),
    of_the_logs("autocast float16", 18.21, 64, autocast=F16),
    of_the_logs("bfloat16", 13.82, 64, BF16),
    of_the_logs("bfloat16", 5.69, 16, BF16),
    of_the_logs("bfloat16, accumulating", 3.91, 4, BF16, kept=0),
    of_the_trainer("float32, AdamW", 14949, 4),
    of_the_trainer("float32, AdamW, accumulating", 8681, 1),
    of_the_trainer("float32, AdamW, accumulating, checkpointing", 6775, 1, checkpoint=True),
    of_the_trainer("autocast float16, AdamW", 13939, 4, autocast=F16),
    of_the_trainer(
        "autocast float16, AdamW, accumulating, checkpointing", 7275, 1,
        checkpoint=True, autocast=F16,
    ),
    of_the_trainer("float32, Adafactor", 12295, 4, optimizer=adafactor),
    Report(
        "BERT-large for questions, 12 x 384, float32, AdamW", SQUAD_BERT, ALLOCATED,
        1337192960 + 4029973504 + 16453983232, bert_large_for_questions,
        words(12, 384, **answers(12)), one_by_one_adamw,
        kept_then=BERT_BYTES + scores(24, 12, 16, 384),
    ),
    Report(
        "XLM-R base for questions, 16 x 384, float32, AdamW", SQUAD_XLM_R, ALLOCATED,
        1109893120 + 3330195456 + 8287144960, xlm_roberta_base,
        words(16, 384, **answers(16)), one_by_one_adamw,
        kept_then=XLM_R_BYTES + scores(12, 16, 12, 384),
    ),
    Report(
        "ViT-H/14 of timm, 8 x 224², autocast bfloat16, compiled, fused AdamW", TORCHAO, ALLOCATED,
        12.23 * GB,
        lambda: vision_transformer("vit_huge_patch14_224", F32, checkpoint=False), images(8),
        fused_adamw, BF16, classes_loss,
    ),
    Report(
        "ViT-g/14 of timm, 32 x 224², bfloat16, checkpointing, fused AdamW", TORCHAO, ALLOCATED,
        9.82 * GB,
        lambda: vision_transformer("vit_giant_patch14_dinov2", BF16, checkpoint=True),
        images(32, BF16), fused_adamw, loss=classes_loss,
    ),
    Report(
        "Llama-2 7B, batch not said (1 x 512 here), bfloat16, AdamW of foreach=False", TORCHTUNE,
        ALLOCATED, 54 * GB, llama_7b, words(1, 512, labels=(1, 512)), one_by_one_adamw,
    ),
    of_the_book("attention by hand", 11.5645, 8, "eager"),
    of_the_book("flash attention", 5.9004, 8, "sdpa"),
    of_the_book("flash attention, compiled", 22.5078, 32, "sdpa", 50304),
    Report(
        "GPT-2, 8 x 512, float32, AdamW", GPT2_QUESTION, "a profile's peak", 8 * GIB,
        lambda: gpt2("sdpa", F32), words(8, 512, labels=(8, 512)), fused_adamw,
    ),
    Report(
        "ResNet-50 of torchvision, 120 x 224², float32, momentum", FORUM, DEVICE, 10000 * MIB,
        lambda: torchvision.models.resnet50().train(), images(120), momentum, loss=classes_loss,
    ),
    Report(
        "AlexNet of torchvision, 256 x 224², float32, momentum", FORUM, DEVICE, 2000 * MIB,
        lambda: torchvision.models.alexnet().train(), images(256), momentum, loss=classes_loss,
    ),
    Report(
        "ResNet-50 of torchvision, 512 x 224², float32, gradients only", ILRG, DEVICE, 40 * GB,
        lambda: torchvision.models.resnet50().train(), images(512), None, loss=classes_loss,
    ),
]  # fmt: skip


def row(report: Report) -> str:
    cells = [report.what, report.source, report.counter, f"{report.bytes / GIB:.2f}"]
    try:
        found = stowage.estimate(
            report.make,
            report.sample,
            optimizer=report.optimizer,
            autocast=report.autocast,
            loss=report.loss,
        )
    except stowage.StowageError as error:
        reason = str(error).partition(", in ")[0]
        return "| " + " | ".join([*cells, "refused", reason, ""]) + " |"
    peak = found.peak_bytes
    cells += [f"{peak / GIB:.2f}", off_by(peak, report)]
    cells.append(off_by(peak + report.kept_then, report) if report.kept_then else "")
    return "| " + " | ".join(cells) + " |"


def off_by(estimated: int, report: Report) -> str:
    return f"{100 * (estimated / report.bytes - 1):+.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="WORDS", help="that a report's name has")
    arguments = parser.parse_args()
    print(
        "| step | source | counted | reported, GiB | estimated | off by | with what was kept then |"
    )
    print("|" + 7 * "---|")
    for report in REPORTS:
        if arguments.only in report.what:
            print(row(report), flush=True)


if __name__ == "__main__":
    main()
