/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives the fields of GRIB files in a field store, and reads them back.
 *
 * compile: cc -O2 fields.c -o fields $(pkg-config --cflags --libs esker)
 *
 * usage: fields write [--repeat N] POOL CONT FILE...
 *        fields read  [--repeat N] POOL CONT FILE...
 *
 * The key of a field has the name of its file and its number in the file. A schema of our own says
 * so. `esker fields list` and esker.FieldStore of Python read the same fields. Writing again masks
 * the fields that are there: readers find a complete field at any time, and a purge frees the masked
 * ones. Reading, also by another process, compares every field with the file byte by byte.
 *
 * The first use of new memory is slow, so with --repeat the first pass is reported separately.
 */
#include "example.h"
#include "grib.h"

/* A database for each file, an index in it, and a field for each message. */
static const char schema[] = "[file [kind [message: Integer]]]";
/* Longest value of a key. */
#define VALUE_BYTES 256
#define PAIRS 3

/* A field in memory. */
struct field {
	char                 file[VALUE_BYTES];
	char                 message[16];
	const unsigned char *bytes;
	size_t               size;
};

/* All fields, the size of the largest, and the bytes of all. */
struct fields {
	struct field *all;
	size_t        count;
	size_t        largest;
	double        bytes;
};

/* A key of the store. */
struct key {
	esker_pair_t pairs[PAIRS];
};

/* The key of a field: file, kind and number of the message. */
static struct key
key_of(const struct field *field)
{
	struct key key = {{{"file", field->file}, {"kind", "grib"}, {"message", field->message}}};

	return key;
}

/* Reads a file to new memory, and sets *size to its size. */
static unsigned char *
read_file(const char *path, size_t *size)
{
	unsigned char *bytes;
	long           end;
	FILE          *file = fopen(path, "rb");

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (end = ftell(file)) < 0)
		fail("%s is not readable", path);
	rewind(file);
	*size = (size_t)end;
	bytes = allocate(*size);
	if (fread(bytes, 1, *size, file) != *size)
		fail("%s is not readable", path);
	fclose(file);
	return bytes;
}

/* The path as a value of a key, which has neither slashes nor commas. */
static void
set_file(struct field *field, const char *path)
{
	char *at;

	if (snprintf(field->file, VALUE_BYTES, "%s", path) >= VALUE_BYTES)
		fail("%s: the name is too long for a key", path);
	for (at = field->file; *at != '\0'; at++)
		if (*at == '/' || *at == ',')
			*at = '|';
}

/* Adds message number `number` of a file. Its bytes are not copied. */
static void
add_field(struct fields *fields, const char *path, int number, const unsigned char *bytes, size_t size)
{
	struct field *field;

	fields->all = realloc(fields->all, (fields->count + 1) * sizeof(*fields->all));
	if (fields->all == NULL)
		fail("out of memory");
	field = &fields->all[fields->count++];
	field->bytes = bytes;
	field->size = size;
	set_file(field, path);
	snprintf(field->message, sizeof(field->message), "%d", number);
	fields->bytes += (double)size;
	if (size > fields->largest)
		fields->largest = size;
}

/* Adds all messages of a file. */
static void
add_file(struct fields *fields, const char *path)
{
	size_t         size, length, at = 0;
	int            number = 0;
	unsigned char *bytes = read_file(path, &size);

	while ((length = grib_next(bytes, size, &at)) > 0) {
		add_field(fields, path, ++number, bytes + at, length);
		at += length;
	}
	if (number == 0)
		fprintf(stderr, "%s contains no complete GRIB message\n", path);
}

/* Archives all fields once and flushes; returns the time taken, without the purge of masked fields. */
static double
write_pass(daos_handle_t store, const struct fields *fields)
{
	double start = seconds(), took;
	size_t i;

	for (i = 0; i < fields->count; i++) {
		const struct field *field = &fields->all[i];
		struct key          key = key_of(field);

		check_store(esker_field_archive(store, key.pairs, PAIRS, field->bytes, field->size, NULL),
			    "archiving", field->file);
	}
	check_store(esker_field_flush(store, NULL), "flushing", "fields");
	took = seconds() - start;
	check_store(esker_field_purge(store, NULL, 0, ESKER_DOIT, NULL, NULL), "purging", "masked fields");
	return took;
}

/* Reads all fields once and compares them; returns the time taken by the reads. */
static double
read_pass(daos_handle_t store, const struct fields *fields, unsigned char *buffer)
{
	double start, took = 0;
	size_t i;

	for (i = 0; i < fields->count; i++) {
		const struct field *field = &fields->all[i];
		struct key          key = key_of(field);
		daos_size_t         size = fields->largest;

		memset(buffer, 0, field->size);
		start = seconds();
		check_store(esker_field_retrieve(store, key.pairs, PAIRS, buffer, &size, NULL), "reading",
			    field->file);
		took += seconds() - start;
		if (size != field->size || memcmp(buffer, field->bytes, field->size) != 0)
			fail("%s: field %s differs from the file", field->file, field->message);
	}
	return took;
}

/* Prints the rate of some passes, which took this time in seconds. */
static void
tell(const char *what, const struct fields *fields, unsigned long passes, double took)
{
	double mib = fields->bytes * (double)passes / (1 << 20);
	double count = (double)fields->count * (double)passes;

	printf("%s: %.0f fields, %.1f MiB, %.1f MiB/s, %.0f fields/s\n", what, count, mib,
	       took > 0 ? mib / took : 0, took > 0 ? count / took : 0);
}

/* Writes or reads all fields `repeat` times, and prints the rates. */
static void
run(int writes, unsigned long repeat, const char *pool, const char *cont, const struct fields *fields)
{
	struct handles handles = open_handles(pool, cont, writes);
	daos_handle_t  store;
	unsigned char *buffer = allocate(fields->largest);
	double         took, first = 0, others = 0;
	unsigned long  pass;

	check_store(esker_field_store_open(handles.cont, schema, writes ? ESKER_CREATE : 0, &store, NULL),
		    "opening the field store", cont);
	for (pass = 0; pass < repeat; pass++) {
		took = writes ? write_pass(store, fields) : read_pass(store, fields, buffer);
		if (pass == 0)
			first = took;
		else
			others += took;
	}
	tell(writes ? "written" : "read and compared", fields, 1, first);
	if (repeat > 1)
		tell(writes ? "written again" : "read and compared again", fields, repeat - 1, others);
	free(buffer);
	check_store(esker_field_store_close(store, 0, NULL), "closing the field store", cont);
	close_handles(&handles);
}

int
main(int argc, char **argv)
{
	struct fields fields = {.count = 0};
	unsigned long repeat = 1;
	int           i, at = 2, writes = argc > 1 && strcmp(argv[1], "write") == 0;

	if (argc > at && strcmp(argv[at], "--repeat") == 0) {
		repeat = number(argc > at + 1 ? argv[at + 1] : NULL, "--repeat");
		at += 2;
	}
	if (argc < at + 3 || (!writes && strcmp(argv[1], "read") != 0))
		fail("usage: %s write|read [--repeat N] POOL CONT FILE...", argv[0]);
	for (i = at + 2; i < argc; i++)
		add_file(&fields, argv[i]);
	if (fields.count == 0)
		fail("no fields: none of the files contains a complete GRIB message");
	run(writes, repeat, argv[at], argv[at + 1], &fields);
	return 0;
}
