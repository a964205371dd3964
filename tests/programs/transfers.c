/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers with vectors, sendfile, copy_file_range and splice; several writers; unlinked files. */
#include "check.h"

#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define SIZE 200000

static unsigned char buffer[SIZE * 2];

static void
vectors(void)
{
	int          fd = open("file", O_RDWR | O_CREAT, 0644);
	char         a[3], b[4], c[10];
	struct iovec parts[3] = {{"abc", 3}, {"", 0}, {"defghij", 7}}, into[3] = {{a, 3}, {b, 4}, {c, 10}};

	GIVES(10, writev(fd, parts, 3));
	GIVES(10, pwritev(fd, parts, 3, 100));
	GIVES(10, pwritev2(fd, parts, 3, 10, 0));
	GIVES(10, pwritev64(fd, parts, 3, 200));
	GIVES(2, lseek(fd, 2, SEEK_SET));
	GIVES(17, readv(fd, into, 3));
	CHECK(memcmp(a, "cde", 3) == 0 && memcmp(b, "fghi", 4) == 0 && memcmp(c, "jabcdefghi", 10) == 0);
	GIVES(19, lseek(fd, 0, SEEK_CUR));
	GIVES(10, preadv(fd, into, 3, 200));
	CHECK(memcmp(a, "abc", 3) == 0 && memcmp(c, "hij", 3) == 0);
	GIVES(17, preadv2(fd, into, 3, 0, 0));
	GIVES(17, preadv64v2(fd, into, 3, 100, 0));
	CHECK(memcmp(b, "defg", 4) == 0 && memcmp(c + 3, "\0\0\0\0\0\0\0", 7) == 0);
	GIVES(19, lseek(fd, 0, SEEK_CUR));
	GIVES(17, preadv2(fd, into, 3, -1, 0));
	GIVES(36, lseek(fd, 0, SEEK_CUR));
	GIVES(0, readv(fd, into, 0));
}

/* RWF_APPEND moves the position only for the offset -1. */
static void
appended(void)
{
	int          fd = open("file", O_RDWR | O_CREAT, 0644), only_read = open("file", O_RDONLY);
	struct iovec part = {"abc", 3};

	GIVES(3, write(fd, "xyz", 3));
	GIVES(0, lseek(fd, 0, SEEK_SET));
	GIVES(3, pwritev2(fd, &part, 1, 1, RWF_APPEND));
	GIVES(0, lseek(fd, 0, SEEK_CUR));
	GIVES(3, pwritev2(fd, &part, 1, -1, RWF_APPEND));
	GIVES(9, lseek(fd, 0, SEEK_CUR));
	FAILS(EOPNOTSUPP, pwritev2(fd, &part, 1, -1, RWF_APPEND | 1 << 30));
	FAILS(EINVAL, pwritev2(fd, &part, 1, -2, RWF_APPEND));
	FAILS(EBADF, pwritev2(only_read, &part, 1, -1, RWF_APPEND));
	holds("file", "xyzabcabc");
}

static void
is_copy(const char *name, size_t length)
{
	int fd = open(name, O_RDONLY);

	GIVES(length, read(fd, buffer, sizeof(buffer)));
	CHECK(is_pattern(buffer, length, 0, 1));
	OK(close(fd));
}

/* All pairs of this file system and another one. */
static void
sent(void)
{
	char  names[2][300];
	int   from, to;
	off_t at;

	snprintf(names[0], sizeof(names[0]), "%s/from-%d", outside, (int)getpid());
	snprintf(names[1], sizeof(names[1]), "%s/to-%d", outside, (int)getpid());
	for (int pair = 0; pair < 4; pair++) {
		from = new_file(pair & 1 ? names[0] : "from", SIZE, 1);
		to = open(pair & 2 ? names[1] : "to", O_RDWR | O_CREAT | O_TRUNC, 0644);
		at = 0;
		while (at < SIZE)
			CHECK(sendfile(to, from, &at, 70000) > 0);
		GIVES(SIZE, at);
		GIVES(0, lseek(from, 0, SEEK_CUR));
		is_copy(pair & 2 ? names[1] : "to", SIZE);
		GIVES(100, sendfile64(to, from, NULL, 100));
		GIVES(100, lseek(from, 0, SEEK_CUR));
		GIVES(SIZE + 100, lseek(to, 0, SEEK_CUR));
		OK(close(from));
		OK(close(to));
		OK(unlink(pair & 1 ? names[0] : "from"));
		OK(unlink(pair & 2 ? names[1] : "to"));
	}
}

