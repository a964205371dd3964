/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_TESTS_POSIX_H
#define ESKER_TESTS_POSIX_H

/*
 * What the programs of this folder share. They use nothing but the C library, so that the same
 * program runs on any directory: of memory, of a disk, of a mount, or seen through a preloaded library.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Ends the program, saying where it stood and what errno says. */
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
			FAIL("not so: %s", #condition);                                            \
	} while (0)

/** Bytes that follow from a seed; the tests in Rust make the same. */
static inline void
fill(uint8_t *buffer, size_t len, uint64_t seed)
{
	for (size_t at = 0; at < len; at++)
		buffer[at] = (uint8_t)(seed * 167 + at * 13 + (at >> 8) * 7 + 1);
}

/** The next of the random numbers that follow from a state (splitmix64). */
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
