// SPDX-License-Identifier: GPL-2.0-only
// A wave through a grid: each cell needs its neighbours to the west, north and below, so a thread
// may begin a plane only when the thread north of it has done the same plane. They wait for each
// other's flags without any help of the runtime, and yield while they wait. The pattern of NPB's
// LU, whose threads wait in this way but do not even yield.
//
// SIZE is the number of sweeps, with a barrier after each. Sweep s leaves i + j + k + s in the cell
// (k, j, i).
#include "kernel.h"

#include <math.h>
#include <omp.h>
#include <sched.h>

#define PLANES	 32
#define ROWS	 64 // shared out among the threads
#define COLUMNS	 32
#define PARTS	 5 // of a cell, coupled with each other, as LU's five equations
#define ACCURACY 1e-6

typedef struct {
	double part[PARTS];
} cell_t;

// A flag to a cache line: how many planes of this sweep a thread has done.
struct progress {
	_Alignas(64) long planes;
};

static cell_t (*grid)[ROWS][COLUMNS];
static struct progress *progress;

void prepare(long size)
{
	(void)size;
	grid = allocate(PLANES, sizeof(*grid));
}

// What lies beyond the edge of the grid is known.
static cell_t beyond(long place, long sweep)
{
	cell_t cell;

	for (int part = 0; part < PARTS; part++)
		cell.part[part] = place + sweep;
	return cell;
}

// The mean of the three neighbours, mixed over the parts, and 1 more. The shares add up to 1.
static cell_t next(const cell_t *west, const cell_t *north, const cell_t *below)
{
	cell_t cell;
	double all = 0;

	for (int part = 0; part < PARTS; part++) {
		cell.part[part] = (west->part[part] + north->part[part] + below->part[part]) / 3;
		all += cell.part[part];
	}
	for (int part = 0; part < PARTS; part++)
		cell.part[part] = cell.part[part] / 2 + all / (2 * PARTS) + 1;
	return cell;
}

static void do_row(long sweep, long plane, long row)
{
	cell_t *cells = grid[plane][row];

	for (long column = 0; column < COLUMNS; column++) {
		long place = plane + row + column - 1;
		cell_t edge = beyond(place, sweep);

		cells[column] = next(column ? &cells[column - 1] : &edge,
				     row ? &grid[plane][row - 1][column] : &edge,
				     plane ? &grid[plane - 1][row][column] : &edge);
	}
}

static void wait_for(int thread, long planes)
{
	long done;

	for (;;) {
#pragma omp atomic read acquire
		done = progress[thread].planes;
		if (done >= planes)
			return;
		sched_yield();
	}
}

static void sweep_mine(long sweep, int thread, int threads)
{
	long first = ROWS * thread / threads, end = ROWS * (thread + 1) / threads;

	for (long plane = 0; plane < PLANES; plane++) {
		if (thread > 0)
			wait_for(thread - 1, plane + 1);
		for (long row = first; row < end; row++)
			do_row(sweep, plane, row);
#pragma omp atomic write release
		progress[thread].planes = plane + 1;
	}
}

void run(long size)
{
	progress = allocate(omp_get_max_threads(), sizeof(*progress));
#pragma omp parallel
	for (long sweep = 1; sweep <= size; sweep++) {
		sweep_mine(sweep, omp_get_thread_num(), omp_get_num_threads());
#pragma omp barrier
		progress[omp_get_thread_num()].planes = 0;
#pragma omp barrier
	}
}

bool is_right(long size)
{
	for (long plane = 0; plane < PLANES; plane++)
		for (long row = 0; row < ROWS; row++)
			for (long column = 0; column < COLUMNS; column++)
				for (int part = 0; part < PARTS; part++) {
					double is = grid[plane][row][column].part[part];

					if (!(fabs(is - (plane + row + column + size)) < ACCURACY))
						return false;
				}
	return true;
}
