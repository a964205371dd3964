/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors across fork, exec, spawn and vfork; copied, moved, closed in ranges. */
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

extern char **environ;

static void
shared_offset_after_fork(void)
{
	int   fd = new_file("file", 100, 1);
	char  back[20];
	pid_t pid = fork();

	if (pid == 0) {
		GIVES(10, read(fd, back, 10));
		_exit(is_pattern(back, 10, 0, 1) ? 0 : 1);
	}
	child_succeeds(pid);
	GIVES(10, read(fd, back, 10));
	CHECK(is_pattern(back, 10, 10, 1));
	GIVES(20, lseek(fd, 0, SEEK_CUR));
	pid = fork();
	if (pid == 0) {
		GIVES(50, lseek(fd, 50, SEEK_SET));
		GIVES(3, write(fd, "abc", 3));
		_exit(0);
	}
	child_succeeds(pid);
	GIVES(53, lseek(fd, 0, SEEK_CUR));
	GIVES(3, pread(fd, back, 3, 50));
	CHECK(memcmp(back, "abc", 3) == 0);
}

/** Copies that were made before the fork, and flags that were changed before it. */
static void
shared_copies_after_fork(void)
{
	int   fd = new_file("file", 10, 1), low = dup(fd), high = dup2(fd, 300);
	pid_t pid;

	GIVES(4, lseek(low, 4, SEEK_SET));
	OK(fcntl(fd, F_SETFL, O_APPEND));
	pid = fork();
	if (pid == 0) {
		CHECK(fcntl(high, F_GETFL) & O_APPEND);
		GIVES(4, lseek(high, 0, SEEK_CUR));
		GIVES(3, write(low, "abc", 3));
		OK(fcntl(low, F_SETFL, 0));
		GIVES(5, lseek(high, 5, SEEK_SET));
		_exit(0);
	}
	child_succeeds(pid);
	GIVES(5, lseek(fd, 0, SEEK_CUR));
	GIVES(5, lseek(low, 0, SEEK_CUR));
	GIVES(5, lseek(high, 0, SEEK_CUR));
	CHECK((fcntl(fd, F_GETFL) & O_APPEND) == 0);
	GIVES(13, lseek(high, 0, SEEK_END));
}

/** Changes of the flags by a child apply to the parent. */
static void
append_set_by_child(void)
{
	int   fd = new_file("file", 6, 1);
	pid_t pid = fork();

	if (pid == 0) {
		OK(fcntl(fd, F_SETFL, O_APPEND));
		_exit(0);
	}
	child_succeeds(pid);
	GIVES(3, write(fd, "abc", 3));
	GIVES(9, lseek(fd, 0, SEEK_END));
}

/** No descriptor is free below the limit when the file becomes shared. */
static void
shared_at_the_limit(void)
{
	int           fd = new_file("file", 0, 1);
	struct rlimit limit, low;

	OK(getrlimit(RLIMIT_NOFILE, &limit));
	low = limit;
	low.rlim_cur = (rlim_t)fd + 1;
	OK(setrlimit(RLIMIT_NOFILE, &low));
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			OK(setrlimit(RLIMIT_NOFILE, &limit));
			GIVES(6, write(fd, "child\n", 6));
			_exit(0);
		}
		child_succeeds(pid);
	}
	OK(getrlimit(RLIMIT_NOFILE, &low));
	GIVES(fd + 1, low.rlim_cur);
	OK(setrlimit(RLIMIT_NOFILE, &limit));
	GIVES(18, lseek(fd, 0, SEEK_CUR));
	holds("file", "child\nchild\nchild\n");
}

static int                   written;
static volatile sig_atomic_t bytes;

static void
write_a_byte(int unused)
{
	int before = errno;

	(void)unused;
	/* It fails within a call on files, which is documented. */
	if (write(written, "x", 1) == 1)
		bytes++;
	errno = before;
}

