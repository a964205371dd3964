/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_GURT_TYPES_H
#define ESKER_GURT_TYPES_H

/**
 * @file
 * Basic types: buffers, buffer lists and lists of ranks.
 *
 * The system headers are part of the interface: programs written for it rely on them.
 */

#include <byteswap.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A UUID that can be assigned and returned, unlike the bare array. */
struct d_uuid {
	uuid_t uuid;
};

/** One buffer. */
typedef struct {
	/** First byte. */
	void  *iov_buf;
	/** Capacity in bytes. */
	size_t iov_buf_len;
	/** Bytes in use. */
	size_t iov_len;
} d_iov_t;

/** A list of buffers, read and written in order as if they were one. */
typedef struct {
	/** Buffers in sg_iovs. */
	uint32_t sg_nr;
	/** Buffers that a call filled; set by the call. */
	uint32_t sg_nr_out;
	/** The buffers; may be NULL when sg_nr is 0. */
	d_iov_t *sg_iovs;
} d_sg_list_t;

/** The number of a storage node in its system. */
typedef uint32_t d_rank_t;

/** Several ranks. */
typedef struct {
	d_rank_t *rl_ranks;
	/** Entries in rl_ranks. */
	uint32_t  rl_nr;
} d_rank_list_t;

typedef d_rank_list_t *d_rank_list_ptr_t;

/** The ranks lo to hi, both included. */
typedef struct {
	d_rank_t lo;
	d_rank_t hi;
} d_rank_range_t;

/** Several ranges of ranks. */
typedef struct {
	d_rank_range_t *rrl_ranges;
	/** Entries in rrl_ranges. */
	uint32_t        rrl_nr;
} d_rank_range_list_t;

/** A string that ends in NUL. */
typedef char       *d_string_t;
typedef const char *d_const_string_t;

/** Make iov describe the size bytes at buf, all of them in use. */
static inline void
d_iov_set(d_iov_t *iov, void *buf, size_t size)
{
	iov->iov_buf     = buf;
	iov->iov_buf_len = size;
	iov->iov_len     = size;
}

#ifdef __cplusplus
}
#endif

#endif /* ESKER_GURT_TYPES_H */
