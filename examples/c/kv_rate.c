/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how many values per second one process puts into a Key-Value and gets from it.
 *
 * usage: kv_rate [--ops N] [--value BYTES] POOL CONT
 *
 * Every value is compared after it was read. The first pass is not measured, because the first use
 * of new memory is slow. Start several processes to measure concurrency: each uses its own
 * Key-Value.
 */
#include "example.h"

#include <unistd.h>

#define KEY_BYTES 32

struct load {
	unsigned long ops;
	unsigned long value_bytes;
	char        (*keys)[KEY_BYTES];
	char         *value;
	char         *buffer;
};

/* The value of a key starts with its number; the rest is constant. */
static void
set_number(struct load *load, unsigned long key)
{
	memcpy(load->value, &key, load->value_bytes < sizeof(key) ? load->value_bytes : sizeof(key));
}

static void
make_load(struct load *load)
{
	unsigned long i;

	load->keys = allocate(load->ops * KEY_BYTES);
	load->value = allocate(load->value_bytes);
	load->buffer = allocate(load->value_bytes);
	memset(load->value, 'v', load->value_bytes);
	for (i = 0; i < load->ops; i++)
		snprintf(load->keys[i], KEY_BYTES, "key-%012lu", i);
}

static double
put_all(daos_handle_t kv, struct load *load)
{
	double        start = seconds();
	unsigned long i;

	for (i = 0; i < load->ops; i++) {
		set_number(load, i);
		check(daos_kv_put(kv, DAOS_TX_NONE, 0, load->keys[i], load->value_bytes, load->value, NULL),
		      "putting", load->keys[i]);
	}
	return seconds() - start;
}

static double
get_all(daos_handle_t kv, struct load *load)
{
	double        start = seconds();
	unsigned long i;
	daos_size_t   size;

	for (i = 0; i < load->ops; i++) {
		size = load->value_bytes;
		check(daos_kv_get(kv, DAOS_TX_NONE, 0, load->keys[i], &size, load->buffer, NULL), "getting",
		      load->keys[i]);
		set_number(load, i);
		if (size != load->value_bytes || memcmp(load->value, load->buffer, size) != 0)
			fail("%s: the value read differs from the one put", load->keys[i]);
	}
	return seconds() - start;
}

static void
tell(const char *what, const struct load *load, double took)
{
	printf("%s of %lu bytes: %lu in %.3f s, %.0f per second\n", what, load->value_bytes, load->ops, took,
	       took > 0 ? (double)load->ops / took : 0);
}

int
main(int argc, char **argv)
{
	struct load   load = {.ops = 100000, .value_bytes = 64};
	struct handles  handles;
	daos_handle_t kv;
	int           at = 1;

	for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
		if (strcmp(argv[at], "--ops") == 0)
			load.ops = number(argv[at + 1], argv[at]);
		else if (strcmp(argv[at], "--value") == 0)
			load.value_bytes = number(argv[at + 1], argv[at]);
		else
			break;
	}
	if (argc != at + 2)
		fail("usage: %s [--ops N] [--value BYTES] POOL CONT", argv[0]);
	make_load(&load);
	handles = open_handles(argv[at], argv[at + 1], 1);
	kv = open_kv(&handles, 2, (uint64_t)getpid(), DAOS_OO_RW);
	put_all(kv, &load);
	check(daos_kv_destroy(kv, DAOS_TX_NONE, NULL), "emptying", "the Key-Value");
	tell("puts", &load, put_all(kv, &load));
	tell("gets", &load, get_all(kv, &load));
	check(daos_kv_destroy(kv, DAOS_TX_NONE, NULL), "emptying", "the Key-Value");
	check(daos_kv_close(kv, NULL), "closing", "the Key-Value");
	close_handles(&handles);
	return 0;
}
