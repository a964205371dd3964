/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The skeleton application of the paper that emulates an object store (Chien et al., 2018): 200 cycles
 * of computation, and an I/O phase after every fifth. In a phase, all processes write one array of
 * integers with two dimensions, each its chunk. Rank 0 begins the tensor and sends its token, all
 * write, and rank 0 commits once all have written. The computation is adapted so that it takes 75 %
 * of the time, and I/O 25 %.
 *
 * compile: cc -O2 skeleton.c -o skeleton $(pkg-config --cflags --libs esker)
 *
 * usage: skeleton [--cycles N] [--rows N] POOL CONT
 *
 * Each process writes N rows (default 1024) of 1024 integers of 4 bytes in a phase, whatever the
 * number of processes. The pool keeps two tensors, and needs as much space.
 *
 * With MPI:  mpicc -DWITH_MPI skeleton.c $(pkg-config --cflags --libs esker) -o skeleton
 *            mpirun -n 4 ./skeleton POOL CONT
 */
#include "example.h"
#include "job.h"

#define CYCLES 200
#define EVERY 5
#define ROWS 1024
#define COLUMNS 1024

/* The run so far: `rates` has the MiB/s of each phase, `computing` and `io` are seconds. */
struct run {
	struct job    job;
	daos_handle_t store;
	uint64_t      rows;
	int32_t      *chunk;
	double       *rates;
	unsigned long phases;
	double        computing;
	double        io;
};

/* Changes the chunk for at least `until` seconds. */
static void
compute(struct run *run, double until)
{
	double   start = seconds(), took;
	uint64_t i;

	do {
		for (i = 1; i + 1 < run->rows * COLUMNS; i++)
			run->chunk[i] = (run->chunk[i - 1] ^ run->chunk[i + 1]) + (int32_t)i;
		took = seconds() - start;
	} while (took < until);
	run->computing += took;
}

/* Writes one tensor with all processes, and replaces the one before. */
static void
io_phase(struct run *run)
{
	uint64_t      rank = (uint64_t)run->job.rank, ranks = (uint64_t)run->job.ranks;
	uint64_t      shape[2] = {run->rows * ranks, COLUMNS};
	uint64_t      start[2] = {run->rows * rank, 0}, count[2] = {run->rows, COLUMNS};
	daos_size_t   bytes = run->rows * COLUMNS * sizeof(int32_t);
	double        began, took;
	daos_handle_t put;

	barrier();
	began = seconds();
	put = begin_tensor(run->store, run->job, "<i4", 2, shape, NULL, 0);
	check_store(esker_tensor_write(put, 2, start, count, run->chunk, bytes, NULL), "writing", "a chunk");
	commit_tensor(put, run->job, "state");
	took = longest(seconds() - began);
	run->io += took;
	run->rates[run->phases++] = (double)(bytes * ranks) / (1 << 20) / took;
}

/* Reads the part of this process from the last tensor, and compares it with the chunk in memory. */
static void
compare(struct run *run)
{
	esker_slab_t  slabs[2] = {{run->rows * (uint64_t)run->job.rank, 1, run->rows}, {0, 1, COLUMNS}};
	daos_size_t   size = run->rows * COLUMNS * sizeof(int32_t);
	int32_t      *found = allocate(size);
	daos_handle_t tensor;

	barrier();
	check_store(esker_tensor_open(run->store, "state", &tensor, NULL), "opening", "the last state");
	check_store(esker_tensor_get(tensor, slabs, 2, found, &size, NULL), "reading", "the last state");
	if (memcmp(found, run->chunk, size) != 0)
		fail("the last state differs");
	check_store(esker_tensor_close(tensor, NULL), "closing", "the last state");
	free(found);
}

/* Order of two rates, for qsort. */
static int
by_rate(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

/* Prints the rates of the phases, and the shares of computation and I/O. */
static void
tell(struct run *run, unsigned long cycles)
{
	qsort(run->rates, run->phases, sizeof(double), by_rate);
	printf("%d process%s, %lu cycles, %lu I/O phases\n", run->job.ranks, run->job.ranks == 1 ? "" : "es", cycles,
	       run->phases);
	printf("MiB/s written: median %.1f, minimum %.1f, maximum %.1f\n", run->rates[run->phases / 2],
	       run->rates[0], run->rates[run->phases - 1]);
	printf("I/O %.2f s, computation %.2f s: %.0f %% of the time is I/O\n", run->io, run->computing,
	       100 * run->io / (run->io + run->computing));
}

int
main(int argc, char **argv)
{
	struct run     run = {.job = job_start(&argc, &argv), .rows = ROWS};
	struct handles handles;
	unsigned long  cycle, cycles = CYCLES;
	int            at = 1;

	for (; argc > at + 1 && strncmp(argv[at], "--", 2) == 0; at += 2) {
		if (strcmp(argv[at], "--cycles") == 0)
			cycles = number(argv[at + 1], "--cycles");
		else if (strcmp(argv[at], "--rows") == 0)
			run.rows = number(argv[at + 1], "--rows");
		else
			fail("%s: no such option", argv[at]);
	}
	if (argc != at + 2 || cycles == 0 || cycles % EVERY != 0)
		fail("usage: %s [--cycles N] [--rows N] POOL CONT (the cycles are a multiple of %d)", argv[0], EVERY);
	run.store = open_tensors(&handles, run.job, argv[at], argv[at + 1]);
	run.chunk = allocate(run.rows * COLUMNS * sizeof(int32_t));
	run.rates = allocate((cycles / EVERY) * sizeof(double));
	for (cycle = 1; cycle <= cycles; cycle++) {
		/* Between two phases, three times as long as a phase has taken on average: 75 % of the time. */
		compute(&run, run.phases > 0 ? 3 * run.io / (double)run.phases / EVERY : 0);
		if (cycle % EVERY == 0)
			io_phase(&run);
	}
	compare(&run);
	if (run.job.rank == 0)
		tell(&run, cycles);
	check_store(esker_tensor_store_close(run.store, NULL), "closing", "the tensor store");
	close_handles(&handles);
	free(run.chunk);
	free(run.rates);
	job_end();
	return 0;
}
