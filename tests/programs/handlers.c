/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal handlers that use files while they interrupt calls on files. Each of their calls either returns the right
 * result, or fails with EDEADLK. No call reports that a file is empty or missing.
 */
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#define LENGTH 10000

/** The file that the handler uses, its absolute path, and a pipe. */
static int  watched, ends[2];
static char absolute[4096];

/** Calls of the handler that were right, and calls that were refused. */
static volatile sig_atomic_t right, refused;

/** A call that failed with EDEADLK. */
static bool
is_refused(bool failed)
{
	CHECK(!failed || errno == EDEADLK);
	if (failed)
		refused++;
	else
		right++;
	return failed;
}

static void
read_there(void)
{
	char         one[64], other[64];
	struct iovec parts[] = {{one, 64}, {other, 64}};
	ssize_t      length = pread(watched, one, 64, 1000);

	if (!is_refused(length < 0))
		CHECK(length == 64 && is_pattern(one, 64, 1000, 3));
	length = preadv(watched, parts, 2, 100);
	if (!is_refused(length < 0))
		CHECK(length == 128 && is_pattern(one, 64, 100, 3) && is_pattern(other, 64, 164, 3));
	length = read(watched, one, 64);
	if (!is_refused(length < 0))
		CHECK(length == 64 && is_pattern(one, 64, 0, 3));
}

static void
move_there(void)
{
	off_t   from = 500;
	char    there[64];
	off_t   end = lseek(watched, 0, SEEK_END);
	ssize_t sent;

	if (!is_refused(end < 0))
		GIVES(LENGTH, end);
	sent = sendfile(ends[1], watched, &from, 64);
	if (!is_refused(sent < 0)) {
		GIVES(64, read(ends[0], there, sizeof(there)));
		CHECK(is_pattern(there, 64, 500, 3));
	}
	(void)is_refused(lseek(watched, 0, SEEK_SET) < 0);
}

static void
look_there(void)
{
	struct stat   status;
	struct statfs space;

	if (!is_refused(fstat(watched, &status) != 0))
		CHECK(status.st_size == LENGTH && S_ISREG(status.st_mode));
	if (!is_refused(stat(absolute, &status) != 0))
		GIVES(LENGTH, status.st_size);
	(void)is_refused(access(absolute, R_OK) != 0);
	if (!is_refused(fstatfs(watched, &space) != 0))
		CHECK(space.f_blocks > 0);
}

static void
map_there(void)
{
	char *memory = mmap(NULL, LENGTH, PROT_READ, MAP_PRIVATE, watched, 0);

	if (!is_refused(memory == MAP_FAILED)) {
		CHECK(is_pattern(memory, LENGTH, 0, 3));
		OK(munmap(memory, LENGTH));
	}
}

static void
open_there(void)
{
	int copy = dup(watched), fd = open(absolute, O_RDONLY), flags;

	flags = fcntl(watched, F_GETFL);
	if (!is_refused(flags < 0))
		GIVES(O_RDWR, flags & O_ACCMODE);
	if (!is_refused(fd < 0))
		OK(close(fd));
	if (!is_refused(copy < 0))
		OK(close(copy));
	(void)is_refused(pwrite(watched, "x", 1, LENGTH) < 0);
	(void)is_refused(ftruncate(watched, LENGTH) != 0);
}

static void
handle(int signal)
{
	int before = errno;

	(void)signal;
	read_there();
	move_there();
	look_there();
	map_there();
	open_there();
	errno = before;
}

/** Files under `esker run` are used by library calls, which a handler can interrupt. */
static bool
is_intercepted(void)
{
	return getenv("ESKER_MOUNT") != NULL;
}

static void
calls_that_interrupt_a_call(void)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	struct itimerval often = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
	struct itimerval never = {.it_value.tv_usec = 0};
	static char      block[1 << 18];
	int              other = new_file("other", 0, 1);

	watched = new_file("watched", LENGTH, 3);
	OK(pipe(ends));
	CHECK(realpath("watched", absolute) != NULL);
	fill(block, sizeof(block), 0, 5);
	OK(sigaction(SIGPROF, &action, NULL));
	OK(setitimer(ITIMER_PROF, &often, NULL));
	for (int round = 0; round < 40 || (is_intercepted() && refused < 200); round++) {
		GIVES(sizeof(block), pwrite(other, block, sizeof(block), (round % 16) * sizeof(block)));
		GIVES(sizeof(block), pread(other, block, sizeof(block), (round % 16) * sizeof(block)));
		CHECK(is_pattern(block, sizeof(block), 0, 5));
	}
	OK(setitimer(ITIMER_PROF, &never, NULL));
	OK(close(other));
	GIVES(0, lseek(watched, 0, SEEK_SET));
	printf("%d right, %d refused\n", (int)right, (int)refused);
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(calls_that_interrupt_a_call)};

	return RUN(argc, argv, tests);
}
