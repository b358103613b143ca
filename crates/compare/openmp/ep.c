// SPDX-License-Identifier: GPL-2.0-only
// Embarrassingly parallel: the threads meet once, at the end. The pattern of NPB's EP.
//
// SIZE is the side of a grid. Every one of its points is visited once, in a scattered order, and
// those within a quarter of a circle around the corner are counted. Row by row the count can be had
// from a square root.
#include "kernel.h"

// A prime larger than any side: a multiplication by it permutes the points.
#define STRIDE 2654435761u

static long inside;

void prepare(long size)
{
	(void)size;
}

void run(long size)
{
	uint64_t side = size, points = side * side;

#pragma omp parallel for schedule(static) reduction(+ : inside)
	for (uint64_t number = 0; number < points; number++) {
		uint64_t point = number * STRIDE % points;
		uint64_t x = point / side, y = point % side;

		inside += x * x + y * y < points;
	}
}

bool is_right(long size)
{
	long height = size, expected = 0;

	for (long x = 0; x < size; x++) {
		while (height > 0 && x * x + (height - 1) * (height - 1) >= size * size)
			height--;
		expected += height;
	}
	return inside == expected;
}