/** A signal handler writes while its thread opens files and forks. */
static void
signals_while_forking(void)
{
	struct sigaction action = {.sa_handler = write_a_byte, .sa_flags = SA_RESTART};
	struct itimerval often = {.it_interval.tv_usec = 700, .it_value.tv_usec = 700};
	struct itimerval never = {.it_value.tv_usec = 0};

	written = new_file("log", 0, 1);
	OK(sigaction(SIGALRM, &action, NULL));
	OK(setitimer(ITIMER_REAL, &often, NULL));
	for (int round = 0; round < 60; round++) {
		int   fd = open("log", O_RDONLY | O_CLOEXEC), status;
		pid_t pid;

		CHECK(fd >= 0);
		pid = fork();
		if (pid == 0)
			_exit(0);
		while (waitpid(pid, &status, 0) == -1)
			GIVES(EINTR, errno);
		GIVES(0, status);
		OK(close(fd));
	}
	OK(setitimer(ITIMER_REAL, &never, NULL));
	GIVES(bytes, lseek(written, 0, SEEK_CUR));
	GIVES(bytes, lseek(written, 0, SEEK_END));
}

#define RECORDS 20000

/** How often each record was read, by any process, and the file. */
static unsigned char *seen;
static int            records;

/** Reads records by a copy of the descriptor, which is made anew for each of them. */
static void *
read_by_copies(void *unused)
{
	unsigned record;

	for (;;) {
		int     copy = fcntl(records, F_DUPFD_CLOEXEC, 0);
		ssize_t length = read(copy, &record, sizeof(record));

		OK(close(copy));
		if (length == 0)
			return unused;
		GIVES(sizeof(record), length);
		CHECK(record < RECORDS);
		__atomic_fetch_add(&seen[record], 1, __ATOMIC_RELAXED);
	}
}

/** Threads share an offset while a forked child starts to share it and reads too: each record is read once. */
static void
offset_while_forking(void)
{
	static unsigned all[RECORDS];
	pthread_t       threads[3];
	char           *argv[] = {"true", NULL};

	seen = mmap(NULL, RECORDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
	for (unsigned i = 0; i < RECORDS; i++)
		all[i] = i;
	for (int round = 0; round < 10; round++) {
		pid_t pid;

		records = open("records", O_RDWR | O_CREAT | O_TRUNC, 0644);
		GIVES(sizeof(all), write(records, all, sizeof(all)));
		GIVES(0, lseek(records, 0, SEEK_SET));
		memset(seen, 0, RECORDS);
		for (int i = 0; i < 3; i++)
			OK(pthread_create(&threads[i], NULL, read_by_copies, NULL));
		if (round % 2 == 0) {
			pid = fork();
			if (pid == 0) {
				read_by_copies(NULL);
				_exit(0);
			}
		} else {
			OK(posix_spawnp(&pid, "true", NULL, NULL, argv, environ));
		}
		child_succeeds(pid);
		for (int i = 0; i < 3; i++)
			OK(pthread_join(threads[i], NULL));
		for (unsigned i = 0; i < RECORDS; i++)
			GIVES(1, seen[i]);
		OK(close(records));
	}
}

static void
sh(const char *text)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", text, (char *)NULL);
		_exit(127);
	}
	child_succeeds(pid);
}

static void
kept_over_exec(void)
{
	int  fd = new_file("file", 0, 1);
	char text[128];

	GIVES(6, write(fd, "first\n", 6));
	snprintf(text, sizeof(text), "echo second >&%d && echo third >&%d", fd, fd);
	sh(text);
	GIVES(19, lseek(fd, 0, SEEK_CUR));
	holds("file", "first\nsecond\nthird\n");
	GIVES(6, lseek(fd, 6, SEEK_SET));
	snprintf(text, sizeof(text), "read x <&%d && [ \"$x\" = second ]", fd);
	sh(text);
	OK(unlink("file"));
	snprintf(text, sizeof(text), "echo unlinked >&%d", fd);
	sh(text);
	CHECK(access("file", F_OK) == -1);
	OK(fcntl(fd, F_SETFD, FD_CLOEXEC));
	snprintf(text, sizeof(text), "! { true >&%d; } 2>/dev/null", fd);
	sh(text);
}

