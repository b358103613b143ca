// SPDX-License-Identifier: GPL-2.0-only
// Fork-join on a pool of threads: sorts, and sums over a stream. Prints the seconds that it took.
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.concurrent.ForkJoinPool;
import java.util.stream.IntStream;

final class Java {
    private static long round(long[] numbers) {
        long[] sorted = numbers.clone();
        Arrays.parallelSort(sorted);
        long wrong = IntStream.range(1, sorted.length).parallel().filter(i -> sorted[i - 1] > sorted[i]).count();
        if (wrong != 0)
            throw new IllegalStateException("the order is wrong");
        return IntStream.range(0, sorted.length).parallel().mapToLong(i -> sorted[i] ^ numbers[i]).sum();
    }

    public static void main(String[] words) throws Exception {
        int rounds = Integer.parseInt(words[0]), size = Integer.parseInt(words[1]);
        long[] numbers = new SplittableRandom(7).longs(size, 0, 1L << 40).toArray();
        long[] sorted = numbers.clone();
        Arrays.sort(sorted);
        long want = 0;
        for (int i = 0; i < size; i++)
            want += sorted[i] ^ numbers[i];
        round(numbers);
        long began = System.nanoTime();
        for (int i = 0; i < rounds; i++)
            if (round(numbers) != want)
                throw new IllegalStateException("the sum is wrong");
        double took = (System.nanoTime() - began) * 1e-9;
        int threads = ForkJoinPool.commonPool().getParallelism();
        System.out.printf("%d rounds on %d threads took %.6f s%nall sums are right%n", rounds, threads, took);
    }
}
