/* SPDX-License-Identifier: Apache-2.0 */
/* mmap: private and shared, partial, beyond the end, after close; a shared writable mapping, or an
 * error. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define SIZE 300000

static void
private_reading(void)
{
	int            fd = new_file("file", SIZE, 1);
	unsigned char *map = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);

	CHECK(map != MAP_FAILED);
	OK(close(fd));
	CHECK(is_pattern(map, SIZE, 0, 1));
	/* The rest of the last page reads as zeros. */
	CHECK(is_zero(map + SIZE, 4096 - SIZE % 4096));
	OK(madvise(map, SIZE, MADV_SEQUENTIAL));
	OK(munmap(map, SIZE));
}

static void
private_writing(void)
{
	int            fd = new_file("file", SIZE, 2);
	unsigned char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	unsigned char  back[100];

	CHECK(map != MAP_FAILED);
	memset(map + 5000, 0, 100);
	CHECK(is_zero(map + 5000, 100));
	GIVES(100, pread(fd, back, 100, 5000));
	CHECK(is_pattern(back, 100, 5000, 2));
	OK(munmap(map, SIZE));
	OK(close(fd));
}

/* Advice to drop the memory of a private mapping does not change what it shows, as for any file. */
static void
advised_private(void)
{
	int            fd = new_file("file", SIZE, 2), space = PROT_READ | PROT_WRITE;
	unsigned char *map = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0), *part = map + 65536, *moved;

	CHECK(map != MAP_FAILED);
	OK(madvise(map, SIZE, MADV_DONTNEED));
	CHECK(is_pattern(map, SIZE, 0, 2));
	FAILS(EINVAL, madvise(map, SIZE, MADV_FREE));
	FAILS(EINVAL, madvise(map, SIZE, MADV_WIPEONFORK));
	OK(munmap(part, 65536));
	CHECK(mmap(part, 65536, space, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == part);
	memset(part, 1, 65536);
	OK(madvise(map, SIZE, MADV_DONTNEED));
	CHECK(is_pattern(map, 65536, 0, 2) && is_zero(part, 65536));
	CHECK(is_pattern(part + 65536, SIZE - 131072, 131072, 2));
	moved = mremap(map, 8192, 16384, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED ? is_pattern(moved, 16384, 0, 2) : errno == ENOMEM);
	moved = mremap(part + 65536, 65536, 4096, 0);
	CHECK(moved == part + 65536);
	OK(madvise(moved, 4096, MADV_DONTNEED));
	CHECK(is_pattern(moved, 4096, 131072, 2));
	OK(close(fd));
}

static void
shared_reading(void)
{
	int            fd = new_file("file", SIZE, 3);
	unsigned char *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);

	CHECK(map != MAP_FAILED);
	CHECK(is_pattern(map, SIZE, 0, 3));
	OK(munmap(map, SIZE));
	OK(close(fd));
	fd = open("file", O_RDONLY);
	map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED && is_pattern(map, SIZE, 0, 3));
	OK(munmap(map, SIZE));
	OK(close(fd));
}

static void
parts(void)
{
	int            fd = new_file("file", SIZE, 4);
	unsigned char *map = mmap64(NULL, 10000, PROT_READ, MAP_PRIVATE, fd, 8192);

	CHECK(map != MAP_FAILED && is_pattern(map, 10000, 8192, 4));
	OK(munmap(map, 10000));
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 100) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL);
	map = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(map != MAP_FAILED);
	CHECK(mmap(map + 65536, 8192, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 4096) == map + 65536);
	CHECK(is_pattern(map + 65536, 8192, 4096, 4));
	OK(munmap(map, 1 << 20));
	OK(close(fd));
}

static void
refused(void)
{
	int   fd = new_file("file", SIZE, 5);
	void *map;

	OK(close(fd));
	fd = open("file", O_WRONLY);
	CHECK(mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EACCES);
	OK(close(fd));
	fd = open("file", O_RDONLY);
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map == MAP_FAILED);
	OK(close(fd));
	fd = open(".", O_RDONLY);
	CHECK(mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	OK(close(fd));
}

/* A mapping stays as it is if another one at its address is refused. */
static void
replacement_refused(void)
{
	int            fd = new_file("file", 8192, 5);
	unsigned char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), back[2];

	if (map == MAP_FAILED) {
		CHECK(errno == ENODEV);
		return;
	}
	map[0] = 50;
	CHECK(mmap(map, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 100) == MAP_FAILED && errno == EINVAL);
	map[1] = 51;
	OK(munmap(map, 8192));
	GIVES(2, pread(fd, back, 2, 0));
	CHECK(back[0] == 50 && back[1] == 51);
	OK(close(fd));
}