static void
redirected_output(void)
{
	int fd = open("out", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), saved = dup(1);

	GIVES(1, dup2(fd, 1));
	OK(system("echo one; (echo two); echo three | cat; /bin/echo four"));
	GIVES(1, dup2(saved, 1));
	holds("out", "one\ntwo\nthree\nfour\n");
	sh("cat <out >copy; exec 0<copy; cat >last");
	holds("last", "one\ntwo\nthree\nfour\n");
}

static void
spawned(void)
{
	posix_spawn_file_actions_t actions;
	char                      *argv[] = {"sh", "-c", "cat; echo $0; cat <&9", NULL};
	pid_t                      pid;

	put("in", "from in\n");
	put("nine", "from nine\n");
	OK(posix_spawn_file_actions_init(&actions));
	OK(posix_spawn_file_actions_addopen(&actions, 0, "in", O_RDONLY, 0));
	OK(posix_spawn_file_actions_addopen(&actions, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0644));
	OK(posix_spawn_file_actions_addopen(&actions, 8, "nine", O_RDONLY, 0));
	OK(posix_spawn_file_actions_adddup2(&actions, 8, 9));
	OK(posix_spawn_file_actions_addclose(&actions, 8));
	OK(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ));
	child_succeeds(pid);
	holds("out", "from in\nsh\nfrom nine\n");
	OK(posix_spawnp(&pid, "true", NULL, NULL, argv, environ));
	child_succeeds(pid);
	OK(posix_spawn_file_actions_destroy(&actions));
}

/* A program in the directory, whatever happens to the descriptors of the child before it starts. */
static void
spawned_from_the_directory(void)
{
	posix_spawn_file_actions_t actions;
	char                      *argv[] = {"cat", "-", NULL};
	pid_t                      pid;
	int                        fd = new_file("in", 0, 1);

	GIVES(8, write(fd, "from in\n", 8));
	OK(close(fd));
	sh("cp /bin/cat cat");
	OK(posix_spawn_file_actions_init(&actions));
	OK(posix_spawn_file_actions_addopen(&actions, 0, "in", O_RDONLY, 0));
	OK(posix_spawn_file_actions_addopen(&actions, 1, "out", O_WRONLY | O_CREAT | O_TRUNC, 0644));
	/* The lowest free numbers. */
	for (int number = fd; number < fd + 5; number++)
		OK(posix_spawn_file_actions_adddup2(&actions, 0, number));
	OK(posix_spawn(&pid, "./cat", &actions, NULL, argv, environ));
	child_succeeds(pid);
	holds("out", "from in\n");
	OK(posix_spawn_file_actions_addclosefrom_np(&actions, 3));
	OK(posix_spawn(&pid, "./cat", &actions, NULL, argv, environ));
	child_succeeds(pid);
	holds("out", "from in\n");
	OK(posix_spawn_file_actions_destroy(&actions));
}

static int
open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int  count = 0;

	CHECK(dir != NULL);
	while (readdir(dir) != NULL)
		count++;
	OK(closedir(dir));
	return count;
}

/* An exec that fails leaves no descriptors behind.  Meanwhile the store may connect to a node, with few descriptors. */
static void
failed_exec(void)
{
	enum { TIMES = 64 };
	static char long_argument[1 << 18];
	char       *argv[] = {"true", long_argument, NULL};
	int         count;

	memset(long_argument, 'a', sizeof(long_argument) - 1);
	sh("cp /bin/true true");
	FAILS(E2BIG, execv("./true", argv));
	count = open_descriptors();
	for (int time = 0; time < TIMES; time++)
		FAILS(E2BIG, execv("./true", argv));
	CHECK(open_descriptors() < count + TIMES);
}

