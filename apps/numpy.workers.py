# SPDX-License-Identifier: GPL-2.0-only
"""Workers of a data pipeline: PROCESSES processes, each with its own threads of OpenBLAS, multiply
matrices and take singular values, all at once. Prints the seconds from the first one's start to the
last one's end.

A worker's results are checked: products of small whole numbers are exact in single precision, and
the squares of the singular values sum up to those of the matrix.
"""
import os
import sys
import time

import numpy as np


def multiply(seed, size, rounds):
    chance = np.random.default_rng(seed)
    left = chance.integers(-8, 9, (size, size)).astype(np.float32)
    right = chance.integers(-8, 9, (size, size)).astype(np.float32)
    want = left.astype(np.float64) @ right.astype(np.float64).sum(axis=1)
    for _ in range(rounds):
        product = left @ right
        if not np.array_equal(product.astype(np.float64).sum(axis=1), want):
            raise SystemExit("a product is wrong")


def decompose(seed, size):
    matrix = np.random.default_rng(seed).standard_normal((size, size))
    values = np.linalg.svd(matrix, compute_uv=False)
    squares = float((matrix * matrix).sum())
    if not abs(float((values * values).sum()) - squares) < 1e-9 * squares:
        raise SystemExit("singular values are wrong")


def worker(number, ready, go, rounds):
    # The threads of OpenBLAS are started here, as a worker that has run for a while has them.
    multiply(number, 64, 1)
    os.write(ready, b".")
    os.read(go, 1)
    multiply(number, 192, rounds)
    decompose(number, 96)


def main():
    processes, rounds = int(sys.argv[1]), int(sys.argv[2])
    waiting, ready = os.pipe()
    go, start = os.pipe()
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            os.close(start)
            worker(number, ready, go, rounds)
            os._exit(0)
        children.append(child)
    os.close(ready)
    for _ in children:
        if not os.read(waiting, 1):
            sys.exit("a worker did not start")
    began = time.monotonic()
    os.close(start)
    wrong = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    print(f"{processes} workers took {time.monotonic() - began:.6f} s")
    if wrong:
        sys.exit(f"{wrong} workers failed")
    print("all results are right")


main()