/** Persistent memory: databases call no msync if they get such a mapping, as MariaDB for its log. */
static void
persistent_memory(void)
{
	int   fd = new_file("file", SIZE, 5);
	void *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);

	CHECK(map == MAP_FAILED && errno == EOPNOTSUPP);
	OK(close(fd));
}

/* Works as specified, or is rejected: writes are never discarded. */
static void
shared_writing(void)
{
	int            fd = new_file("file", SIZE, 6);
	unsigned char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char  back[100];
	pid_t          pid;

	if (map == MAP_FAILED) {
		CHECK(errno == ENODEV || errno == ENOTSUP || errno == EACCES);
		return;
	}
	memset(map + 100000, 0, 50);
	OK(msync(map, SIZE, MS_SYNC));
	GIVES(100, pread(fd, back, 100, 99975));
	CHECK(is_pattern(back, 25, 99975, 6) && is_zero(back + 25, 50));
	CHECK(is_pattern(back + 75, 25, 100050, 6));
	pid = fork();
	if (pid == 0) {
		map[0] = 77;
		_exit(0);
	}
	child_succeeds(pid);
	GIVES(77, map[0]);
	map[1] = 78;
	OK(munmap(map, SIZE));
	GIVES(2, pread(fd, back, 2, 0));
	CHECK(back[0] == 77 && back[1] == 78);
	OK(close(fd));
}

/* Two processes that map the same file see each other's writes, or are rejected: sqlite's index of
 * a write-ahead log depends on it. */
static void
shared_between_processes(void)
{
	int            fd = new_file("file", SIZE, 8), back[2], forth[2];
	unsigned char *map;
	char           byte;
	pid_t          pid;

	OK(pipe(forth));
	OK(pipe(back));
	pid = fork();
	CHECK(pid >= 0);
	fd = open("file", O_RDWR);
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pid == 0) {
		GIVES(1, write(back[1], map == MAP_FAILED ? "n" : "y", 1));
		GIVES(1, read(forth[0], &byte, 1));
		if (map == MAP_FAILED || byte == 'n')
			_exit(0);
		CHECK(map[1000] == 11);
		map[200000] = 22;
		GIVES(1, write(back[1], "d", 1));
		_exit(0);
	}
	GIVES(1, read(back[0], &byte, 1));
	if (map == MAP_FAILED || byte == 'n') {
		GIVES(1, write(forth[1], "n", 1));
		child_succeeds(pid);
		return;
	}
	map[1000] = 11;
	GIVES(1, write(forth[1], "g", 1));
	GIVES(1, read(back[0], &byte, 1));
	GIVES(22, map[200000]);
	child_succeeds(pid);
}

/* One step of another process: it waits until it is asked, changes the file, and answers. */
static void
step_of_other(int asked, int answers, int step)
{
	unsigned char data[5000];
	char          byte;
	int           fd;

	GIVES(1, read(asked, &byte, 1));
	memset(data, 'b', sizeof(data));
	fd = open("file", step == 2 ? O_WRONLY | O_APPEND : step == 5 ? O_WRONLY | O_TRUNC : O_WRONLY);
	CHECK(fd >= 0);
	switch (step) {
	case 0:
		GIVES(sizeof(data), pwrite(fd, data, sizeof(data), 6000));
		break;
	case 1:
		OK(ftruncate(fd, 8192));
		break;
	case 2:
		GIVES(100, write(fd, data, 100));
		break;
	case 3:
		OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 2000));
		break;
	case 4:
		OK(truncate("file", 4096));
		OK(ftruncate(fd, 8192));
		break;
	default:
		GIVES(10, write(fd, data, 10));
	}
	OK(close(fd));
	GIVES(1, write(answers, "d", 1));
}

static void
ask(int asks, int answered)
{
	char byte;

	GIVES(1, write(asks, "g", 1));
	GIVES(1, read(answered, &byte, 1));
}

/* A shared mapping for reading shows later writes of another process, whether or not that process knows of the
* mapping, or it is rejected. */
static void
written_by_another_process(void)
{
	int            fd = new_file("file", 3 * 4096, 9), forth[2], back[2];
	unsigned char *map;
	pid_t          pid;

	OK(pipe(forth));
	OK(pipe(back));
	pid = fork();
	if (pid == 0) {
		for (int step = 0; step < 6; step++)
			step_of_other(forth[0], back[1], step);
		_exit(0);
	}
	/* Longer than the file, as databases map it. */
	map = mmap(NULL, 16 * 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		CHECK(errno == ENODEV);
		OK(kill(pid, SIGKILL));
		return;
	}
	CHECK(is_pattern(map, 3 * 4096, 0, 9));
	ask(forth[1], back[0]);
	CHECK(is_pattern(map, 6000, 0, 9) && map[6000] == 'b' && map[10999] == 'b');
	CHECK(is_pattern(map + 11000, 1288, 11000, 9));
	ask(forth[1], back[0]);
	CHECK(map[8191] == 'b' && is_zero(map + 8192, 4096));
	ask(forth[1], back[0]);
	CHECK(map[8192] == 'b' && map[8291] == 'b' && map[8292] == 0);
	ask(forth[1], back[0]);
	CHECK(is_pattern(map, 4096, 0, 9) && is_zero(map + 4096, 2000) && map[6096] == 'b');
	ask(forth[1], back[0]);
	CHECK(is_pattern(map, 4096, 0, 9) && is_zero(map + 4096, 4096));
	ask(forth[1], back[0]);
	CHECK(map[9] == 'b' && is_zero(map + 10, 8182));
	child_succeeds(pid);
	OK(munmap(map, 16 * 4096));
	OK(close(fd));
}

