/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_GURT_COMMON_H
#define ESKER_GURT_COMMON_H

/**
 * @file
 * Small helpers around the basic types.
 *
 * Memory that the library returns comes from malloc, and so must memory passed to it: D_FREE
 * is free() that also clears the pointer.
 */

#include <daos_errno.h>
#include <gurt/types.h>

#ifndef likely
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/** The structure of the given type whose given member is *ptr. */
#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#endif

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))
#endif

#ifndef MIN
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#endif
#ifndef MAX
#define MAX(a, b) ((a) < (b) ? (b) : (a))
#endif

/* In C++ these names would break the standard library. */
#ifndef __cplusplus
#ifndef min
#define min(a, b) MIN(a, b)
#endif
#ifndef max
#define max(a, b) MAX(a, b)
#endif
#endif

/** x rounded up to a multiple of a, a power of two. */
#define D_ALIGNUP(x, a)            (((x) + (a) - 1) & ~((a) - 1))

/** Evaluate an expression, usually rc = value, and jump to label. */
#define D_GOTO(label, expr)                                                                        \
	do {                                                                                       \
		(void)(expr);                                                                      \
		goto label;                                                                        \
	} while (0)

/** Set ptr to zeroed memory, or to NULL. */
#define D_ALLOC(ptr, size)         ((ptr) = (__typeof__(ptr))calloc(1, (size)))
#define D_ALLOC_PTR(ptr)           D_ALLOC(ptr, sizeof(*(ptr)))
#define D_ALLOC_ARRAY(ptr, count)  ((ptr) = (__typeof__(ptr))calloc((count), sizeof(*(ptr))))

/** Free ptr and set it to NULL. */
#define D_FREE(ptr)                                                                                \
	do {                                                                                       \
		free(ptr);                                                                         \
		(ptr) = NULL;                                                                      \
	} while (0)

/**
 * Set new_ptr to the memory of old_ptr with another size, what was added being zero, and old_ptr to NULL. Without memory
 * new_ptr is NULL and old_ptr stays.
 */
#define D_REALLOC(new_ptr, old_ptr, old_size, size)                                                \
	do {                                                                                       \
		size_t d_old_ = (old_size), d_new_ = (size);                                       \
		(new_ptr)     = (__typeof__(new_ptr))realloc((old_ptr), d_new_ > 0 ? d_new_ : 1);  \
		if ((new_ptr) == NULL)                                                             \
			break;                                                                     \
		(old_ptr) = NULL;                                                                  \
		if (d_old_ < d_new_)                                                               \
			memset((char *)(new_ptr) + d_old_, 0, d_new_ - d_old_);                    \
	} while (0)
/** Like D_REALLOC, of counts of values. */
#define D_REALLOC_ARRAY(new_ptr, old_ptr, old_count, count)                                        \
	D_REALLOC(new_ptr, old_ptr, (old_count) * sizeof(*(old_ptr)), (count) * sizeof(*(old_ptr)))
/** Like D_REALLOC, but what was added is undefined. */
#define D_REALLOC_NZ(new_ptr, old_ptr, size)                                                       \
	do {                                                                                       \
		size_t d_size_ = (size);                                                           \
		D_REALLOC(new_ptr, old_ptr, d_size_, d_size_);                                     \
	} while (0)

/** Set ptr to a copy of at most len bytes of a string, or to NULL. */
#define D_STRNDUP(ptr, string, len) ((ptr) = esker_strndup((string), (len)))

