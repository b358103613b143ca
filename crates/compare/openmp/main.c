// SPDX-License-Identifier: GPL-2.0-only
// The frame around a kernel: KERNEL THREADS SIZE prints the seconds that the parallel part took,
// and when it ended, in nanoseconds of CLOCK_MONOTONIC. Exit code 1 if the result is wrong or the
// threads are not to be had, 2 for bad arguments.
#include "kernel.h"

#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void *allocate(long count, long bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory) {
		fprintf(stderr, "no memory for %ld times %ld bytes\n", count, bytes);
		exit(1);
	}
	return memory;
}

static long positive(const char *text)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (errno || *end || end == text || number < 1) {
		fprintf(stderr, "`%s` is not a whole number from 1\n", text);
		exit(2);
	}
	return number;
}

int main(int argc, char **argv)
{
	long threads, size;
	int team = 0;
	double start, end;
	struct timespec ended;

	if (argc != 3) {
		fprintf(stderr, "usage: %s THREADS SIZE\n", argv[0]);
		return 2;
	}
	threads = positive(argv[1]);
	size = positive(argv[2]);
	prepare(size);

	// The threads are there before the clock starts, as in any program that has run for a
	// while.
	omp_set_dynamic(0);
	omp_set_num_threads(threads);
#pragma omp parallel
#pragma omp single
	team = omp_get_num_threads();
	if (team != threads) {
		fprintf(stderr, "asked for %ld threads, got %d\n", threads, team);
		return 1;
	}

	start = omp_get_wtime();
	run(size);
	end = omp_get_wtime();
	clock_gettime(CLOCK_MONOTONIC, &ended);

	// Else the other threads would spin on beside the check, and their yields and switches
	// count.
	omp_pause_resource_all(omp_pause_soft);
	if (!is_right(size)) {
		fprintf(stderr, "the result is wrong\n");
		return 1;
	}
	printf("Time: %.6f\n", end - start);
	printf("Ended: %lld\n", ended.tv_sec * 1000000000LL + ended.tv_nsec);
	return 0;
}
