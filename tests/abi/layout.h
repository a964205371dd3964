/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_TESTS_ABI_LAYOUT_H
#define ESKER_TESTS_ABI_LAYOUT_H

/* Strict -std=c11 hides some types of pthread.h. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include <stddef.h>

#ifdef __cplusplus
#define ASSERT(condition, text) static_assert(condition, text)
#else
#define ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* Size of a structure. */
#define SIZE(type, size) ASSERT(sizeof(type) == (size), "size of " #type)

/* Offset and size of one of its fields. */
#define FIELD(type, path, offset, size)                                                            \
	ASSERT(offsetof(type, path) == (offset), "offset of " #type "." #path);                    \
	ASSERT(sizeof(((type *)0)->path) == (size), "size of " #type "." #path)

/* Offset of an array without a length at the end of a structure. */
#define TAIL(type, path, offset)                                                                   \
	ASSERT(offsetof(type, path) == (offset), "offset of " #type "." #path)

#endif /* ESKER_TESTS_ABI_LAYOUT_H */
