// SPDX-License-Identifier: GPL-2.0-only
// Integers sorted digit by digit: each thread counts its keys, the counts are summed over threads
// and digits, each thread puts its keys where they belong. Three short phases with a barrier after
// each. The pattern of NPB's IS.
//
// SIZE is the number of sorts, each of other keys.
#include "kernel.h"

#include <omp.h>
#include <stdlib.h>

#define KEYS	   (1L << 17)
#define DIGIT_BITS 8
#define DIGITS	   (1L << DIGIT_BITS)
#define KEY_BITS   32

typedef long counts_t[DIGITS];

static uint32_t *keys, *sorted;
static counts_t *counts; // of each thread: how many of each digit, then where the next one goes

static uint32_t key(long sort, long number)
{
	return scatter(sort * KEYS + number);
}

void prepare(long size)
{
	(void)size;
	keys = allocate(KEYS, sizeof(*keys));
	sorted = allocate(KEYS, sizeof(*sorted));
}

// All of these are called by all threads of a team; each ends with a barrier, as each `omp for`
// does, and each thread has the same part of the keys in all of them.
static void generate(long sort)
{
#pragma omp for schedule(static)
	for (long i = 0; i < KEYS; i++)
		keys[i] = key(sort, i);
}

static void count(int shift)
{
	long *mine = counts[omp_get_thread_num()];

	for (long digit = 0; digit < DIGITS; digit++)
		mine[digit] = 0;
#pragma omp for schedule(static)
	for (long i = 0; i < KEYS; i++)
		mine[keys[i] >> shift & (DIGITS - 1)]++;
}

static void sum(void)
{
#pragma omp single
	{
		long place = 0;
		int threads = omp_get_num_threads();

		for (long digit = 0; digit < DIGITS; digit++) {
			for (int thread = 0; thread < threads; thread++) {
				long here = counts[thread][digit];

				counts[thread][digit] = place;
				place += here;
			}
		}
	}
}

static void distribute(int shift)
{
	long *mine = counts[omp_get_thread_num()];

#pragma omp for schedule(static)
	for (long i = 0; i < KEYS; i++)
		sorted[mine[keys[i] >> shift & (DIGITS - 1)]++] = keys[i];
#pragma omp single
	{
		uint32_t *swap = keys;

		keys = sorted;
		sorted = swap;
	}
}

void run(long size)
{
	counts = allocate(omp_get_max_threads(), sizeof(*counts));
#pragma omp parallel
	for (long sort = 0; sort < size; sort++) {
		generate(sort);
		for (int shift = 0; shift < KEY_BITS; shift += DIGIT_BITS) {
			count(shift);
			sum();
			distribute(shift);
		}
	}
}

// In order, and the same keys as there were: no key is lost or doubled if two different sums agree.
bool is_right(long size)
{
	uint64_t before[2] = {0}, after[2] = {0};

	for (long i = 0; i < KEYS; i++) {
		uint32_t old = key(size - 1, i);

		if (i > 0 && keys[i - 1] > keys[i])
			return false;
		before[0] += old;
		before[1] += scatter(old);
		after[0] += keys[i];
		after[1] += scatter(keys[i]);
	}
	return before[0] == after[0] && before[1] == after[1];
}
