"""Trains a decoder that fully_shard (FSDP2, gloo) spreads over several processes, within a budget.

Starts its processes itself; torchrun is not needed.
"""

import argparse
import tempfile

import torch
import torch.distributed
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import stowage


def train(rank, arguments, rendezvous):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=arguments.processes
    )
    mesh = init_device_mesh("cpu", (arguments.processes,))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=arguments.layers, hidden_size=64, intermediate_size=128,
        num_attention_heads=4, num_key_value_heads=2, vocab_size=500, use_cache=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    # Shard first, then fit: a replay finds its layer gathered, and all processes run one plan.
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)

    torch.manual_seed(1 + rank)  # each process has data of its own
    ids = torch.randint(500, (arguments.batch, arguments.tokens))
    batch = {"input_ids": ids, "labels": ids}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    stowage.fit(model, batch, activations=arguments.activations, optimizer=optimizer)

    for step in range(arguments.steps):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    if rank == 0:
        print(stowage.report(model))
    # Nobody leaves the group while another still uses it.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4, help="sequences of a process")
    parser.add_argument("--tokens", type=int, default=128, help="in a sequence")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument(
        "--activations",
        default="20%",
        help='memory for the activations of a process, such as "3GiB" or "20%%"',
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            train, (arguments, f"{folder}/rendezvous"), nprocs=arguments.processes
        )


if __name__ == "__main__":
    main()
