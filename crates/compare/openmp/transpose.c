// SPDX-License-Identifier: GPL-2.0-only
// Fourier transforms of a picture, row by row, with a transposition in between in which every
// thread reads what all the others wrote: all to all, a barrier before and one after. The pattern
// of NPB's FT.
//
// SIZE is the number of rounds. A round transforms the picture, rotates each wave by an angle and
// transforms it back. This moves the picture by one point in each direction and does nothing else.
#include "kernel.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#define SIDE	 128
#define BITS	 7
#define ACCURACY 1e-9

// The C library offers it to gcc alone.
#ifndef CMPLX
#define CMPLX(real, imaginary) __builtin_complex((double)(real), (double)(imaginary))
#endif

typedef double complex row_t[SIDE];

static row_t *picture, *turned;
static double complex root[SIDE]; // of unity

static double value(long row, long column)
{
	return 0x1p-32 * (uint32_t)scatter(row * SIDE + column);
}

void prepare(long size)
{
	(void)size;
	picture = allocate(SIDE, sizeof(*picture));
	turned = allocate(SIDE, sizeof(*turned));
	for (long i = 0; i < SIDE; i++)
		root[i] = cexp(-2 * M_PI * I * i / SIDE);
	for (long row = 0; row < SIDE; row++)
		for (long column = 0; column < SIDE; column++)
			picture[row][column] = value(row, column);
}

// C's own multiplication first checks for infinities.
static double complex product(double complex a, double complex b)
{
	return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
		     creal(a) * cimag(b) + cimag(a) * creal(b));
}

static unsigned reversed(unsigned index)
{
	unsigned result = 0;

	for (int bit = 0; bit < BITS; bit++, index >>= 1)
		result = result << 1 | (index & 1);
	return result;
}

// Cooley and Tukey's, in place. Backwards with conjugate roots, and divided by the length.
static void transform(double complex *row, bool back)
{
	for (unsigned i = 0; i < SIDE; i++) {
		unsigned j = reversed(i);

		if (i < j) {
			double complex swap = row[i];

			row[i] = row[j];
			row[j] = swap;
		}
	}
	for (long half = 1; half < SIDE; half *= 2) {
		for (long start = 0; start < SIDE; start += 2 * half) {
			for (long i = 0; i < half; i++) {
				double complex factor = root[i * (SIDE / 2 / half)];
				double complex *low = &row[start + i], *high = low + half, odd;

				factor = back ? conj(factor) : factor;
				odd = product(factor, *high);
				*high = *low - odd;
				*low += odd;
			}
		}
	}
	for (long i = 0; back && i < SIDE; i++)
		row[i] /= SIDE;
}

// These are called by all threads of a team; every `omp for` ends with a barrier.
static void transform_rows(bool back)
{
#pragma omp for schedule(static)
	for (long row = 0; row < SIDE; row++)
		transform(picture[row], back);
}

static void transpose(void)
{
#pragma omp for schedule(static)
	for (long row = 0; row < SIDE; row++)
		for (long column = 0; column < SIDE; column++)
			turned[row][column] = picture[column][row];
#pragma omp for schedule(static)
	for (long row = 0; row < SIDE; row++)
		memcpy(picture[row], turned[row], sizeof(*picture));
}

static void move(void)
{
#pragma omp for schedule(static)
	for (long row = 0; row < SIDE; row++) {
		for (long column = 0; column < SIDE; column++)
			picture[row][column] =
				product(root[(row + column) % SIDE], picture[row][column]);
	}
}

void run(long size)
{
#pragma omp parallel
	for (long round = 0; round < size; round++) {
		transform_rows(false);
		transpose();
		transform_rows(false);
		move();
		transform_rows(true);
		transpose();
		transform_rows(true);
	}
}

bool is_right(long size)
{
	long by = size % SIDE;

	for (long row = 0; row < SIDE; row++) {
		for (long column = 0; column < SIDE; column++) {
			double expected =
				value((row + SIDE - by) % SIDE, (column + SIDE - by) % SIDE);

			if (!(cabs(picture[row][column] - expected) < ACCURACY))
				return false;
		}
	}
	return true;
}
