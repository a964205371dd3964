/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Two threads write to each page of a new file, one with pwrite, one to a shared mapping. Neither loses bytes of the
 * other.
 *
 * usage: pages DIR
 */
#define _GNU_SOURCE
#include "posix.h"

#include <pthread.h>
#include <sys/mman.h>

#define PAGES  4096
#define PAGE   4096
#define ROUNDS 8

static int   file;
static char *mapped;

static void *
stores(void *unused)
{
	for (size_t page = 0; page < PAGES; page++)
		mapped[page * PAGE + 100] = 's';
	return unused;
}

static void *
writes(void *unused)
{
	for (size_t page = 0; page < PAGES; page++)
		if (pwrite(file, "w", 1, page * PAGE + 200) != 1)
			FAIL("writing page %zu", page);
	return unused;
}

/** Counts pages that lack one of both bytes, in the mapping and in the file. */
static int
lost(void)
{
	int  count = 0;
	char there[PAGE];

	for (size_t page = 0; page < PAGES; page++) {
		char *shown = mapped + page * PAGE;

		if (pread(file, there, PAGE, page * PAGE) != PAGE)
			FAIL("reading page %zu", page);
		count += shown[100] != 's' || shown[200] != 'w' || there[100] != 's' || there[200] != 'w';
	}
	return count;
}

static int
lost_in_a_round(const char *path)
{
	pthread_t threads[2];

	file = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
	if (file < 0 || ftruncate(file, (off_t)PAGES * PAGE))
		FAIL("making %s", path);
	mapped = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		FAIL("mapping %s", path);
	if (pthread_create(&threads[0], NULL, writes, NULL) || pthread_create(&threads[1], NULL, stores, NULL))
		FAIL("starting threads");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	int count = lost();

	munmap(mapped, (size_t)PAGES * PAGE);
	close(file);
	unlink(path);
	return count;
}

int
main(int argc, char **argv)
{
	char path[4096];
	int  count = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: pages DIR\n");
		return 2;
	}
	snprintf(path, sizeof(path), "%s/pages-%d", argv[1], (int)getpid());
	for (int round = 0; round < ROUNDS; round++)
		count += lost_in_a_round(path);
	printf("%d of %d pages lack a write\n", count, ROUNDS * PAGES);
	return count ? 1 : 0;
}