/* Two writers: writes of another process stay when this one writes its own changes of the same page. */
static void
mixed_with_writes_of_another_process(void)
{
	int            fd = new_file("file", 8192, 10), forth[2], back[2];
	unsigned char *map, seen[8192];
	pid_t          pid;

	OK(pipe(forth));
	OK(pipe(back));
	pid = fork();
	if (pid == 0) {
		step_of_other(forth[0], back[1], 3);
		_exit(0);
	}
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		CHECK(errno == ENODEV);
		OK(kill(pid, SIGKILL));
		return;
	}
	map[8000] = 'm';
	ask(forth[1], back[0]);
	OK(msync(map, 8192, MS_SYNC));
	GIVES(8192, pread(fd, seen, 8192, 0));
	CHECK(is_zero(seen + 4096, 2000) && seen[8000] == 'm' && is_pattern(seen + 6096, 1904, 6096, 10));
	CHECK(memcmp(seen, map, 8192) == 0);
	child_succeeds(pid);
	OK(close(fd));
}

/* A child keeps the mapping of its parent, and still sees writes of others after the parent has unmapped it. */
static void
child_outlives_the_mapping_of_its_parent(void)
{
	int            fd = new_file("file", 3 * 4096, 11), ready[2], done[2], forth[2], back[2];
	unsigned char *map;
	char           byte;
	pid_t          writer, reader;

	OK(pipe(ready) | pipe(done) | pipe(forth) | pipe(back));
	writer = fork();
	if (writer == 0) {
		step_of_other(forth[0], back[1], 0);
		_exit(0);
	}
	map = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		CHECK(errno == ENODEV);
		OK(kill(writer, SIGKILL));
		return;
	}
	reader = fork();
	if (reader == 0) {
		GIVES(1, write(ready[1], "r", 1));
		GIVES(1, read(done[0], &byte, 1));
		_exit(map[6000] == 'b' ? 0 : 1);
	}
	GIVES(1, read(ready[0], &byte, 1));
	OK(munmap(map, 3 * 4096));
	OK(close(fd));
	/* A second mapping would be a new one. */
	fd = open("file", O_RDONLY);
	map = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	ask(forth[1], back[0]);
	CHECK(map[6000] == 'b');
	GIVES(1, write(done[1], "d", 1));
	child_succeeds(reader);
	child_succeeds(writer);
}

/* A child stores after its parent has unmapped the file, and makes no call before it ends or starts a program. */
static void
stored_by_a_child(void)
{
	for (int way = 0; way < 3; way++) {
		char           name[] = {'f', (char)('0' + way), 0}, *argv[] = {"true", NULL};
		int            fd = new_file(name, SIZE, 12), ends[2];
		unsigned char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), byte;
		pid_t          pid;

		if (map == MAP_FAILED) {
			CHECK(errno == ENODEV);
			return;
		}
		OK(pipe(ends));
		pid = fork();
		if (pid == 0) {
			GIVES(1, read(ends[0], &byte, 1));
			map[100000] = 77;
			if (way == 0)
				_exit(0);
			if (way == 1)
				quick_exit(0);
			execv("/bin/true", argv);
		}
		OK(munmap(map, SIZE));
		GIVES(1, write(ends[1], "g", 1));
		child_succeeds(pid);
		GIVES(1, pread(fd, &byte, 1, 100000));
		GIVES(77, byte);
		OK(close(fd));
	}
}

/* A process that maps a file for writing also writes the changes of another one that was killed. */
static void
written_for_a_killed_process(void)
{
	int            fd = new_file("file", SIZE, 13), ends[2];
	unsigned char *map, byte;
	pid_t          pid;

	OK(pipe(ends));
	pid = fork();
	if (pid == 0) {
		map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map != MAP_FAILED)
			map[100000] = 88;
		GIVES(1, write(ends[1], map == MAP_FAILED ? "n" : "y", 1));
		pause();
	}
	GIVES(1, read(ends[0], &byte, 1));
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (byte == 'y')
		CHECK(map != MAP_FAILED && map[100000] == 88);
	OK(kill(pid, SIGKILL));
	GIVES(pid, waitpid(pid, NULL, 0));
	if (map == MAP_FAILED)
		return;
	OK(munmap(map, SIZE));
	GIVES(1, pread(fd, &byte, 1, 100000));
	GIVES(88, byte);
	OK(close(fd));
}

