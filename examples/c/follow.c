/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a field store: prints the values that the keys have, then each field as soon as any
 * process has flushed it, with its size and the sum of its bytes.
 *
 * compile: cc -O2 follow.c -o follow $(pkg-config --cflags --libs esker)
 *
 * usage: follow [--seconds N] POOL CONT [NAME=VALUE]...
 *
 * The pairs are those of a request: step=0/to/24/by/6. The existing fields come first. The program
 * ends when no field has come for N seconds, 10 unless they are given. In a pool in memory, the
 * bytes are used where they are stored, without a copy.
 */
#include "example.h"

/* Most pairs of a request. */
#define PAIRS_MAX 64

/* A request as it is passed to the library. */
struct request {
	esker_pair_t pairs[PAIRS_MAX];
	uint32_t     count;
};

/* Adds NAME=VALUE to the request. */
static void
add_pair(struct request *request, char *text)
{
	char *value = strchr(text, '=');

	if (value == NULL || request->count == PAIRS_MAX)
		fail("%s: write NAME=VALUE, at most %d times", text, PAIRS_MAX);
	*value++ = '\0';
	request->pairs[request->count].name = text;
	request->pairs[request->count++].value = value;
}

/* Prints a line for each name: "step: 0 6 12". */
static void
tell_axes(daos_handle_t store, const struct request *request)
{
	char          name[ESKER_FIELD_NAME_SIZE], value[ESKER_FIELD_VALUE_SIZE];
	daos_handle_t axes;
	uint32_t      count, axis;
	uint64_t      values, i;

	check_store(esker_field_axes(store, request->pairs, request->count, 0, &axes, &count, NULL),
		    "finding", "the axes");
	for (axis = 0; axis < count; axis++) {
		check_store(esker_field_axis(axes, axis, name, sizeof(name), &values), "reading", "an axis");
		printf("%s:", name);
		for (i = 0; i < values; i++) {
			check_store(esker_field_axis_value(axes, axis, i, value, sizeof(value)), "reading",
				    name);
			printf(" %s", value);
		}
		printf("\n");
	}
	check_store(esker_field_axes_close(axes, NULL), "closing", "the axes");
}

/* The sum of some bytes. */
static unsigned long
sum(const unsigned char *bytes, daos_size_t size)
{
	unsigned long total = 0;

	while (size-- > 0)
		total += *bytes++;
	return total;
}

/* Prints the key, size and sum of the bytes of a field that was found. */
static void
tell_field(daos_handle_t found, uint64_t index)
{
	char          key[ESKER_FIELD_KEY_SIZE];
	daos_handle_t view;
	const void   *bytes;
	daos_size_t   size;

	check_store(esker_field_entry(found, index, key, sizeof(key), NULL), "reading", "a key");
	check_store(esker_field_view(found, index, 0, &view, &bytes, &size, NULL), "viewing", key);
	printf("%s: %zu bytes, sum %lu\n", key, (size_t)size, sum(bytes, size));
	check_store(esker_field_view_close(view, NULL), "closing the view of", key);
}

/* Prints fields until none has come for `patience` seconds. */
static void
follow(daos_handle_t store, const struct request *request, unsigned long patience)
{
	daos_handle_t watch, found;
	uint64_t      count, i;
	int           rc;

	check_store(esker_field_watch(store, request->pairs, request->count, ESKER_EXISTING, &watch, NULL),
		    "watching", "the fields");
	for (;;) {
		rc = esker_field_watch_next(watch, (int64_t)patience * 1000000, &found, &count);
		if (rc == -DER_TIMEDOUT)
			break;
		check_store(rc, "waiting for", "fields");
		for (i = 0; i < count; i++)
			tell_field(found, i);
		check_store(esker_field_select_close(found, NULL), "closing", "a selection");
		fflush(stdout);
	}
	check_store(esker_field_watch_close(watch, NULL), "closing", "the watch");
}

int
main(int argc, char **argv)
{
	struct request request = {.count = 0};
	struct handles handles;
	daos_handle_t  store;
	unsigned long  patience = 10;
	int            at = 1;

	if (argc > at && strcmp(argv[at], "--seconds") == 0) {
		patience = number(argc > at + 1 ? argv[at + 1] : NULL, "--seconds");
		at += 2;
	}
	if (argc < at + 2)
		fail("usage: %s [--seconds N] POOL CONT [NAME=VALUE]...", argv[0]);
	handles = open_handles(argv[at], argv[at + 1], 0);
	check_store(esker_field_store_open(handles.cont, NULL, 0, &store, NULL), "opening the field store",
		    argv[at + 1]);
	for (at += 2; at < argc; at++)
		add_pair(&request, argv[at]);
	tell_axes(store, &request);
	follow(store, &request, patience);
	check_store(esker_field_store_close(store, 0, NULL), "closing", "the field store");
	close_handles(&handles);
	return 0;
}