#ifdef __cplusplus
extern "C" {
#endif

/** strndup(3), which C99 lacks. */
static inline char *
esker_strndup(const char *string, size_t len)
{
	const char *end = (const char *)memchr(string, 0, len);
	char       *copy;

	if (end != NULL)
		len = (size_t)(end - string);
	copy = (char *)calloc(1, len + 1);
	return copy != NULL ? (char *)memcpy(copy, string, len) : NULL;
}

/** Initialize sgl with nr empty buffers. @return 0 or -DER_NOMEM. Undo with d_sgl_fini. */
static inline int
d_sgl_init(d_sg_list_t *sgl, unsigned int nr)
{
	sgl->sg_nr     = nr;
	sgl->sg_nr_out = 0;
	sgl->sg_iovs   = NULL;
	if (nr == 0)
		return 0;
	D_ALLOC_ARRAY(sgl->sg_iovs, nr);
	return sgl->sg_iovs != NULL ? 0 : -DER_NOMEM;
}

/** Free the buffer list of sgl, and with free_iovs each buffer too. */
static inline void
d_sgl_fini(d_sg_list_t *sgl, bool free_iovs)
{
	uint32_t i;

	if (sgl == NULL || sgl->sg_iovs == NULL)
		return;
	for (i = 0; free_iovs && i < sgl->sg_nr; i++)
		free(sgl->sg_iovs[i].iov_buf);
	D_FREE(sgl->sg_iovs);
	sgl->sg_nr     = 0;
	sgl->sg_nr_out = 0;
}

/** Total capacity in bytes of all buffers of sgl. */
static inline size_t
d_sgl_buf_size(d_sg_list_t *sgl)
{
	size_t   total = 0;
	uint32_t i;

	for (i = 0; sgl->sg_iovs != NULL && i < sgl->sg_nr; i++)
		total += sgl->sg_iovs[i].iov_buf_len;
	return total;
}

/** The negated error code for an errno value; -DER_MISC if there is none. */
static inline int
d_errno2der(int err)
{
	switch (err) {
	case 0:
		return -DER_SUCCESS;
	case EACCES:
	case EPERM:
		return -DER_NO_PERM;
	case ENOENT:
		return -DER_NONEXIST;
	case EEXIST:
		return -DER_EXIST;
	case EBUSY:
		return -DER_BUSY;
	case ENOSPC:
	case EDQUOT:
		return -DER_NOSPACE;
	case ENOMEM:
		return -DER_NOMEM;
	case ECANCELED:
		return -DER_CANCELED;
	default:
		return -DER_MISC;
	}
}

/** DJB2 hash of len bytes: start with 5381, then hash * 33 + byte for every byte. */
uint32_t
d_hash_string_u32(const char *string, unsigned int len);

/** MurmurHash64A of key_len bytes. */
uint64_t
d_hash_murmur64(const unsigned char *key, unsigned int key_len, unsigned int seed);

/** Set value unless the variable is missing: false for the number 0, true for all else. @return 0 or -DER_NONEXIST. */
int
d_getenv_bool(const char *name, bool *value);

/** Set value to a variable of one character. @return 0, -DER_NONEXIST, or -DER_INVAL for other lengths. */
int
d_getenv_char(const char *name, char *value);

/**
 * Set value to a decimal number, -1 being the largest. @return 0, -DER_NONEXIST, or -DER_INVAL for
 * text that is not a number, or too large.
 */
int
d_getenv_uint(const char *name, unsigned int *value);

/** Older name of d_getenv_uint. */
int
d_getenv_int(const char *name, unsigned int *value);

/** Like d_getenv_uint, of 32 bits. */
int
d_getenv_uint32_t(const char *name, uint32_t *value);

/** Like d_getenv_uint, of 64 bits. */
int
d_getenv_uint64_t(const char *name, uint64_t *value);

/**
 * Copy a variable, with a NUL, into size bytes at value. @return 0, -DER_NONEXIST, or -DER_TRUNC if
 * only its beginning fits.
 */
int
d_getenv_str(char *value, size_t size, const char *name);

/** Set value to a copy of a variable, or NULL. Free it with d_freeenv_str. @return 0, -DER_NONEXIST or -DER_NOMEM. */
int
d_agetenv_str(char **value, const char *name);

/** Free what d_agetenv_str returned, and set value to NULL. */
void
d_freeenv_str(char **value);

/** setenv(3). */
int
d_setenv(const char *name, const char *value, int overwrite);

/** unsetenv(3). */
int
d_unsetenv(const char *name);

/** A list of size ranks 0, 1, 2 and so on, or NULL. Free it with d_rank_list_free. */
d_rank_list_t *
d_rank_list_alloc(uint32_t size);

/** Copy a list; a NULL source gives a NULL copy. @return 0, -DER_INVAL or -DER_NOMEM. */
int
d_rank_list_dup(d_rank_list_t **dst, const d_rank_list_t *src);

/** Free a list that the library made; NULL is allowed. */
void
d_rank_list_free(d_rank_list_t *rank_list);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_GURT_COMMON_H */
