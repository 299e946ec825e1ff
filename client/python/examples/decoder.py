"""Trains a Llama of random weights within a memory budget: bfloat16, gradient accumulation."""

import argparse

import torch
import transformers

import stowage


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=64, help="the hidden size")
    parser.add_argument("--tokens", type=int, default=128, help="tokens in a sequence")
    parser.add_argument("--batch", type=int, default=2, help="sequences in a micro-batch")
    parser.add_argument("--micro-batches", type=int, default=2, help="in a step")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument(
        "--activations", default="20%", help='memory for activations, such as "3GiB" or "20%%"'
    )
    arguments = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = transformers.LlamaConfig(
        num_hidden_layers=arguments.layers,
        hidden_size=arguments.width,
        intermediate_size=4 * arguments.width,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=1000,
        max_position_embeddings=arguments.tokens,
        use_cache=False,
    )
    model = transformers.LlamaForCausalLM(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def micro_batch():
        tokens = torch.randint(1000, (arguments.batch, arguments.tokens), device=device)
        return {"input_ids": tokens, "labels": tokens}

    # Under autocast, because training runs under it: values are half as large.
    with torch.autocast(device.type, torch.bfloat16):
        stowage.fit(
            model,
            micro_batch(),
            activations=arguments.activations,
            layers=model.model.layers,
            optimizer=optimizer,
        )

    for step in range(arguments.steps):
        total = 0.0
        for _ in range(arguments.micro_batches):
            with torch.autocast(device.type, torch.bfloat16):
                loss = model(**micro_batch()).loss / arguments.micro_batches
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {total:.3f}")
    print(stowage.report(model))


if __name__ == "__main__":
    main()
