/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads, writes, truncates, punches and maps one file at random, with a copy of its expected
 * content in memory. Every read is compared; sometimes the file is closed, opened again and read as
 * a whole.
 *
 * usage: fsx DIR [SEED [STEPS]]     prints the seed, which replays the run
 */

#define _GNU_SOURCE
#include "posix.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>

#define SIZE_MAX_BYTES (1 << 20)
#define STEPS          3000

static uint64_t state;
static uint8_t  model[SIZE_MAX_BYTES];
static size_t   size;
static uint8_t  buffer[SIZE_MAX_BYTES];
static char     name[4096];
static int      fd = -1;
static long     step;
static int      zeroes = 1;

static void
open_file(int flags)
{
	if (fd >= 0 && close(fd))
		FAIL("step %ld: closing", step);
	fd = open(name, O_RDWR | flags, 0644);
	if (fd < 0)
		FAIL("step %ld: opening %s", step, name);
}

static void
check_size(void)
{
	struct stat st;

	if (fstat(fd, &st) || st.st_size != (off_t)size)
		FAIL("step %ld: fstat gives %ld bytes, not %zu", step, (long)st.st_size, size);
	if (stat(name, &st) || st.st_size != (off_t)size)
		FAIL("step %ld: stat gives %ld bytes, not %zu", step, (long)st.st_size, size);
}

static void
check_bytes(const char *how, const uint8_t *bytes, size_t from, size_t len)
{
	for (size_t at = 0; at < len; at++)
		if (bytes[at] != model[from + at])
			FAIL("step %ld: %s of %zu bytes from %zu: byte %zu is %u, not %u", step, how, len,
			     from, from + at, bytes[at], model[from + at]);
}

/** A random position, often near the end of a chunk or page. */
static size_t
place(size_t limit)
{
	size_t at = below(&state, limit + 1);

	if (below(&state, 3) == 0)
		at = at / 4096 * 4096 + below(&state, 3) - 1;
	return at > limit ? limit : at;
}

static size_t
length(size_t from)
{
	static const size_t lens[] = {1, 16, 512, 4096, 8192, 65536, 200000};
	size_t len = 1 + below(&state, lens[below(&state, 7)]);

	return from + len > SIZE_MAX_BYTES ? SIZE_MAX_BYTES - from : len;
}

/** Extends the model with zeros. */
static void
grow(size_t end)
{
	if (end > size) {
		memset(model + size, 0, end - size);
		size = end;
	}
}

static void
wrote(size_t from, size_t len)
{
	if (from > size)
		grow(from);
	if (from + len > size)
		size = from + len;
	memcpy(model + from, buffer, len);
}

static void
do_write(void)
{
	size_t  from = place(SIZE_MAX_BYTES - 1), len = length(from), half = len / 2;
	ssize_t done;

	fill(buffer, len, draw(&state));
	switch (below(&state, 3)) {
	case 0:
		done = pwrite(fd, buffer, len, from);
		break;
	case 1:
		CHECK(lseek(fd, from, SEEK_SET) == (off_t)from);
		done = write(fd, buffer, len);
		CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)(from + len));
		break;
	default: {
		struct iovec iov[2] = {{buffer, half}, {buffer + half, len - half}};

		done = pwritev(fd, iov, 2, from);
	}
	}
	if (done != (ssize_t)len)
		FAIL("step %ld: writing %zu bytes at %zu gives %zd", step, len, from, done);
	wrote(from, len);
}

static void
do_append(void)
{
	size_t len = length(size);
	int    other;

	if (!len)
		return;
	other = open(name, O_WRONLY | O_APPEND);
	fill(buffer, len, draw(&state));
	if (other < 0 || write(other, buffer, len) != (ssize_t)len || close(other))
		FAIL("step %ld: appending %zu bytes to %zu", step, len, size);
	wrote(size, len);
}

static void
do_read(void)
{
	size_t  from = place(SIZE_MAX_BYTES - 1), len = length(from), half = len / 2;
	size_t  there = from < size ? size - from : 0, want = len < there ? len : there;
	ssize_t got;

	switch (below(&state, 3)) {
	case 0:
		got = pread(fd, buffer, len, from);
		break;
	case 1:
		CHECK(lseek(fd, from, SEEK_SET) == (off_t)from);
		got = read(fd, buffer, len);
		break;
	default: {
		struct iovec iov[2] = {{buffer, half}, {buffer + half, len - half}};

		got = preadv(fd, iov, 2, from);
	}
	}
	if (got != (ssize_t)want)
		FAIL("step %ld: reading %zu bytes at %zu of %zu gives %zd", step, len, from, size, got);
	check_bytes("read", buffer, from, want);
}

