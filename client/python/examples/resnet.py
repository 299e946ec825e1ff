"""Trains torchvision's ResNet-50 on random images within a memory budget."""

import argparse

import torch
import torchvision

import stowage


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=4, help="images a step")
    parser.add_argument("--size", type=int, default=64, help="pixels along an image's side")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument(
        "--activations", default="20%", help='memory for activations, such as "3GiB" or "20%%"'
    )
    arguments = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torchvision.models.resnet50(num_classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()

    images = torch.randn(arguments.batch, 3, arguments.size, arguments.size, device=device)
    labels = torch.randint(10, (arguments.batch,), device=device)
    stowage.fit(
        model,
        images,
        activations=arguments.activations,
        loss=lambda output: criterion(output, labels),
        optimizer=optimizer,
    )

    for step in range(arguments.steps):
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")
    print(stowage.report(model))


if __name__ == "__main__":
    main()
