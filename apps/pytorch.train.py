# SPDX-License-Identifier: GPL-2.0-only
"""Trains a small network on the CPU: WORKERS processes of a DataLoader make batches, and the main one
computes with THREADS threads. Prints the seconds of the steps after the first."""
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

SIZE, BATCH = 256, 64


class Points(Dataset):
    """Synthetic: whether two halves of a random vector have the same sign of their sum."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        chance = torch.Generator().manual_seed(number)
        point = torch.randn(SIZE, generator=chance)
        return point, (point[: SIZE // 2].sum() > 0).float()


def main():
    threads, workers, steps = (int(word) for word in sys.argv[1:])
    torch.manual_seed(7)
    torch.set_num_threads(threads)
    model = torch.nn.Sequential(
        torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(), torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(), torch.nn.Linear(SIZE, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = torch.nn.BCEWithLogitsLoss()
    losses, began = [], None
    for points, labels in DataLoader(Points((steps + 1) * BATCH), batch_size=BATCH, num_workers=workers):
        optimizer.zero_grad()
        loss = criterion(model(points).squeeze(1), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        began = began or time.monotonic()
    print(f"{len(losses) - 1} steps took {time.monotonic() - began:.6f} s")
    few = max(1, steps // 4)
    print(f"the loss fell from {losses[0]:.4f}")
    print(f"last losses: {sum(losses[-few:]) / few:.4f}")


main()
