/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_TESTS_POSIX_H
#define ESKER_TESTS_POSIX_H

/*
 * Shared code of the programs in this directory. They only use the C library, so that the same
 * program runs on any directory: in memory, on disk, on a mount, or through a preloaded library.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Ends the program with the source line and errno. */
#define FAIL(...)                                                                                  \
	do {                                                                                       \
		int errno_ = errno;                                                                \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                    \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fprintf(stderr, " (errno %d: %s)\n", errno_, strerror(errno_));                    \
		exit(1);                                                                           \
	} while (0)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			FAIL("failed: %s", #condition);                                            \
	} while (0)

/** Bytes determined by a seed; the tests in Rust generate the same bytes. */
static inline void
fill(uint8_t *buffer, size_t len, uint64_t seed)
{
	for (size_t at = 0; at < len; at++)
		buffer[at] = (uint8_t)(seed * 167 + at * 13 + (at >> 8) * 7 + 1);
}

/** The next random number of a state (splitmix64). */
static inline uint64_t
draw(uint64_t *state)
{
	uint64_t word = *state += 0x9e3779b97f4a7c15;

	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
	word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
	return word ^ (word >> 31);
}

static inline uint64_t
below(uint64_t *state, uint64_t limit)
{
	return draw(state) % limit;
}

#endif /* ESKER_TESTS_POSIX_H */
