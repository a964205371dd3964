/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_GURT_DEBUG_H
#define ESKER_GURT_DEBUG_H

/**
 * @file
 * Messages and assertions of programs that use DAOS's names for them.
 *
 * Messages go to standard error if the environment has ESKER_LOG, which makes the library say why calls fail, too. Those for
 * debugging are compiled and never written.
 */

#include <gurt/common.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

/** Masks of D_DEBUG, without an effect. */
#define DB_ALL   1
#define DB_ANY   1
#define DB_IO    1
#define DB_MD    1
#define DB_MEM   1
#define DB_NET   1
#define DB_TRACE 1

#ifdef __cplusplus
extern "C" {
#endif

static inline bool
esker_logs(void)
{
	const char *value = getenv("ESKER_LOG");

	return value != NULL && value[0] != '\0';
}

/** Write a message, which brings its newline, if the environment has ESKER_LOG. */
__attribute__((format(printf, 2, 3))) static inline void
esker_message(const char *function, const char *format, ...)
{
	va_list args;

	if (!esker_logs())
		return;
	va_start(args, format);
	fprintf(stderr, "%s: ", function);
	vfprintf(stderr, format, args);
	va_end(args);
}

/** Like esker_message, of a message without a newline that ends with a return value. */
__attribute__((format(printf, 3, 4))) static inline void
esker_message_rc(const char *function, int rc, const char *format, ...)
{
	va_list args;

	if (!esker_logs())
		return;
	va_start(args, format);
	fprintf(stderr, "%s: ", function);
	vfprintf(stderr, format, args);
	fprintf(stderr, ": " DF_RC "\n", DP_RC(rc));
	va_end(args);
}

#ifdef __cplusplus
}
#endif

#define D_ERROR(...)  esker_message(__func__, __VA_ARGS__)
#define D_WARN(...)   esker_message(__func__, __VA_ARGS__)
#define D_NOTE(...)   esker_message(__func__, __VA_ARGS__)
#define D_INFO(...)   esker_message(__func__, __VA_ARGS__)

/** Check the arguments, and write nothing. */
#define D_DEBUG(mask, ...)                                                                         \
	do {                                                                                       \
		if ((mask) == 0)                                                                   \
			esker_message(__func__, __VA_ARGS__);                                      \
	} while (0)

/** A message without a newline, and a return value. */
#define DL_ERROR(rc, ...) esker_message_rc(__func__, (rc), __VA_ARGS__)
#define DL_WARN(rc, ...) DL_ERROR(rc, __VA_ARGS__)
#define DL_INFO(rc, ...) DL_ERROR(rc, __VA_ARGS__)

/** Write to standard output at once. */
#define D_PRINT(...)                                                                               \
	do {                                                                                       \
		fprintf(stdout, __VA_ARGS__);                                                      \
		fflush(stdout);                                                                    \
	} while (0)

#define D_ASSERT(condition)       assert(condition)
#define D_ASSERTF(condition, ...)                                                                  \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, __VA_ARGS__);                                              \
			assert(condition);                                                         \
		}                                                                                  \
	} while (0)

#endif /* ESKER_GURT_DEBUG_H */
