// SPDX-License-Identifier: GPL-2.0-only
// Threads that wait for each other as those of ggml do, the library under llama.cpp: after each
// matrix product all meet at a barrier, where they spin with PAUSE and never give their CPU away.
//
// ggml THREADS STEPS COLUMNS: each step multiplies a matrix by a block of COLUMNS columns, a
// thread some rows of it. Prints the seconds that the steps took. Exit code 1 if the result is
// wrong.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROWS 256

static long threads, steps, columns;
// A row after the other; of the blocks, a column after the other. Arithmetic is modulo 2^32.
static uint32_t matrix[ROWS * ROWS];
static uint32_t *block[2];
// The matrix is row[i] * column[j], and `diagonal` more where i = j.
static uint32_t row[ROWS], column[ROWS];
static const uint32_t diagonal = 3;

static atomic_long arrived;
static atomic_long passed;

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

// The last thread to arrive opens the barrier; the others spin until it has.
static void barrier(void)
{
	long round = atomic_load_explicit(&passed, memory_order_relaxed);

	if (atomic_fetch_add_explicit(&arrived, 1, memory_order_acq_rel) == threads - 1) {
		atomic_store_explicit(&arrived, 0, memory_order_relaxed);
		atomic_store_explicit(&passed, round + 1, memory_order_release);
		return;
	}
	while (atomic_load_explicit(&passed, memory_order_acquire) == round)
		relax();
}

static void multiply(long first, long end, const uint32_t *from, uint32_t *to)
{
	for (long c = 0; c < columns; c++) {
		for (long i = first; i < end; i++) {
			uint32_t sum = 0;

			for (long j = 0; j < ROWS; j++)
				sum += matrix[i * ROWS + j] * from[c * ROWS + j];
			to[c * ROWS + i] = sum;
		}
	}
}

static void *work(void *number)
{
	long id = (long)number;
	long first = ROWS * id / threads, end = ROWS * (id + 1) / threads;

	barrier();
	for (long step = 0; step < steps; step++) {
		multiply(first, end, block[step % 2], block[(step + 1) % 2]);
		barrier();
	}
	return NULL;
}

static uint32_t scatter(uint32_t number)
{
	number = (number + 1) * 0x9e3779b9u;
	return (number ^ number >> 15) * 0x85ebca6bu;
}

static void prepare(void)
{
	for (int side = 0; side < 2; side++) {
		block[side] = calloc(columns * ROWS, sizeof(uint32_t));
		if (!block[side]) {
			fprintf(stderr, "no memory for %ld columns\n", columns);
			exit(1);
		}
	}
	for (long i = 0; i < ROWS; i++) {
		row[i] = scatter(i);
		column[i] = scatter(ROWS + i);
	}
	for (long i = 0; i < ROWS; i++)
		for (long j = 0; j < ROWS; j++)
			matrix[i * ROWS + j] = row[i] * column[j] + (i == j ? diagonal : 0);
	for (long i = 0; i < columns * ROWS; i++)
		block[0][i] = scatter(2 * ROWS + i);
}

// What the product is, as the matrix is known in closed form: one pass for each step, not ROWS.
static int is_right(void)
{
	for (long c = 0; c < columns; c++) {
		uint32_t want[ROWS];

		for (long i = 0; i < ROWS; i++)
			want[i] = scatter(2 * ROWS + c * ROWS + i);
		for (long step = 0; step < steps; step++) {
			uint32_t sum = 0;

			for (long j = 0; j < ROWS; j++)
				sum += column[j] * want[j];
			for (long i = 0; i < ROWS; i++)
				want[i] = diagonal * want[i] + row[i] * sum;
		}
		for (long i = 0; i < ROWS; i++)
			if (block[steps % 2][c * ROWS + i] != want[i])
				return 0;
	}
	return 1;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static long positive(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*end || end == text || number < 1 || number > 1000000) {
		fprintf(stderr, "`%s` is not a whole number from 1 to 1000000\n", text);
		exit(2);
	}
	return number;
}

int main(int argc, char **argv)
{
	pthread_t *team;
	double start, end;

	if (argc != 4) {
		fprintf(stderr, "usage: %s THREADS STEPS COLUMNS\n", argv[0]);
		return 2;
	}
	threads = positive(argv[1]);
	steps = positive(argv[2]);
	columns = positive(argv[3]);
	prepare();
	team = calloc(threads, sizeof(*team));
	for (long id = 1; id < threads; id++) {
		if (!team || pthread_create(&team[id], NULL, work, (void *)id)) {
			fprintf(stderr, "cannot start %ld threads\n", threads);
			return 1;
		}
	}
	start = now();
	work(NULL);
	end = now();
	for (long id = 1; id < threads; id++)
		pthread_join(team[id], NULL);
	if (!is_right()) {
		fprintf(stderr, "the product is wrong\n");
		return 1;
	}
	printf("%ld steps of %ld threads took %.6f s\n", steps, threads, end - start);
	printf("the product is right\n");
	return 0;
}
