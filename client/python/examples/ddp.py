"""Trains with DistributedDataParallel (gloo) in several processes, each within a memory budget.

Starts its processes itself; torchrun is not needed.
"""

import argparse
import contextlib
import tempfile

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import stowage

WIDTH = 64


class Block(torch.nn.Module):
    """A residual multilayer perceptron."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.grow = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.shrink = torch.nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, value):
        grown = torch.nn.functional.gelu(self.grow(self.norm(value)))
        return value + self.dropout(self.shrink(grown))


def train(rank, arguments, rendezvous):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=arguments.processes
    )
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *(Block() for _ in range(arguments.layers)), torch.nn.Linear(WIDTH, 10)
    )
    criterion = torch.nn.CrossEntropyLoss()
    torch.manual_seed(1 + rank)  # each process has data of its own
    inputs = torch.randn(2, arguments.batch, WIDTH)
    labels = torch.randint(10, (2, arguments.batch))

    # Wrap the model, then fit it: all processes run one plan, and the buckets are counted.
    parallel = DistributedDataParallel(model)
    stowage.fit(
        parallel,
        inputs[0],
        activations=arguments.activations,
        loss=lambda output: criterion(output, labels[0]),
    )
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)

    for step in range(arguments.steps):
        # Two micro-batches; gradients are summed over the processes in the second one.
        for micro_batch in range(2):
            waits = parallel.no_sync() if micro_batch == 0 else contextlib.nullcontext()
            with waits:
                loss = criterion(parallel(inputs[micro_batch]), labels[micro_batch])
                (loss / 2).backward()
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
    parser.add_argument("--batch", type=int, default=256, help="rows in a micro-batch")
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
