/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how many values per second one process puts into a Key-Value and gets from it.
 *
 * compile: cc -O2 kv_rate.c -o kv_rate $(pkg-config --cflags --libs daos)
 *
 * usage: kv_rate [--ops N] [--seconds S] [--value BYTES] POOL CONT
 *
 * Each pass ends after N values (100000), or after S seconds (2). A pass prints its rate to standard
 * error twice a second. Every value is compared after it was read. The first pass is not measured,
 * because the first use of new memory is slow. Start several processes to measure concurrency: each
 * uses its own Key-Value.
 */
#include "example.h"

#include <unistd.h>

#define KEY_BYTES 32
/* The clock is read once for this number of values, because reading it takes time. */
#define CLOCK_OPS 16
/* Seconds between two lines about the rate. */
#define TELL_SECONDS 0.5

/* Values of a pass: at most ops of them, each of value_bytes, for at most seconds_max seconds. */
struct load {
	unsigned long ops;
	unsigned long seconds_max;
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

/* Allocates keys and buffers. */
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

/* A pass over the values: its start, its duration and the last report, in seconds, and the values done. */
struct pass {
	const char   *name;
	double        start;
	double        took;
	double        told;
	unsigned long ops;
};

/* Starts a pass. */
static struct pass
begin(const char *name)
{
	double start = seconds();

	return (struct pass){.name = name, .start = start, .told = start};
}

/* Counts the pass as finished up to `ops` values, and prints its rate now and then. */
static void
advance(struct pass *pass, unsigned long ops)
{
	double now = seconds();

	pass->ops = ops;
	pass->took = now - pass->start;
	if (now - pass->told >= TELL_SECONDS) {
		fprintf(stderr, "%s: %lu so far, %.0f per second\n", pass->name, ops, (double)ops / pass->took);
		pass->told = now;
	}
}

/* Puts values until there are `ops` of them, or the time is over. */
static struct pass
put_all(daos_handle_t kv, struct load *load, const char *name)
{
	struct pass   pass = begin(name);
	unsigned long i;

	for (i = 0; i < load->ops && pass.took < (double)load->seconds_max; i++) {
		set_number(load, i);
		check(daos_kv_put(kv, DAOS_TX_NONE, 0, load->keys[i], load->value_bytes, load->value, NULL),
		      "putting", load->keys[i]);
		if (i % CLOCK_OPS == CLOCK_OPS - 1)
			advance(&pass, i + 1);
	}
	advance(&pass, i);
	return pass;
}

/* Gets the first `ops` values until the time is over, and compares them. */
static struct pass
get_all(daos_handle_t kv, struct load *load, unsigned long ops)
{
	struct pass   pass = begin("gets");
	unsigned long i;
	daos_size_t   size;

	for (i = 0; i < ops && pass.took < (double)load->seconds_max; i++) {
		size = load->value_bytes;
		check(daos_kv_get(kv, DAOS_TX_NONE, 0, load->keys[i], &size, load->buffer, NULL), "getting",
		      load->keys[i]);
		set_number(load, i);
		if (size != load->value_bytes || memcmp(load->value, load->buffer, size) != 0)
			fail("%s: the value read differs from the one put", load->keys[i]);
		if (i % CLOCK_OPS == CLOCK_OPS - 1)
			advance(&pass, i + 1);
	}
	advance(&pass, i);
	return pass;
}

/* Prints the result of a pass. */
static void
tell(const struct load *load, struct pass pass)
{
	printf("%s of %lu bytes: %lu in %.3f s, %.0f per second\n", pass.name, load->value_bytes, pass.ops,
	       pass.took, pass.took > 0 ? (double)pass.ops / pass.took : 0);
}

/* Fills the Key-Value and empties it again, so that the measured puts use no new memory. */
static void
warm_up(daos_handle_t kv, struct load *load)
{
	put_all(kv, load, "first puts");
	check(daos_kv_destroy(kv, DAOS_TX_NONE, NULL), "emptying", "the Key-Value");
}

int
main(int argc, char **argv)
{
	struct load    load = {.ops = 100000, .seconds_max = 2, .value_bytes = 64};
	struct handles handles;
	struct pass    puts;
	daos_handle_t  kv;
	int            at = 1;

	for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
		if (strcmp(argv[at], "--ops") == 0)
			load.ops = number(argv[at + 1], argv[at]);
		else if (strcmp(argv[at], "--seconds") == 0)
			load.seconds_max = number(argv[at + 1], argv[at]);
		else if (strcmp(argv[at], "--value") == 0)
			load.value_bytes = number(argv[at + 1], argv[at]);
		else
			break;
	}
	if (argc != at + 2)
		fail("usage: %s [--ops N] [--seconds S] [--value BYTES] POOL CONT", argv[0]);
	make_load(&load);
	handles = open_handles(argv[at], argv[at + 1], 1);
	kv = open_kv(&handles, 2, (uint64_t)getpid(), DAOS_OO_RW);
	warm_up(kv, &load);
	puts = put_all(kv, &load, "puts");
	tell(&load, puts);
	tell(&load, get_all(kv, &load, puts.ops));
	check(daos_kv_destroy(kv, DAOS_TX_NONE, NULL), "emptying", "the Key-Value");
	check(daos_kv_close(kv, NULL), "closing", "the Key-Value");
	close_handles(&handles);
	return 0;
}
