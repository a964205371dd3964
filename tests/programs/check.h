/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_TESTS_PROGRAMS_CHECK_H
#define ESKER_TESTS_PROGRAMS_CHECK_H

/*
 * Shared code of the C checks. A check has a table of tests; each runs in a child process and in
 * its own directory, so that a crash does not affect the other tests. If names follow the two
 * directories, only these tests run, in the process itself, for use with a debugger.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: failed: %s (errno %d, %s)\n", __FILE__, __LINE__,  \
				#condition, errno, strerror(errno));                               \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/** Checks the return value of a call. */
#define GIVES(expected, call)                                                                      \
	do {                                                                                       \
		long long want_ = (long long)(expected), got_ = (long long)(call);                 \
		if (got_ != want_) {                                                               \
			fprintf(stderr, "%s:%d: %s gives %lld, not %lld (errno %d, %s)\n",         \
				__FILE__, __LINE__, #call, got_, want_, errno, strerror(errno));   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define OK(call) GIVES(0, call)

/** Checks that a call returns -1 with this errno. */
#define FAILS(code, call)                                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		GIVES(-1, call);                                                                   \
		GIVES(code, errno);                                                                \
	} while (0)

struct test {
	const char *name;
	void (*run)(void);
};

#define TEST(function) {#function, function}

/** Seconds after which a test that hangs is killed. */
#define SECONDS_MAX 300

/** A directory that is not under test. */
static const char *outside;

/** Byte at a position of the pattern that fills all files; it has no short period. */
static inline unsigned char
pattern(size_t at, unsigned seed)
{
	return (unsigned char)((at * 2654435761u + (at >> 12) * 40503u + seed * 97u) >> 7);
}

static inline void
fill(void *buffer, size_t length, size_t from, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		((unsigned char *)buffer)[i] = pattern(from + i, seed);
}

static inline bool
is_pattern(const void *buffer, size_t length, size_t from, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		if (((const unsigned char *)buffer)[i] != pattern(from + i, seed))
			return false;
	return true;
}

static inline bool
is_zero(const void *buffer, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (((const unsigned char *)buffer)[i] != 0)
			return false;
	return true;
}

/** A new file with the pattern, open for reading and writing at its beginning. */
static inline int
new_file(const char *name, size_t length, unsigned seed)
{
	int            fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0644);
	unsigned char *buffer = malloc(length + 1);

	CHECK(fd >= 0 && buffer != NULL);
	fill(buffer, length, 0, seed);
	GIVES(length, write(fd, buffer, length));
	GIVES(0, lseek(fd, 0, SEEK_SET));
	free(buffer);
	return fd;
}

/** Checks that the whole content of a file is this text. */
static inline void
holds(const char *name, const char *text)
{
	char    buffer[4096];
	int     fd = open(name, O_RDONLY);
	ssize_t length;

	CHECK(fd >= 0);
	length = read(fd, buffer, sizeof(buffer));
	GIVES(strlen(text), length);
	CHECK(memcmp(buffer, text, (size_t)length) == 0);
	OK(close(fd));
}

static inline void
put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	GIVES(strlen(text), write(fd, text, strlen(text)));
	OK(close(fd));
}

static inline void
child_succeeds(pid_t pid)
{
	int status = -1;

	CHECK(pid > 0);
	GIVES(pid, waitpid(pid, &status, 0));
	CHECK(WIFEXITED(status));
	GIVES(0, WEXITSTATUS(status));
}

static inline void
enter(const char *directory, const char *name)
{
	OK(chdir(directory));
	CHECK(mkdir(name, 0755) == 0 || errno == EEXIST);
	OK(chdir(name));
}

/** True for a test that the environment variable WITHOUT, a list of words, contains. */
static inline bool
is_left_out(const char *name)
{
	const char *list = getenv("WITHOUT"), *at = list;
	size_t      length = strlen(name);

	for (; at && (at = strstr(at, name)); at += length)
		if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
			return true;
	return false;
}

static inline int
run_tests(int argc, char **argv, const struct test *tests, size_t count)
{
	int failures = 0;

	CHECK(argc >= 3);
	outside = argv[2];
	for (size_t i = 0; i < count; i++) {
		pid_t pid = 0;
		int   status = 0;

		for (int j = 3; j < argc && argc > 3; j++)
			if (strcmp(argv[j], tests[i].name) == 0)
				pid = -1;
		if (argc > 3 ? pid == 0 : is_left_out(tests[i].name))
			continue;
		fflush(NULL);
		pid = argc > 3 ? 0 : fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			alarm(argc > 3 ? 0 : SECONDS_MAX);
			enter(argv[1], tests[i].name);
			tests[i].run();
			fflush(NULL);
			if (argc == 3)
				_exit(0);
			continue;
		}
		GIVES(pid, waitpid(pid, &status, 0));
		if (status != 0) {
			printf("FAILED %s (status 0x%x)\n", tests[i].name, (unsigned)status);
			failures++;
		}
	}
	fflush(NULL);
	return failures == 0 ? 0 : 1;
}

#define RUN(argc, argv, tests) run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]))

#endif /* ESKER_TESTS_PROGRAMS_CHECK_H */
