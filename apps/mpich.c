// SPDX-License-Identifier: GPL-2.0-only
// Heat on a ring in whole numbers: each process owns some cells, exchanges the outermost with its
// two neighbours before each step, and all sum up the heat after it, as many solvers do.
//
// mpich STEPS CELLS: prints the seconds of the steps. Exit code 1 if the result is wrong: the first
// process does the same alone, afterwards, and compares all cells.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Repeated, so that a step is a few hundred thousand instructions for each process.
#define ROUNDS 8

static int64_t begin(long cell)
{
	uint64_t number = (cell + 1) * 0x9e3779b97f4a7c15u;

	return (number ^ number >> 29) % 1000000;
}

// What flows from one cell into the next; the same seen from both sides, so none is lost.
static int64_t flow(int64_t from, int64_t to)
{
	int64_t difference = from - to;

	for (int round = 0; round < ROUNDS; round++)
		difference = difference * 7 / 8 + (difference & 1);
	return difference / 4;
}

// One step of `count` cells, of which cells[0] and cells[count + 1] are the neighbours'.
static void step(const int64_t *cells, int64_t *next, long count)
{
	for (long i = 1; i <= count; i++)
		next[i] = cells[i] + flow(cells[i - 1], cells[i]) - flow(cells[i], cells[i + 1]);
}

static int64_t *allocate(long count)
{
	int64_t *memory = calloc(count, sizeof(*memory));

	if (!memory) {
		fprintf(stderr, "no memory for %ld cells\n", count);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return memory;
}

static int is_right(const int64_t *all, long count, long steps)
{
	int64_t *cells = allocate(count + 2), *next = allocate(count + 2), *other;
	int right;

	for (long i = 0; i < count; i++)
		cells[i + 1] = begin(i);
	for (long s = 0; s < steps; s++) {
		cells[0] = cells[count];
		cells[count + 1] = cells[1];
		step(cells, next, count);
		other = cells, cells = next, next = other;
	}
	right = !memcmp(all, cells + 1, count * sizeof(*cells));
	free(cells);
	free(next);
	return right;
}

int main(int argc, char **argv)
{
	int rank, ranks, right = 1;
	long steps, count;
	int64_t *cells, *next, *other, *all = NULL, heat, sum, first;
	double start, took;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	steps = argc == 3 ? atol(argv[1]) : 0;
	count = argc == 3 ? atol(argv[2]) / ranks : 0;
	if (steps < 1 || count < 1) {
		if (!rank)
			fprintf(stderr, "usage: %s STEPS CELLS, at least a cell for each process\n",
				argv[0]);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	cells = allocate(count + 2);
	next = allocate(count + 2);
	for (long i = 0; i < count; i++)
		cells[i + 1] = begin(rank * count + i);

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (long s = 0; s < steps; s++) {
		int left = (rank + ranks - 1) % ranks, next_rank = (rank + 1) % ranks;

		MPI_Sendrecv(&cells[count], 1, MPI_INT64_T, next_rank, 0, &cells[0], 1, MPI_INT64_T,
			     left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Sendrecv(&cells[1], 1, MPI_INT64_T, left, 1, &cells[count + 1], 1, MPI_INT64_T,
			     next_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		step(cells, next, count);
		other = cells, cells = next, next = other;
		heat = 0;
		for (long i = 1; i <= count; i++)
			heat += cells[i];
		MPI_Allreduce(&heat, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		if (!s)
			first = sum;
		right &= sum == first;
	}
	took = MPI_Wtime() - start;

	if (!rank)
		all = allocate(ranks * count);
	MPI_Gather(cells + 1, count, MPI_INT64_T, all, count, MPI_INT64_T, 0, MPI_COMM_WORLD);
	if (!rank) {
		right &= is_right(all, ranks * count, steps);
		printf("%ld steps of %d processes took %.6f s\n", steps, ranks, took);
		printf("the heat is %s\n", right ? "right" : "wrong");
	}
	MPI_Finalize();
	return !right;
}