static void
copied(void)
{
	int         from = new_file("from", SIZE, 1), to = open("to", O_RDWR | O_CREAT, 0644);
	off64_t     at = 0, there = 0;
	struct stat info;

	while (at < SIZE)
		CHECK(copy_file_range(from, &at, to, &there, 60000, 0) > 0);
	is_copy("to", SIZE);
	GIVES(0, lseek(to, 0, SEEK_CUR));
	OK(ftruncate(to, 0));
	while (copy_file_range(from, NULL, to, NULL, SIZE, 0) > 0)
		;
	is_copy("to", SIZE);
	at = SIZE;
	GIVES(0, copy_file_range(from, &at, to, NULL, 10, 0));
	at = 10;
	there = SIZE + 5;
	GIVES(20, copy_file_range(from, &at, to, &there, 20, 0));
	OK(fstat(to, &info));
	GIVES(SIZE + 25, info.st_size);
	FAILS(EINVAL, copy_file_range(from, &at, to, &there, 10, 1));
}

static void
through_pipes(void)
{
	int   fd = new_file("file", SIZE, 1), ends[2], to = open("to", O_RDWR | O_CREAT, 0644);
	off_t at = 1000;

	OK(pipe(ends));
	GIVES(4096, splice(fd, &at, ends[1], NULL, 4096, 0));
	GIVES(5096, at);
	at = 0;
	GIVES(4096, splice(ends[0], NULL, to, &at, 4096, 0));
	GIVES(4096, pread(to, buffer, SIZE, 0));
	CHECK(is_pattern(buffer, 4096, 1000, 1));
	at = 7;
	GIVES(1000, sendfile(ends[1], fd, &at, 1000));
	GIVES(1000, read(ends[0], buffer, 4096));
	CHECK(is_pattern(buffer, 1000, 7, 1));
}

/* A splice moves what a pipe has or accepts, and waits only if that is nothing. An error loses no bytes. */
static void
through_full_and_empty_pipes(void)
{
	int   fd = new_file("file", SIZE, 1), to = open("to", O_RDWR | O_CREAT, 0644), only, ends[2];
	off_t at = 0;

	OK(pipe(ends));
	FAILS(EAGAIN, splice(ends[0], NULL, to, NULL, 4096, SPLICE_F_NONBLOCK));
	GIVES(100, write(ends[1], "0123456789012345678901234567890123456789012345678901234567890123456789"
			"012345678901234567890123456789", 100));
	CHECK((only = open("to", O_RDONLY)) >= 0);
	FAILS(EBADF, splice(ends[0], NULL, only, NULL, 4096, 0));
	GIVES(30, splice(ends[0], NULL, to, NULL, 30, 0));
	GIVES(70, splice(ends[0], NULL, to, NULL, 4096, 0));
	GIVES(100, pread(to, buffer, SIZE, 0));
	CHECK(memcmp(buffer, "0123456789", 10) == 0 && memcmp(buffer + 90, "0123456789", 10) == 0);

	CHECK(fcntl(ends[1], F_SETPIPE_SZ, 8192) == 8192);
	GIVES(8192, splice(fd, &at, ends[1], NULL, SIZE, 0));
	GIVES(8192, at);
	FAILS(EAGAIN, splice(fd, &at, ends[1], NULL, SIZE, SPLICE_F_NONBLOCK));
	GIVES(8192, at);
	GIVES(8192, read(ends[0], buffer, SIZE));
	CHECK(is_pattern(buffer, 8192, 0, 1));
	OK(close(ends[1]));
	GIVES(0, splice(ends[0], NULL, to, NULL, 4096, 0));
}

#define RECORD 37
#define ROUNDS 300

static void
append_records(int number)
{
	int  fd = open("log", O_WRONLY | O_APPEND);
	char record[RECORD + 1];

	for (int i = 0; i < ROUNDS; i++) {
		snprintf(record, sizeof(record), "%d %04d %029d\n", number, i, number * ROUNDS + i);
		GIVES(RECORD, write(fd, record, RECORD));
	}
}

