"""Trains a decoder with transformers' Trainer within a memory budget. TRL's are used alike."""

import argparse
import tempfile

import torch
import transformers

from stowage.integrations.transformers import StowageCallback


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128, help="in a sequence")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument(
        "--activations",
        default="20%",
        help='memory for the activations, such as "3GiB" or "20%%"',
    )
    arguments = parser.parse_args()

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=arguments.layers, hidden_size=64, intermediate_size=128,
        num_attention_heads=4, num_key_value_heads=2, vocab_size=500,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    rows = torch.randint(500, (arguments.batch * arguments.steps, arguments.tokens))
    callback = StowageCallback(activations=arguments.activations)
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                folder,
                per_device_train_batch_size=arguments.batch,
                max_steps=arguments.steps,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
            ),
            train_dataset=[{"input_ids": row, "labels": row} for row in rows],
            callbacks=[callback],
        )
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    for step, loss in enumerate(losses):
        print(f"step {step}: loss {float(loss):.3f}")
    print(callback.report)


if __name__ == "__main__":
    main()
