/* SPDX-License-Identifier: Apache-2.0 */
/* flock, record locks of fcntl and of open file descriptions: they exclude other processes. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/file.h>
#include <time.h>

#define WORKERS 4
#define ROUNDS  50

/* Exit status of a function run in a child process. */
static int
child(int (*run)(void))
{
	int   status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(run());
	GIVES(pid, waitpid(pid, &status, 0));
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int
take_flock(int how)
{
	int fd = open("file", O_RDWR);

	if (fd < 0)
		return 2;
	return flock(fd, how | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? 1 : 3;
}

static int
take_flock_shared(void)
{
	return take_flock(LOCK_SH);
}

static int
take_flock_exclusive(void)
{
	return take_flock(LOCK_EX);
}

/* Status of a new lock of 10 bytes from this offset on. */
static int
lock_from(off_t offset)
{
	int fd = open("file", O_RDWR);

	if (fd < 0 || lseek(fd, offset, SEEK_SET) != offset)
		return 2;
	return lockf(fd, F_TLOCK, 10) == 0 ? 0 : errno == EAGAIN || errno == EACCES ? 1 : 3;
}

static int
lock_from_100(void)
{
	return lock_from(100);
}

static int
lock_from_0(void)
{
	return lock_from(0);
}

/* Locks that count from the offset of the descriptor. */
static void
from_the_offset(void)
{
	int          fd = new_file("file", 200, 1);
	struct flock before = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -2, .l_len = 1};

	GIVES(100, lseek(fd, 100, SEEK_SET));
	OK(lockf(fd, F_TLOCK, 10));
	GIVES(1, child(lock_from_100));
	GIVES(0, child(lock_from_0));
	OK(fcntl(fd, F_SETLK, &before));
	GIVES(1, lseek(fd, 1, SEEK_SET));
	FAILS(EINVAL, fcntl(fd, F_SETLK, &before));
}

static void
flock_excludes(void)
{
	int fd = new_file("file", 10, 1), copy, other;

	OK(flock(fd, LOCK_EX));
	GIVES(1, child(take_flock_shared));
	OK(flock(fd, LOCK_SH));
	GIVES(0, child(take_flock_shared));
	GIVES(1, child(take_flock_exclusive));
	copy = dup(fd);
	OK(close(fd));
	GIVES(1, child(take_flock_exclusive));
	OK(flock(copy, LOCK_UN));
	GIVES(0, child(take_flock_exclusive));
	OK(flock(copy, LOCK_EX | LOCK_NB));
	other = open("file", O_RDONLY);
	FAILS(EWOULDBLOCK, flock(other, LOCK_SH | LOCK_NB));
	OK(close(copy));
	OK(flock(other, LOCK_SH | LOCK_NB));
	OK(close(other));
	GIVES(0, child(take_flock_exclusive));
}

static struct flock
record(short type, off_t from, off_t length)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
}

static int command = F_SETLK;

