/* SPDX-License-Identifier: GPL-2.0-only */
/* What a kernel defines for main.c, and nothing else. Each file here is one kernel: one way in
 * which the threads of parallel programs wait for each other. All results are known in closed form,
 * so that they can be checked whatever the number of threads. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the input, before the clock starts; by one thread. */
void prepare(long size);

/* The work, which is timed. */
void run(long size);

/* Whether the result is right, after the clock has stopped; by one thread. */
bool is_right(long size);

/* Memory for `count` things of `bytes` bytes, zeroed; ends the program if there is none. */
void *allocate(long count, long bytes);

/* Scatters the bits of a number: a cheap, repeatable kind of chance. */
static inline uint64_t scatter(uint64_t number)
{
	number ^= number >> 31;
	number *= 0x9e3779b97f4a7c15u;
	number ^= number >> 29;
	number *= 0xd1342543de82ef95u;
	return number ^ number >> 32;
}

#endif