static void
spawned_in_directory(void)
{
	posix_spawn_file_actions_t actions;
	char                      *argv[] = {"sh", "-c", "echo here >made", NULL};
	pid_t                      pid;
	int                        error, fd;

	OK(mkdir("dir", 0755));
	put("file", "");
	OK(posix_spawn_file_actions_init(&actions));
	OK(posix_spawn_file_actions_addchdir_np(&actions, "dir"));
	OK(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ));
	child_succeeds(pid);
	holds("dir/made", "here\n");
	OK(posix_spawn_file_actions_destroy(&actions));
	OK(posix_spawn_file_actions_init(&actions));
	CHECK((fd = open("dir", O_RDONLY | O_DIRECTORY)) >= 0);
	OK(unlink("dir/made"));
	OK(posix_spawn_file_actions_addfchdir_np(&actions, fd));
	OK(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ));
	child_succeeds(pid);
	holds("dir/made", "here\n");
	OK(posix_spawn_file_actions_destroy(&actions));
	OK(posix_spawn_file_actions_init(&actions));
	error = posix_spawn_file_actions_addchdir_np(&actions, "file");
	/* The C library opens the directory only when it starts the program. */
	if (error == 0)
		error = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
	GIVES(ENOTDIR, error);
	OK(posix_spawn_file_actions_destroy(&actions));
}

/* Relative paths of later actions start at the directory to which an earlier one has changed. */
static void
spawned_with_files_of_a_directory(void)
{
	posix_spawn_file_actions_t actions;
	char                      *argv[] = {"cat", NULL};
	pid_t                      pid;

	OK(mkdir("outer", 0755));
	OK(mkdir("outer/inner", 0755));
	put("in", "wrong\n");
	put("outer/inner/in", "right\n");
	OK(posix_spawn_file_actions_init(&actions));
	OK(posix_spawn_file_actions_addchdir_np(&actions, "outer"));
	OK(posix_spawn_file_actions_addchdir_np(&actions, "inner"));
	OK(posix_spawn_file_actions_addopen(&actions, 0, "in", O_RDONLY, 0));
	OK(posix_spawn_file_actions_addopen(&actions, 1, "../out", O_WRONLY | O_CREAT, 0644));
	OK(posix_spawnp(&pid, "cat", &actions, NULL, argv, environ));
	child_succeeds(pid);
	holds("outer/out", "right\n");
	OK(posix_spawn_file_actions_destroy(&actions));
	OK(posix_spawn_file_actions_init(&actions));
	OK(posix_spawn_file_actions_addchdir_np(&actions, "/"));
	OK(posix_spawn_file_actions_addopen(&actions, 0, "dev/null", O_RDONLY, 0));
	OK(posix_spawnp(&pid, "cat", &actions, NULL, argv, environ));
	child_succeeds(pid);
	OK(posix_spawn_file_actions_destroy(&actions));
}

static void
vforked(void)
{
	int   fd = open("out", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(fd, 1);
		execl("/bin/sh", "sh", "-c", "echo vforked", (char *)NULL);
		_exit(127);
	}
	child_succeeds(pid);
	GIVES(8, lseek(fd, 0, SEEK_CUR));
	holds("out", "vforked\n");
	FILE *pipe = popen("cat out; echo more >>out", "r");
	char  line[32];
	CHECK(pipe != NULL && fgets(line, sizeof(line), pipe) != NULL && strcmp(line, "vforked\n") == 0);
	OK(pclose(pipe));
	holds("out", "vforked\nmore\n");
}

/** A script under test, started by each function that takes arguments one by one. */
static void
listed_arguments(void)
{
	char *const environment[] = {"EXTRA=yes", "PATH=/usr/bin:/bin", NULL};
	pid_t       pid;

	put("numbered", "#!/bin/sh\n[ $1$2$3$4$5$6$7$8${9} = 123456789 ] && [ \"$EXTRA\" = yes ]\n");
	OK(chmod("numbered", 0755));
	OK(setenv("EXTRA", "yes", 1));
	OK(setenv("PATH", "/usr/bin:/bin:.", 1));
	for (int way = 0; way < 4; way++) {
		pid = fork();
		if (pid == 0) {
			if (way == 0)
				execl("./numbered", "numbered", "1", "2", "3", "4", "5", "6", "7", "8", "9", (char *)NULL);
			if (way == 1)
				execlp("numbered", "numbered", "1", "2", "3", "4", "5", "6", "7", "8", "9", (char *)NULL);
			if (way == 2)
				execle("./numbered", "numbered", "1", "2", "3", "4", "5", "6", "7", "8", "9", (char *)NULL,
				       environment);
			if (way == 3)
				execle("./numbered", "numbered", "123456789", (char *)NULL, environment);
			_exit(127);
		}
		child_succeeds(pid);
	}
}

