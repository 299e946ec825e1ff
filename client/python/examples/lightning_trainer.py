"""Trains a stack of residual blocks with Lightning's Trainer, within a memory budget."""

import argparse

import lightning.pytorch
import torch

from stowage.integrations.lightning import StowageCallback

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


class Classifier(lightning.pytorch.LightningModule):
    """Its callback is told the name of the part that `training_step` calls: "model"."""

    def __init__(self, layers):
        super().__init__()
        self.model = torch.nn.Sequential(
            *(Block() for _ in range(layers)), torch.nn.Linear(WIDTH, 10)
        )

    def training_step(self, batch, number):
        inputs, labels = batch
        loss = torch.nn.functional.cross_entropy(self.model(inputs), labels)
        print(f"step {number}: loss {loss.item():.3f}")
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument(
        "--activations",
        default="20%",
        help='memory for the activations, such as "3GiB" or "20%%"',
    )
    arguments = parser.parse_args()

    lightning.pytorch.seed_everything(0, verbose=False)
    rows = arguments.batch * arguments.steps
    data = torch.utils.data.TensorDataset(torch.randn(rows, WIDTH), torch.randint(10, (rows,)))
    callback = StowageCallback("model", activations=arguments.activations)
    trainer = lightning.pytorch.Trainer(
        max_steps=arguments.steps,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="auto",
        devices=1,
    )
    trainer.fit(Classifier(arguments.layers), torch.utils.data.DataLoader(data, arguments.batch))
    print(callback.report)


if __name__ == "__main__":
    main()
