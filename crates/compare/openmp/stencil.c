// SPDX-License-Identifier: GPL-2.0-only
// Heat that spreads over a closed surface: every sweep is a parallel region of its own, a short
// one, as OpenMP programs are that were made parallel one loop at a time (NPB's MG, BT and SP for
// large parts). It has as many cells as the grid of SP's and BT's class A, 64 x 64 x 64.
//
// SIZE is the number of sweeps. The start is one wave in each direction; a sweep makes it fainter
// by a factor that is known, and changes nothing else.
#include "kernel.h"

#include <math.h>

#define SIDE	 512
#define ACCURACY 1e-9

static double (*now)[SIDE], (*then)[SIDE];

static double wave(long row, long column)
{
	return cos(2 * M_PI * row / SIDE) * cos(2 * M_PI * column / SIDE);
}

void prepare(long size)
{
	(void)size;
	now = allocate(SIDE, sizeof(*now));
	then = allocate(SIDE, sizeof(*then));
	for (long row = 0; row < SIDE; row++)
		for (long column = 0; column < SIDE; column++)
			now[row][column] = wave(row, column);
}

static double mean(double a, double b, double c, double d)
{
	return (a + b + c + d) / 4;
}

// Each cell becomes the mean of its four neighbours. The first and the last column are neighbours.
static void spread(double *to, const double *above, const double *at, const double *below)
{
	to[0] = mean(above[0], below[0], at[SIDE - 1], at[1]);
	for (long column = 1; column < SIDE - 1; column++)
		to[column] = mean(above[column], below[column], at[column - 1], at[column + 1]);
	to[SIDE - 1] = mean(above[SIDE - 1], below[SIDE - 1], at[SIDE - 2], at[0]);
}

void run(long size)
{
	for (long sweep = 0; sweep < size; sweep++) {
		double(*before)[SIDE] = now;

#pragma omp parallel for schedule(static)
		for (long row = 0; row < SIDE; row++)
			spread(then[row], now[(row + SIDE - 1) % SIDE], now[row],
			       now[(row + 1) % SIDE]);
		now = then;
		then = before;
	}
}

bool is_right(long size)
{
	double left = pow(cos(2 * M_PI / SIDE), size);

	for (long row = 0; row < SIDE; row++)
		for (long column = 0; column < SIDE; column++)
			if (!(fabs(now[row][column] - left * wave(row, column)) < ACCURACY))
				return false;
	return true;
}