static int
take_record(short type, off_t from, off_t length)
{
	struct flock lock = record(type, from, length);
	int          fd = open("file", O_RDWR);

	if (fd < 0)
		return 2;
	if (fcntl(fd, command, &lock) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? 1 : 3;
}

static int
take_first(void)
{
	return take_record(F_WRLCK, 0, 10);
}

static int
take_second(void)
{
	return take_record(F_WRLCK, 10, 10);
}

static int
read_second(void)
{
	return take_record(F_RDLCK, 10, 10);
}

static int
take_end(void)
{
	return take_record(F_WRLCK, 1000, 0);
}

static void
records_exclude(void)
{
	int          fd = new_file("file", 10, 1);
	struct flock lock = record(F_WRLCK, 0, 10), asked;

	OK(fcntl(fd, command, &lock));
	GIVES(1, child(take_first));
	GIVES(0, child(take_second));
	lock = record(F_RDLCK, 10, 10);
	OK(fcntl(fd, command, &lock));
	GIVES(0, child(read_second));
	GIVES(1, child(take_second));
	GIVES(0, child(take_end));
	lock = record(F_WRLCK, 500, 0);
	OK(fcntl(fd, command, &lock));
	GIVES(1, child(take_end));
	lock = record(F_UNLCK, 0, 0);
	OK(fcntl(fd, command, &lock));
	GIVES(0, child(take_first));
	GIVES(0, child(take_end));
	asked = record(F_WRLCK, 0, 10);
	OK(fcntl(fd, command == F_SETLK ? F_GETLK : F_OFD_GETLK, &asked));
	GIVES(F_UNLCK, asked.l_type);
}

static void
open_file_records_exclude(void)
{
	struct flock lock = record(F_WRLCK, 0, 10);
	int          one, other;

	command = F_OFD_SETLK;
	records_exclude();
	one = open("file", O_RDWR);
	other = open("file", O_RDWR);
	OK(fcntl(one, F_OFD_SETLK, &lock));
	lock = record(F_WRLCK, 5, 10);
	FAILS(EAGAIN, fcntl(other, F_OFD_SETLK, &lock));
	OK(close(one));
	OK(fcntl(other, F_OFD_SETLK, &lock));
}

static int
asks_who(void)
{
	struct flock asked = record(F_WRLCK, 3, 1);
	int          fd = open("file", O_RDWR);

	if (fcntl(fd, F_GETLK, &asked) != 0)
		return 2;
	return asked.l_type == F_WRLCK && asked.l_pid == getppid() && asked.l_start == 0 && asked.l_len == 10 ? 0 : 1;
}

/* A record lock reports its holder, ends with any close of the file, and is not inherited by a
 * child. */
static void
records_belong_to_a_process(void)
{
	int          fd = new_file("file", 10, 1), other;
	struct flock lock = record(F_WRLCK, 0, 10);

	OK(fcntl(fd, F_SETLK, &lock));
	GIVES(0, child(asks_who));
	other = open("file", O_RDONLY);
	OK(close(other));
	GIVES(0, child(take_first));
	lock = record(F_RDLCK, 0, 1);
	OK(close(fd));
	fd = open("file", O_WRONLY);
	FAILS(EBADF, fcntl(fd, F_SETLK, &lock));
	OK(lseek(fd, 0, SEEK_SET));
	OK(lockf(fd, F_TLOCK, 10));
	GIVES(1, child(take_first));
	OK(lockf(fd, F_ULOCK, 10));
	OK(lockf(fd, F_TEST, 10));
}

static void
dead_holders_hold_nothing(void)
{
	int   fd = new_file("file", 10, 1), ready[2];
	char  byte;
	pid_t pid;

	OK(pipe(ready));
	pid = fork();
	if (pid == 0) {
		struct flock lock = record(F_WRLCK, 0, 0);
		int          own = open("file", O_RDWR);

		OK(fcntl(own, F_SETLK, &lock));
		OK(flock(own, LOCK_EX));
		GIVES(1, write(ready[1], "x", 1));
		pause();
	}
	GIVES(1, read(ready[0], &byte, 1));
	GIVES(1, child(take_first));
	GIVES(1, child(take_flock_shared));
	OK(kill(pid, 9));
	GIVES(pid, waitpid(pid, NULL, 0));
	GIVES(0, child(take_first));
	GIVES(0, child(take_flock_exclusive));
	OK(close(fd));
}

enum way { FLOCK, RECORD, OPEN_FILE };

/* Read a number, wait a little, write the number plus one: without exclusion, increments are lost.
 * */
static void
count_up(enum way way)
{
	struct timespec little = {0, 200000};
	struct flock    lock = record(F_WRLCK, 100, 1);
	int             fd = open("counter", O_RDWR), wait = way == RECORD ? F_SETLKW : F_OFD_SETLKW;
	uint64_t        number;

	CHECK(fd >= 0);
	for (int i = 0; i < ROUNDS; i++) {
		lock.l_type = F_WRLCK;
		OK(way == FLOCK ? flock(fd, LOCK_EX) : fcntl(fd, wait, &lock));
		GIVES(8, pread(fd, &number, 8, 0));
		nanosleep(&little, NULL);
		number++;
		GIVES(8, pwrite(fd, &number, 8, 0));
		lock.l_type = F_UNLCK;
		OK(way == FLOCK ? flock(fd, LOCK_UN) : fcntl(fd, wait, &lock));
	}
	_exit(0);
}

static void
counters(void)
{
	uint64_t number = 0;
	pid_t    pids[WORKERS];
	int      fd;

	for (enum way way = FLOCK; way <= OPEN_FILE; way++) {
		fd = open("counter", O_RDWR | O_CREAT | O_TRUNC, 0644);
		number = 0;
		GIVES(8, pwrite(fd, &number, 8, 0));
		for (int i = 0; i < WORKERS; i++)
			if ((pids[i] = fork()) == 0)
				count_up(way);
		for (int i = 0; i < WORKERS; i++)
			child_succeeds(pids[i]);
		GIVES(8, pread(fd, &number, 8, 0));
		GIVES(WORKERS * ROUNDS, number);
		OK(close(fd));
	}
}

/* Counts up like count_up, but each round opens the file again: the lock is the same for every open file. */
static void
count_up_anew(int seed)
{
	struct flock lock = record(F_WRLCK, 0, 0);
	uint64_t     number;

	for (int i = 0; i < ROUNDS; i++) {
		int fd = open("counter", O_RDWR);

		CHECK(fd >= 0);
		/* Locks of the two kinds are independent: all processes take both, in the same order. */
		OK(flock(fd, LOCK_EX));
		OK(fcntl(fd, F_OFD_SETLKW, &lock));
		GIVES(8, pread(fd, &number, 8, 0));
		if ((i + seed) % 3 == 0)
			sched_yield();
		number++;
		GIVES(8, pwrite(fd, &number, 8, 0));
		OK(close(fd));
	}
	_exit(0);
}

static void
opened_for_each_lock(void)
{
	uint64_t number = 0;
	pid_t    pids[WORKERS];
	int      fd = open("counter", O_RDWR | O_CREAT, 0644);

	GIVES(8, pwrite(fd, &number, 8, 0));
	OK(close(fd));
	for (int i = 0; i < WORKERS; i++)
		if ((pids[i] = fork()) == 0)
			count_up_anew(i);
	for (int i = 0; i < WORKERS; i++)
		child_succeeds(pids[i]);
	fd = open("counter", O_RDONLY);
	GIVES(8, pread(fd, &number, 8, 0));
	GIVES(WORKERS * ROUNDS, number);
	OK(close(fd));
}

/* A lock to the end of the file is reported as such, whatever the maximum file size is. */
static void
to_the_end(void)
{
	struct flock all = record(F_WRLCK, 10, 0), asked = record(F_WRLCK, 0, 0);
	int          fd = new_file("file", 100, 1), other = open("file", O_RDWR);

	OK(fcntl(fd, F_OFD_SETLK, &all));
	OK(fcntl(other, F_OFD_GETLK, &asked));
	GIVES(F_WRLCK, asked.l_type);
	CHECK(asked.l_start == 10 && asked.l_len == 0);
	all = record(F_UNLCK, 0, 0);
	OK(fcntl(fd, F_OFD_SETLK, &all));
	asked = record(F_WRLCK, 0, 0);
	OK(fcntl(other, F_OFD_GETLK, &asked));
	CHECK(asked.l_type == F_UNLCK && asked.l_start == 0 && asked.l_len == 0);
	OK(close(fd));
	OK(close(other));
}

/* A process that takes and drops a lock on "file" on request. It starts before any lock, so that no fork happens
* between two locks. */
struct other {
	pid_t pid;
	int   tell[2], hear[2];
};

static void
serve(const struct other *other)
{
	struct flock first = record(F_WRLCK, 0, 1);
	char         what;
	int          status, fd = open("file", O_RDWR);

	while (read(other->tell[0], &what, 1) == 1) {
		if (what == 'f')
			status = flock(fd, LOCK_EX | LOCK_NB);
		else if (what == 'u')
			status = flock(fd, LOCK_UN);
		else
			status = fcntl(fd, F_OFD_SETLK, &first);
		what = status == 0 ? 'y' : 'n';
		if (write(other->hear[1], &what, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static struct other
start_other(void)
{
	struct other other;

	OK(pipe(other.tell));
	OK(pipe(other.hear));
	other.pid = fork();
	CHECK(other.pid >= 0);
	if (other.pid == 0) {
		close(other.tell[1]);
		serve(&other);
	}
	OK(close(other.tell[0]));
	return other;
}

static char
ask(const struct other *other, char what)
{
	GIVES(1, write(other->tell[1], &what, 1));
	GIVES(1, read(other->hear[0], &what, 1));
	return what;
}

static void
end_other(const struct other *other)
{
	OK(close(other->tell[1]));
	child_succeeds(other->pid);
	OK(close(other->hear[0]));
	OK(close(other->hear[1]));
}

static void
closed_files_hold_nothing(void)
{
	struct flock first = record(F_WRLCK, 0, 1);
	struct other other;
	int          fd;

	OK(close(new_file("file", 100, 1)));
	other = start_other();
	for (int round = 0; round < 3; round++) {
		fd = open("file", O_RDWR);
		OK(flock(fd, LOCK_EX));
		OK(fcntl(fd, F_OFD_SETLK, &first));
		GIVES('n', ask(&other, 'f'));
		GIVES('n', ask(&other, 'r'));
		OK(close(fd));
		GIVES('y', ask(&other, 'f'));
		fd = open("file", O_RDWR);
		FAILS(EWOULDBLOCK, flock(fd, LOCK_SH | LOCK_NB));
		GIVES('y', ask(&other, 'u'));
		OK(flock(fd, LOCK_SH | LOCK_NB));
		OK(close(fd));
	}
	GIVES('y', ask(&other, 'r'));
	end_other(&other);
}

/* Opens, locks and closes other files while this one is locked. */
static void
records_outlive_other_files(void)
{
	struct flock first = record(F_WRLCK, 0, 1);
	struct other other;
	char         name[16];
	int          fd = new_file("file", 100, 1), again;

	other = start_other();
	again = open("file", O_RDWR);
	OK(flock(again, LOCK_SH));
	OK(close(again));
	OK(fcntl(fd, F_SETLK, &first));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "other%d", i);
		again = open(name, O_RDWR | O_CREAT, 0644);
		OK(flock(again, LOCK_EX));
		OK(close(again));
	}
	GIVES('n', ask(&other, 'r'));
	OK(close(fd));
	GIVES('y', ask(&other, 'r'));
	end_other(&other);
}

/* A second open file of the same file, which locks or is inherited, does not end record locks. */
static void
records_outlive_a_second_open_file(void)
{
	struct flock first = record(F_WRLCK, 0, 10);
	struct other other;
	int          fd = new_file("file", 100, 1), again;

	other = start_other();
	OK(fcntl(fd, F_SETLK, &first));
	again = open("file", O_RDONLY);
	CHECK(again >= 0);
	GIVES(1, child(take_first));
	GIVES('n', ask(&other, 'r'));
	again = open("file", O_RDONLY);
	OK(flock(again, LOCK_SH));
	GIVES('n', ask(&other, 'r'));
	OK(close(fd));
	GIVES('y', ask(&other, 'r'));
	end_other(&other);
}

struct byte_lock {
	int                fd, byte;
	pthread_barrier_t *start;
};

static void *
lock_byte(void *of)
{
	struct byte_lock *wanted = of;
	struct flock      lock = record(F_WRLCK, wanted->byte, 1);

	pthread_barrier_wait(wanted->start);
	return (void *)(intptr_t)fcntl(wanted->fd, F_SETLK, &lock);
}

static int
both_are_held(void)
{
	int fd = open("file", O_RDWR);

	for (int byte = 0; byte < 2; byte++) {
		struct flock asked = record(F_WRLCK, byte, 1);

		if (fd < 0 || fcntl(fd, F_GETLK, &asked) != 0 || asked.l_type == F_UNLCK)
			return 1;
	}
	return 0;
}

/* Two threads take the first locks of a new open file at the same time. */
static void
first_records_of_threads(void)
{
	pthread_barrier_t start;

	OK(close(new_file("file", 100, 1)));
	OK(pthread_barrier_init(&start, NULL, 2));
	for (int round = 0; round < 200; round++) {
		struct byte_lock one = {open("file", O_RDWR), 0, &start}, two = {one.fd, 1, &start};
		pthread_t        thread;
		void            *locked;

		CHECK(one.fd >= 0);
		OK(pthread_create(&thread, NULL, lock_byte, &two));
		CHECK(lock_byte(&one) == NULL);
		OK(pthread_join(thread, &locked));
		CHECK(locked == NULL);
		GIVES(0, child(both_are_held));
		OK(close(one.fd));
	}
}

static atomic_int is_over;

static void *
open_and_close(void *name)
{
	close(open(name, O_RDWR | O_CREAT, 0644));
	while (!is_over)
		close(open(name, O_RDONLY));
	return NULL;
}

/* A child has the content of a file that was removed after the fork, whatever other threads closed during the fork. */
static void
inherited_while_others_are_closed(void)
{
	static char *names[] = {"a", "b", "c"};
	pthread_t    threads[3];
	char         byte;

	for (int i = 0; i < 3; i++)
		OK(pthread_create(&threads[i], NULL, open_and_close, names[i]));
	for (int round = 0; round < 4 * ROUNDS; round++) {
		int   told[2], low = new_file("file", 10, 1), fd = fcntl(low, F_DUPFD, 100);
		pid_t pid;

		CHECK(fd >= 100);
		OK(close(low));
		OK(pipe(told));
		pid = fork();
		if (pid == 0) {
			close(told[1]);
			_exit(read(told[0], &byte, 1) != 0 || pread(fd, &byte, 1, 0) != 1);
		}
		OK(close(told[0]));
		OK(close(fd));
		OK(unlink("file"));
		OK(close(told[1]));
		child_succeeds(pid);
	}
	is_over = 1;
	for (int i = 0; i < 3; i++)
		OK(pthread_join(threads[i], NULL));
}

static void *
lock_new_files(void *start)
{
	char name[32];

	for (int i = 0; i < 100; i++) {
		int fd;

		snprintf(name, sizeof(name), "%s%d", (char *)start, i);
		fd = open(name, O_RDWR | O_CREAT, 0644);
		if (fd < 0 || flock(fd, LOCK_EX) != 0 || close(fd) != 0)
			return start;
	}
	return NULL;
}

/* Locks leave the umask of the process as it is, also while they are taken. */
static void
locked_without_the_umask(void)
{
	static char *starts[] = {"a", "b", "c", "d"};
	pthread_t    threads[4];
	char         name[4096];
	struct stat  st;
	void        *failed;

	umask(022);
	snprintf(name, sizeof(name), "%s/made", outside);
	for (int i = 0; i < 4; i++)
		OK(pthread_create(&threads[i], NULL, lock_new_files, starts[i]));
	for (int i = 0; i < 1000; i++) {
		int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0666);

		OK(fstat(fd, &st));
		GIVES(0644, st.st_mode & 0777);
		OK(close(fd));
		OK(unlink(name));
	}
	for (int i = 0; i < 4; i++) {
		OK(pthread_join(threads[i], &failed));
		CHECK(failed == NULL);
	}
	GIVES(022, umask(022));
}

/* Takes the lock, drops it, forks, and takes it again. */
static void
lock_beside_a_child(int tell)
{
	int fd = open("file", O_RDWR);

	if (flock(fd, LOCK_EX) != 0 || close(fd) != 0)
		_exit(1);
	if (fork() == 0) {
		pause();
		_exit(0);
	}
	fd = open("file", O_RDWR);
	if (flock(fd, LOCK_EX) != 0 || write(tell, "y", 1) != 1)
		_exit(1);
	pause();
	_exit(0);
}

/* The child of a killed process does not share a lock that its parent took after the fork. */
static void
taken_after_the_fork(void)
{
	int   status, fd, told[2];
	char  what = 'n';
	pid_t holder;

	OK(close(new_file("file", 100, 1)));
	OK(pipe(told));
	holder = fork();
	CHECK(holder >= 0);
	if (holder == 0) {
		OK(setpgid(0, 0));
		lock_beside_a_child(told[1]);
	}
	GIVES(1, read(told[0], &what, 1));
	GIVES('y', what);
	fd = open("file", O_RDWR);
	FAILS(EWOULDBLOCK, flock(fd, LOCK_EX | LOCK_NB));
	OK(kill(holder, SIGKILL));
	GIVES(holder, waitpid(holder, &status, 0));
	OK(flock(fd, LOCK_EX | LOCK_NB));
	OK(kill(-holder, SIGKILL));
	OK(close(told[0]));
	OK(close(told[1]));
}

static void *
wait_for_lock(void *fd)
{
	return (void *)(intptr_t)flock((int)(intptr_t)fd, LOCK_EX);
}

/* No open file has the lock in the end, not even the file that was closed while a thread waited. */
static void
closed_while_waiting(void)
{
	struct other other;
	pthread_t    thread;
	int          fd;

	OK(close(new_file("file", 100, 1)));
	other = start_other();
	fd = open("file", O_RDWR);
	GIVES('y', ask(&other, 'f'));
	OK(pthread_create(&thread, NULL, wait_for_lock, (void *)(intptr_t)fd));
	for (int i = 0; i < 1000; i++)
		sched_yield();
	OK(close(fd));
	GIVES('y', ask(&other, 'u'));
	OK(pthread_join(thread, NULL));
	GIVES('y', ask(&other, 'f'));
	end_other(&other);
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(flock_excludes), TEST(from_the_offset), TEST(records_exclude), TEST(open_file_records_exclude),
		TEST(records_belong_to_a_process), TEST(dead_holders_hold_nothing), TEST(counters),
		TEST(opened_for_each_lock), TEST(to_the_end), TEST(closed_files_hold_nothing),
		TEST(records_outlive_other_files), TEST(records_outlive_a_second_open_file),
		TEST(first_records_of_threads), TEST(inherited_while_others_are_closed), TEST(locked_without_the_umask),
		TEST(taken_after_the_fork), TEST(closed_while_waiting),
	};

	return RUN(argc, argv, tests);
}