/** A removed file at descriptor 7, which only the next program has open. */
static void
removed_at_7(void)
{
	int fd = open("gone", O_RDWR | O_CREAT | O_EXCL, 0644);

	CHECK(fd >= 0);
	GIVES(7, write(fd, "content", 7));
	GIVES(0, lseek(fd, 0, SEEK_SET));
	if (fd != 7) {
		GIVES(7, dup2(fd, 7));
		OK(close(fd));
	}
	OK(unlink("gone"));
}

static void
removed_over_exec(void)
{
	char *const argv[] = {"sh", "-c", "[ \"$(cat <&7)\" = content ]", NULL};

	for (int way = 0; way < 4; way++) {
		pid_t pid = fork();

		if (pid == 0) {
			removed_at_7();
			if (way == 0)
				execl("/bin/sh", argv[0], argv[1], argv[2], (char *)NULL);
			if (way == 1)
				execlp("sh", argv[0], argv[1], argv[2], (char *)NULL);
			if (way == 2)
				execle("/bin/sh", argv[0], argv[1], argv[2], (char *)NULL, environ);
			if (way == 3)
				execveat(AT_FDCWD, "/bin/sh", argv, environ, 0);
			_exit(127);
		}
		child_succeeds(pid);
	}
}

/** Programs started by the C library access a file after it was removed, when no other process has
 * it open. */
static void
removed_over_start(void)
{
	posix_spawn_file_actions_t actions;
	char *const                argv[] = {"sh", "-c", "read -r _ <&6; cat <&7 >out", NULL};
	char                       line[32] = "";
	int                        go[2];
	pid_t                      pid;
	FILE                      *stream;

	OK(pipe(go));
	GIVES(6, dup2(go[0], 6));
	removed_at_7();
	stream = popen("read -r _ <&6; cat <&7", "r");
	CHECK(stream != NULL);
	OK(close(7));
	GIVES(1, write(go[1], "\n", 1));
	CHECK(fgets(line, sizeof(line), stream) != NULL && strcmp(line, "content") == 0);
	OK(pclose(stream));
	put("gone", "opened for it\n");
	OK(posix_spawn_file_actions_init(&actions));
	OK(posix_spawn_file_actions_addopen(&actions, 7, "gone", O_RDONLY, 0));
	OK(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ));
	OK(posix_spawn_file_actions_destroy(&actions));
	OK(unlink("gone"));
	GIVES(1, write(go[1], "\n", 1));
	child_succeeds(pid);
	holds("out", "opened for it\n");
}

static void
copies(void)
{
	int         fd = new_file("file", 100, 1), other = new_file("other", 50, 2), two;
	struct stat info;

	two = dup(fd);
	GIVES(10, lseek(two, 10, SEEK_SET));
	GIVES(10, lseek(fd, 0, SEEK_CUR));
	GIVES(500, dup2(fd, 500));
	GIVES(fd, dup2(fd, fd));
	GIVES(other, dup2(fd, other));
	OK(fstat(other, &info));
	GIVES(100, info.st_size);
	GIVES(600, dup3(fd, 600, O_CLOEXEC));
	GIVES(FD_CLOEXEC, fcntl(600, F_GETFD));
	CHECK(fcntl(fd, F_DUPFD, 700) >= 700);
	CHECK(fcntl(fd, F_DUPFD_CLOEXEC, 800) >= 800);
	OK(close(fd));
	GIVES(20, lseek(500, 20, SEEK_SET));
	GIVES(20, lseek(two, 0, SEEK_CUR));
	FAILS(EBADF, lseek(fd, 0, SEEK_CUR));
	FAILS(EINVAL, dup3(two, two, 0));
	FAILS(EBADF, dup2(fd, 5));
	two = open("/dev/null", O_RDWR);
	GIVES(500, dup2(two, 500));
	GIVES(1, write(500, "x", 1));
	OK(fstat(600, &info));
	GIVES(100, info.st_size);
	GIVES(two, dup2(600, two));
	OK(fstat(two, &info));
	GIVES(100, info.st_size);
}