/* No record is torn or lost, and the records of each writer are in order. */
static void
appended_by_many(void)
{
	static char log[4 * ROUNDS * RECORD + 1];
	pid_t       pids[4];
	int         number, round, rest, next[4] = {0};

	put("log", "");
	for (int i = 0; i < 4; i++) {
		if ((pids[i] = fork()) == 0) {
			append_records(i);
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++)
		child_succeeds(pids[i]);
	GIVES(4 * ROUNDS * RECORD, read(open("log", O_RDONLY), log, sizeof(log)));
	for (int i = 0; i < 4 * ROUNDS; i++) {
		GIVES(3, sscanf(log + i * RECORD, "%d %d %d", &number, &round, &rest));
		CHECK(log[i * RECORD + RECORD - 1] == '\n' && rest == number * ROUNDS + round);
		GIVES(next[number]++, round);
	}
}

static int shared;

static void *
write_blocks(void *number)
{
	unsigned char block[1000];

	for (size_t i = (size_t)number; i < 400; i += 8) {
		fill(block, sizeof(block), i * 1000, 1);
		GIVES(1000, pwrite(shared, block, 1000, (off_t)i * 1000));
	}
	return NULL;
}

static void *
make_files(void *number)
{
	char name[32];

	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "t%zu-%d", (size_t)number, i);
		put(name, name);
		holds(name, name);
		OK(unlink(name));
		CHECK(dup(shared) >= 0);
	}
	return NULL;
}

static void
by_threads(void)
{
	pthread_t threads[8];

	shared = open("file", O_RDWR | O_CREAT, 0644);
	for (size_t i = 0; i < 8; i++)
		OK(pthread_create(&threads[i], NULL, write_blocks, (void *)i));
	for (size_t i = 0; i < 8; i++)
		OK(pthread_join(threads[i], NULL));
	GIVES(400000, pread(shared, buffer, sizeof(buffer), 0));
	CHECK(is_pattern(buffer, 400000, 0, 1));
	for (size_t i = 0; i < 8; i++)
		OK(pthread_create(&threads[i], NULL, make_files, (void *)i));
	for (size_t i = 0; i < 8; i++)
		OK(pthread_join(threads[i], NULL));
}

static void
unlinked(void)
{
	int         fd = new_file("file", SIZE, 1), other = open("file", O_RDONLY), made;
	struct stat info;

	OK(unlink("file"));
	OK(close(new_file("file", 10, 2)));
	OK(fstat(fd, &info));
	CHECK(info.st_size == SIZE && info.st_nlink == 0);
	GIVES(SIZE, pread(other, buffer, sizeof(buffer), 0));
	CHECK(is_pattern(buffer, SIZE, 0, 1));
	GIVES(3, pwrite(fd, "end", 3, SIZE));
	OK(fstat(other, &info));
	GIVES(SIZE + 3, info.st_size);
	OK(ftruncate(fd, 10));
	GIVES(10, pread(other, buffer, sizeof(buffer), 0));
	OK(close(fd));
	GIVES(10, pread(other, buffer, sizeof(buffer), 0));
	holds("file", (fill(buffer, 10, 0, 2), buffer[10] = '\0', (const char *)buffer));
	made = open(".", O_TMPFILE | O_RDWR, 0600);
	if (made < 0) {
		CHECK(errno == ENOTSUP || errno == EISDIR);
		return;
	}
	GIVES(4, write(made, "text", 4));
	OK(fstat(made, &info));
	CHECK(info.st_size == 4 && info.st_nlink == 0);
}

/* A write is visible to other processes when it has returned. */
static void
seen_by_others(void)
{
	int   fd = new_file("file", 0, 1), ready[2], seen[2];
	char  byte;
	pid_t pid;

	OK(pipe(ready));
	OK(pipe(seen));
	if ((pid = fork()) == 0) {
		int         own = open("file", O_RDONLY);
		struct stat info;

		for (int i = 1; i <= 200; i++) {
			GIVES(1, read(ready[0], &byte, 1));
			OK(stat("file", &info));
			GIVES(i * 100, info.st_size);
			GIVES(100, read(own, buffer, 200));
			CHECK(is_pattern(buffer, 100, (size_t)(i - 1) * 100, 1));
			GIVES(1, write(seen[1], "x", 1));
		}
		_exit(0);
	}
	for (int i = 0; i < 200; i++) {
		fill(buffer, 100, (size_t)i * 100, 1);
		GIVES(100, write(fd, buffer, 100));
		GIVES(1, write(ready[1], "x", 1));
		GIVES(1, read(seen[0], &byte, 1));
	}
	child_succeeds(pid);
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(vectors), TEST(appended), TEST(sent), TEST(copied), TEST(through_pipes), TEST(through_full_and_empty_pipes), TEST(appended_by_many),
		TEST(by_threads), TEST(unlinked), TEST(seen_by_others),
	};

	return RUN(argc, argv, tests);
}
