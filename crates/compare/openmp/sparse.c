// SPDX-License-Identifier: GPL-2.0-only
// Conjugate gradients on a sparse matrix: some million multiplications, then a barrier, a sum over
// all threads, another barrier … five barriers an iteration, most with little work before them. The
// pattern of NPB's CG, and the size of its class A: 14,000 rows, about 1.85 million entries, 25
// iterations a system.
//
// SIZE is the number of systems solved, one after the other. Each has the solution 1, 1, 1, …
#include "kernel.h"

#include <math.h>

#define ROWS	 14000
#define STEPS	 25
#define ACCURACY 1e-9

// Each row has an entry on the diagonal and two for each of DISTANCES distances from it.
#define DISTANCES 66
#define ENTRIES	  (2 * DISTANCES + 1)

static double *value; // ENTRIES a row
static int *column;   // likewise
static double *right; // right-hand side
static double *solution, *residual, *direction, *image;
static long wrong; // elements of solutions

// All different, and as scattered as the columns of CG's matrix.
static long distance(long d)
{
	return 1 + d * 101;
}

// The same number for (i, j) and (j, i), between 0 and 1.
static double weight(long i, long j)
{
	return 0x1p-32 * (uint32_t)scatter(i < j ? i * ROWS + j : j * ROWS + i);
}

void prepare(long size)
{
	(void)size;
	value = allocate(ROWS * ENTRIES, sizeof(*value));
	column = allocate(ROWS * ENTRIES, sizeof(*column));
	right = allocate(ROWS, sizeof(*right));
	solution = allocate(ROWS, sizeof(*solution));
	residual = allocate(ROWS, sizeof(*residual));
	direction = allocate(ROWS, sizeof(*direction));
	image = allocate(ROWS, sizeof(*image));
	for (long i = 0; i < ROWS; i++) {
		long at = i * ENTRIES;
		double sum = 0;

		for (long d = 0; d < DISTANCES; d++) {
			for (long sign = -1; sign <= 1; sign += 2) {
				column[at] = (i + sign * distance(d) + ROWS) % ROWS;
				value[at] = -weight(i, column[at]);
				sum -= value[at++];
			}
		}
		// Twice what the others weigh: so well conditioned that STEPS steps are plenty.
		column[at] = i;
		value[at] = 2 * sum + 1;
		right[i] = value[at] - sum;
	}
}

// Called by all threads of a team; every `omp for` ends with a barrier.
static void solve(void)
{
	static double rho, next_rho, curvature;

#pragma omp single
	rho = 0;
#pragma omp for schedule(static) reduction(+ : rho)
	for (long i = 0; i < ROWS; i++) {
		solution[i] = 0;
		residual[i] = direction[i] = right[i];
		rho += right[i] * right[i];
	}
	for (int step = 0; step < STEPS; step++) {
		double alpha, beta;

#pragma omp single
		curvature = next_rho = 0;
#pragma omp for schedule(static) reduction(+ : curvature)
		for (long i = 0; i < ROWS; i++) {
			double sum = 0;

			for (long at = i * ENTRIES; at < (i + 1) * ENTRIES; at++)
				sum += value[at] * direction[column[at]];
			image[i] = sum;
			curvature += sum * direction[i];
		}
		alpha = curvature > 0 ? rho / curvature : 0;
#pragma omp for schedule(static) reduction(+ : next_rho)
		for (long i = 0; i < ROWS; i++) {
			solution[i] += alpha * direction[i];
			residual[i] -= alpha * image[i];
			next_rho += residual[i] * residual[i];
		}
		beta = rho > 0 ? next_rho / rho : 0;
#pragma omp for schedule(static)
		for (long i = 0; i < ROWS; i++)
			direction[i] = residual[i] + beta * direction[i];
#pragma omp single
		rho = next_rho;
	}
#pragma omp for schedule(static) reduction(+ : wrong)
	for (long i = 0; i < ROWS; i++)
		wrong += !(fabs(solution[i] - 1) < ACCURACY);
}

void run(long size)
{
#pragma omp parallel
	for (long system = 0; system < size; system++)
		solve();
}

bool is_right(long size)
{
	(void)size;
	return wrong == 0;
}