/* A copy with a number that a file cannot have is refused; any other can be used. */
static void
copies_with_great_numbers(void)
{
	struct rlimit limit = {100000, 100000};
	char          byte;
	int           fd = new_file("file", 100, 1), other;

	/* Only a privileged process may raise the upper limit. */
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
		OK(getrlimit(RLIMIT_NOFILE, &limit));
		limit.rlim_cur = limit.rlim_max;
		OK(setrlimit(RLIMIT_NOFILE, &limit));
	}
	for (int number = 60000; number < 80000; number += 10000) {
		other = dup2(fd, number);
		CHECK(other == number ? pread(other, &byte, 1, 0) == 1 : errno == EBADF);
		other = fcntl(fd, F_DUPFD, number);
		CHECK(other >= number ? pread(other, &byte, 1, 0) == 1 : errno == EMFILE || errno == EINVAL);
	}
}

/**
 * Runs a step that expects exact numbers of descriptors, in up to three children.  Over nodes, the store may connect
 * meanwhile: for a moment, its connection has the lowest number.  So each child uses the file system before the step.
 */
static void
try_exact_numbers(void (*step)(void))
{
	int status = -1;

	for (int attempt = 0; attempt < 3 && status != 0; attempt++) {
		pid_t pid = fork();

		if (pid == 0) {
			CHECK(unlink("file") == 0 || errno == ENOENT);
			put("used", "");
			step();
			_exit(0);
		}
		GIVES(pid, waitpid(pid, &status, 0));
		CHECK(WIFEXITED(status));
	}
	GIVES(0, status);
}

static void
close_in_ranges(void)
{
	int  fd = new_file("file", 10, 1), low = dup(fd), first = fd;
	char back[10];

	for (int to = 100; to < 200; to++)
		GIVES(to, dup2(fd, to));
	OK(close_range(100, 149, 0));
	FAILS(EBADF, pread(149, back, 10, 0));
	GIVES(10, pread(150, back, 10, 0));
	OK(close_range(150, 199, CLOSE_RANGE_CLOEXEC));
	GIVES(FD_CLOEXEC, fcntl(150, F_GETFD));
	OK(close(fd));
	closefrom(low + 1);
	FAILS(EBADF, pread(160, back, 10, 0));
	GIVES(10, pread(low, back, 10, 0));
	CHECK(is_pattern(back, 10, 0, 1));
	fd = open("file", O_RDONLY);
	GIVES(first, fd);
}

static void
closed_in_ranges(void)
{
	try_exact_numbers(close_in_ranges);
}

/* The start of a daemon: all descriptors are closed by force, and files are used afterwards. */
static void
close_altogether(void)
{
	int   fd = new_file("file", 10, 1), other;
	pid_t pid = fork();
	char  back[10];

	if (pid == 0) {
		for (int i = 0; i < 1024; i++)
			close(i);
		fd = open("file", O_RDWR);
		if (fd != 0)
			_exit(1);
		GIVES(1, dup(fd));
		GIVES(2, dup(fd));
		GIVES(10, pread(2, back, 10, 0));
		put("new", "new");
		holds("new", "new");
		_exit(is_pattern(back, 10, 0, 1) ? 0 : 2);
	}
	child_succeeds(pid);
	pid = fork();
	if (pid == 0) {
		syscall(SYS_close_range, 3, ~0u, 0);
		other = open("file", O_RDWR);
		GIVES(10, pread(other, back, 10, 0));
		put("newer", "newer");
		holds("newer", "newer");
		_exit(other == 3 ? 0 : 1);
	}
	child_succeeds(pid);
	GIVES(10, pread(fd, back, 10, 0));
}