static void
do_map(void)
{
	size_t   page = sysconf(_SC_PAGESIZE), from = place(size) / page * page;
	size_t   len = size - from < 200000 ? size - from : 200000;
	int      sharing = below(&state, 2) ? MAP_SHARED : MAP_PRIVATE;
	uint8_t *map;

	if (!len)
		return;
	map = mmap(NULL, len, PROT_READ, sharing, fd, from);
	if (map == MAP_FAILED)
		FAIL("step %ld: mapping %zu bytes at %zu", step, len, from);
	check_bytes("a mapping", map, from, len);
	CHECK(!munmap(map, len));
}

static void
do_resize(void)
{
	size_t to = place(SIZE_MAX_BYTES);

	if (below(&state, 2) ? ftruncate(fd, to) : truncate(name, to))
		FAIL("step %ld: resizing from %zu to %zu", step, size, to);
	grow(to);
	size = to;
}

static void
do_allocate(void)
{
	size_t from = place(SIZE_MAX_BYTES - 1), len = length(from), end = from + len;
	int    kind = below(&state, 4), mode = 0;

	if (kind == 1)
		mode = FALLOC_FL_KEEP_SIZE;
	else if (kind == 2)
		mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;
	else if (kind == 3)
		mode = FALLOC_FL_ZERO_RANGE;
	if (kind == 3 && !zeroes)
		return;
	if (fallocate(fd, mode, from, len)) {
		/* File systems in memory do not support zeroing of ranges. */
		if (kind != 3 || errno != EOPNOTSUPP)
			FAIL("step %ld: fallocate %d of %zu bytes at %zu", step, kind, len, from);
		zeroes = 0;
		return;
	}
	if (kind == 0 || kind == 3)
		grow(end);
	if (kind >= 2 && from < size)
		memset(model + from, 0, (end < size ? end : size) - from);
}

/** The file system may choose where holes begin and end, but never where there is data. */
static void
do_seek(void)
{
	size_t from = place(size);
	off_t  found = lseek(fd, from, SEEK_DATA);
	size_t end = found < 0 ? size : (size_t)found;

	if (found < 0 && errno != ENXIO)
		FAIL("step %ld: seeking data from %zu", step, from);
	for (size_t at = from; at < end; at++)
		if (model[at])
			FAIL("step %ld: data at %zu is reported as a hole from %zu to %zu", step, at, from,
			     end);
	found = lseek(fd, from, SEEK_HOLE);
	if (from < size ? found < (off_t)from || found > (off_t)size : found >= 0 || errno != ENXIO)
		FAIL("step %ld: the first hole from %zu of %zu is at %ld", step, from, size, (long)found);
}

static void
check_all(void)
{
	off_t at = 0;

	open_file(0);
	check_size();
	for (ssize_t got; (got = read(fd, buffer, 65536)) != 0; at += got) {
		if (got < 0)
			FAIL("step %ld: reading at %ld", step, (long)at);
		check_bytes("reading the whole file", buffer, at, got);
	}
	CHECK(at == (off_t)size);
}

int
main(int argc, char **argv)
{
	static void (*const work[])(void) = {do_write, do_write,  do_write,    do_read, do_read,
					     do_map,   do_append, do_allocate, do_seek, do_resize};
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL) ^ getpid();
	long     steps = argc > 3 ? atol(argv[3]) : STEPS;

	if (argc < 2) {
		fprintf(stderr, "usage: fsx DIR [SEED [STEPS]]\n");
		return 2;
	}
	printf("fsx: seed %lu, %ld steps\n", (unsigned long)seed, steps);
	fflush(stdout);
	state = seed;
	snprintf(name, sizeof(name), "%s/fsx-%d", argv[1], (int)getpid());
	open_file(O_CREAT | O_EXCL);
	for (step = 1; step <= steps; step++) {
		work[below(&state, sizeof(work) / sizeof(*work))]();
		if (step % 10 == 0)
			check_size();
		if (step % 200 == 0)
			check_all();
	}
	check_all();
	CHECK(!close(fd) && !unlink(name));
	return 0;
}