static void
in_a_child(void)
{
	int            fd = new_file("file", SIZE, 7);
	unsigned char *map = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
	pid_t          pid;

	CHECK(map != MAP_FAILED);
	pid = fork();
	if (pid == 0)
		_exit(is_pattern(map, SIZE, 0, 7) ? 0 : 1);
	child_succeeds(pid);
	OK(unlink("file"));
	CHECK(is_pattern(map, SIZE, 0, 7));
	OK(close(fd));
}

static void
untouched(void)
{
	char           name[256];
	unsigned char *map;
	int            fd;

	snprintf(name, sizeof(name), "/esker-check-%d", (int)getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0);
	OK(ftruncate(fd, 8192));
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	OK(shm_unlink(name));
	memset(map, 1, 8192);
	OK(munmap(map, 8192));
	OK(close(fd));
	fd = memfd_create("check", 0);
	CHECK(fd >= 0);
	GIVES(4, write(fd, "text", 4));
	map = mmap(NULL, 4, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED && memcmp(map, "text", 4) == 0);
}

/* A mapping that is made shorter, or moved, covers only its new addresses. */
static void
resized_shared(void)
{
	int            fd = new_file("file", SIZE, 6), space = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_ANONYMOUS;
	int            reading = open("file", O_RDONLY);
	unsigned char *map = mmap(NULL, 16384, PROT_READ, MAP_SHARED, reading, 0), *moved, back[8192];

	CHECK(map != MAP_FAILED);
	CHECK(mremap(map, 16384, 4096, 0) == map);
	CHECK(mmap(map + 8192, 4096, PROT_READ, how | MAP_FIXED_NOREPLACE, -1, 0) == map + 8192);
	OK(mprotect(map + 8192, 4096, space));
	OK(munmap(map + 8192, 4096));
	OK(munmap(map, 4096));
	map = mmap(NULL, 16384, space, MAP_SHARED, fd, 0);
	moved = mmap(NULL, 16384, space, how, -1, 0);
	CHECK(map != MAP_FAILED && moved != MAP_FAILED);
	map[8192] = pattern(8192, 6) + 1;
	CHECK(mremap(map, 16384, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved);
	moved[5000] = pattern(5000, 6) + 1;
	OK(msync(moved, 8192, MS_SYNC));
	GIVES(8192, pread(reading, back, 8192, 4096));
	GIVES(pattern(5000, 6) + 1, back[5000 - 4096]);
	GIVES(pattern(8192, 6) + 1, back[8192 - 4096]);
	CHECK(mremap(moved, 8191, 8192, 0) == moved);
	map = mremap(moved, 8192, 16384, MREMAP_MAYMOVE);
	CHECK(map != MAP_FAILED ? is_pattern(map + 8193, 8191, 8193, 6) : errno == ENOMEM);
}

static atomic_uchar written;

/* Stores a byte next to each byte that a call writes, as soon as it sees that byte in its mapping. */
static void *
store_beside(void *memory)
{
	volatile unsigned char *map = memory;

	for (int round = 1; round < 200; round++) {
		while (map[0] != round)
			;
		map[1] = round;
		written = round;
	}
	return NULL;
}

/* A call that writes to the file does not make a store into the same page count as written. */
static void
stored_during_a_write(void)
{
	int            fd = new_file("file", 4096, 7);
	unsigned char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char  page[4096] = {0}, back[2];
	pthread_t      thread;

	CHECK(map != MAP_FAILED);
	GIVES(4096, pwrite(fd, page, 4096, 0));
	OK(pthread_create(&thread, NULL, store_beside, map));
	for (int round = 1; round < 200; round++) {
		page[0] = round;
		GIVES(4096, pwrite(fd, page, 4096, 0));
		while (written != round)
			;
		GIVES(2, pread(fd, back, 2, 0));
		GIVES(round, back[1]);
	}
	OK(pthread_join(thread, NULL));
	OK(munmap(map, 4096));
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(private_reading), TEST(private_writing), TEST(advised_private), TEST(shared_reading), TEST(parts),
		TEST(refused), TEST(replacement_refused), TEST(persistent_memory), TEST(shared_writing),
		TEST(shared_between_processes), TEST(stored_by_a_child), TEST(written_for_a_killed_process),
		TEST(in_a_child),
		TEST(untouched), TEST(written_by_another_process),
		TEST(mixed_with_writes_of_another_process), TEST(resized_shared), TEST(stored_during_a_write),
		TEST(child_outlives_the_mapping_of_its_parent),
	};

	return RUN(argc, argv, tests);
}