static void
closed_altogether(void)
{
	try_exact_numbers(close_altogether);
}

/* The C library forks, closes the standard descriptors and leaves the directory. */
static void
as_daemon(void)
{
	int         fd = new_file("out", 0, 1), ends[2];
	char        there[4096], answer;
	struct stat info;
	pid_t       pid;
	bool        good;

	put("here", "");
	OK(pipe(ends));
	pid = fork();
	if (pid == 0) {
		GIVES(1, dup2(fd, 1));
		OK(daemon(0, 0));
		good = write(1, "x", 1) == 1 && getcwd(there, sizeof(there)) && strcmp(there, "/") == 0 &&
			access("here", F_OK) == -1 && write(fd, "y", 1) == 1;
		GIVES(1, write(ends[1], good ? "y" : "n", 1));
		_exit(0);
	}
	child_succeeds(pid);
	GIVES(1, read(ends[0], &answer, 1));
	GIVES('y', answer);
	OK(fstat(fd, &info));
	GIVES(1, info.st_size);
}

/* The lowest free number is used, as the kernel does. */
static void
use_lowest_numbers(void)
{
	int one = open("file", O_RDWR | O_CREAT, 0644), two = open("file", O_RDWR), three = open("/dev/null", O_RDONLY);

	GIVES(one + 1, two);
	GIVES(one + 2, three);
	OK(close(one));
	GIVES(one, open("/dev/null", O_RDONLY));
	OK(close(two));
	GIVES(two, open("file", O_RDONLY));
	int ends[2];
	OK(close(one));
	OK(pipe(ends));
	GIVES(one, ends[0]);
}

static void
lowest_numbers(void)
{
	try_exact_numbers(use_lowest_numbers);
}

static void
use_many_descriptors(void)
{
	struct rlimit limit;
	int           fds[600], count = 600;
	struct stat   info;

	OK(getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_cur < 700)
		count = (int)limit.rlim_cur - 50;
	OK(close(new_file("file", 10, 1)));
	for (int i = 0; i < count; i++)
		CHECK((fds[i] = open("file", O_RDONLY)) >= 0);
	for (int i = 0; i < count; i++)
		OK(fstat(fds[i], &info));
	for (int i = 0; i < count; i++)
		OK(close(fds[i]));
	limit.rlim_cur = 32;
	OK(setrlimit(RLIMIT_NOFILE, &limit));
	count = 0;
	while ((fds[count] = open("file", O_RDONLY)) >= 0)
		count++;
	GIVES(EMFILE, errno);
	CHECK(count > 15);
	OK(close(fds[0]));
	CHECK(open("file", O_RDONLY) >= 0);
}

static void
many_descriptors(void)
{
	try_exact_numbers(use_many_descriptors);
}

/* A program that is started in a directory that was moved works in that one or in none, never in a new one of its old
 * path. */
static void
started_in_a_moved_directory(void)
{
	OK(mkdir("place", 0755));
	OK(chdir("place"));
	OK(rename("../place", "../moved"));
	OK(mkdir("../place", 0755));
	CHECK(system("touch here") != -1);
	OK(chdir(".."));
	FAILS(ENOENT, access("place/here", F_OK));
	OK(rmdir("place"));
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(shared_offset_after_fork), TEST(shared_copies_after_fork), TEST(offset_while_forking), TEST(append_set_by_child),
		TEST(shared_at_the_limit), TEST(signals_while_forking), TEST(kept_over_exec), TEST(redirected_output),
		TEST(spawned), TEST(spawned_from_the_directory), TEST(spawned_in_directory),
		TEST(spawned_with_files_of_a_directory), TEST(failed_exec), TEST(vforked), TEST(listed_arguments),
		TEST(removed_over_exec),
		TEST(removed_over_start), TEST(copies), TEST(copies_with_great_numbers), TEST(closed_in_ranges),
		TEST(closed_altogether), TEST(as_daemon), TEST(lowest_numbers), TEST(many_descriptors),
		TEST(started_in_a_moved_directory),
	};

	return RUN(argc, argv, tests);
}
