/* SPDX-License-Identifier: Apache-2.0 */
/* Shared code of the examples: a container to work in, a clock, and error reporting. */
#ifndef ESKER_EXAMPLE_H
#define ESKER_EXAMPLE_H

#include <daos.h>
#include <esker.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An open pool and container. */
struct handles {
	daos_handle_t pool;
	daos_handle_t cont;
};

/* Prints a message and ends the program. */
static inline void
fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* Ends the program if a call of libdaos has failed. The message begins with doing and what. */
static inline void
check(int rc, const char *doing, const char *what)
{
	if (rc != 0)
		fail("%s %s: %s: %s", doing, what, d_errstr(rc), d_errdesc(rc));
}

/* Ends the program if a call of esker.h has failed. */
static inline void
check_store(int rc, const char *doing, const char *what)
{
	if (rc != 0)
		fail("%s %s: %s: %s", doing, what, d_errstr(rc), esker_error_text());
}

/* Zeroed memory of at least one byte. Ends the program if there is none. */
static inline void *
allocate(size_t size)
{
	void *memory = calloc(size > 0 ? size : 1, 1);

	if (memory == NULL)
		fail("out of memory");
	return memory;
}

/* Opens the container. If it is to be written, it is created first unless it exists. */
static inline struct handles
open_handles(const char *pool, const char *cont, int writable)
{
	struct handles handles;
	unsigned int pool_mode = writable ? DAOS_PC_RW : DAOS_PC_RO;
	unsigned int cont_mode = writable ? DAOS_COO_RW : DAOS_COO_RO;
	int          rc;

	check(daos_init(), "starting", "libdaos");
	check(daos_pool_connect(pool, NULL, pool_mode, &handles.pool, NULL, NULL), "connecting to pool", pool);
	if (writable) {
		rc = daos_cont_create_with_label(handles.pool, cont, NULL, NULL, NULL);
		if (rc != -DER_EXIST)
			check(rc, "creating container", cont);
	}
	check(daos_cont_open(handles.pool, cont, cont_mode, &handles.cont, NULL, NULL), "opening container",
	      cont);
	return handles;
}

/* Closes the container and the pool, and ends libdaos. */
static inline void
close_handles(struct handles *handles)
{
	check(daos_cont_close(handles->cont, NULL), "closing", "the container");
	check(daos_pool_disconnect(handles->pool, NULL), "leaving", "the pool");
	check(daos_fini(), "ending", "libdaos");
}

/* Opens the Key-Value with these user bits. */
static inline daos_handle_t
open_kv(struct handles *handles, uint64_t hi, uint64_t lo, unsigned int mode)
{
	daos_obj_id_t oid = {.hi = hi, .lo = lo};
	daos_handle_t kv;

	check(daos_obj_generate_oid(handles->cont, &oid, DAOS_OT_KV_HASHED, OC_S1, 0, 0), "naming",
	      "a Key-Value");
	check(daos_kv_open(handles->cont, oid, mode, &kv, NULL), "opening", "a Key-Value");
	return kv;
}

/* The time in seconds since some point in the past, for durations. */
static inline double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Parses an integer of at least 1, or ends the program. */
static inline unsigned long
number(const char *text, const char *name)
{
	char         *end;
	unsigned long value = text == NULL ? 0 : strtoul(text, &end, 10);

	if (value == 0 || *end != '\0')
		fail("%s needs an integer of at least 1", name);
	return value;
}

#endif /* ESKER_EXAMPLE_H */
