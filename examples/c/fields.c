/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores the fields of GRIB files, one Array each, with an index, and reads them back.
 *
 * usage: fields write [--repeat N] POOL CONT FILE...
 *        fields read  [--repeat N] POOL CONT FILE...
 *
 * The index is a Key-Value: the key is FILE#NUMBER, the value identifies the Array that holds the
 * field and its length. Writing again creates new Arrays, enters them into the index, and only then
 * removes the old ones: readers find a complete field at any time. Reading, also by another
 * process, goes through the index and compares every field with the file byte by byte.
 *
 * The first use of new memory is slow, so with --repeat the first pass is reported separately.
 */
#include "example.h"
#include "grib.h"

#define CHUNK_BYTES (1 << 20)
/* User bits of the index. Numbers from daos_cont_alloc_oids have 0 in their upper half. */
#define INDEX_HI 1
#define KEY_BYTES 1024

/* A field in memory. */
struct field {
	char                 key[KEY_BYTES];
	const unsigned char *bytes;
	size_t               size;
};

struct fields {
	struct field *all;
	size_t        count;
	size_t        largest;
	double        bytes;
};

/* The index entry of a field. */
struct entry {
	daos_obj_id_t oid;
	uint64_t      size;
};

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
	if (snprintf(field->key, KEY_BYTES, "%s#%d", path, number) >= KEY_BYTES)
		fail("%s: the name is too long for a key", path);
	fields->bytes += (double)size;
	if (size > fields->largest)
		fields->largest = size;
}

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

/* A range at the start of an Array, and the memory for it. */
struct transfer {
	daos_array_iod_t iod;
	daos_range_t     range;
	d_sg_list_t      sgl;
	d_iov_t          iov;
};

static void
set_transfer(struct transfer *transfer, void *bytes, size_t size)
{
	memset(transfer, 0, sizeof(*transfer));
	transfer->range.rg_len = size;
	transfer->iod.arr_nr = 1;
	transfer->iod.arr_rgs = &transfer->range;
	d_iov_set(&transfer->iov, bytes, size);
	transfer->sgl.sg_nr = 1;
	transfer->sgl.sg_iovs = &transfer->iov;
}

static daos_handle_t
open_array(struct handles *handles, daos_obj_id_t oid, unsigned int mode, const char *key)
{
	daos_handle_t array;

	check(daos_array_open_with_attr(handles->cont, oid, DAOS_TX_NONE, mode, 1, CHUNK_BYTES, &array, NULL),
	      "opening the Array of", key);
	return array;
}

/* Stores a field and enters it into the index. */
static struct entry
write_field(struct handles *handles, daos_handle_t index, const struct field *field, uint64_t lo)
{
	struct transfer transfer;
	struct entry    entry = {.oid = {.hi = 0, .lo = lo}, .size = field->size};
	daos_handle_t   array;

	check(daos_obj_generate_oid(handles->cont, &entry.oid, DAOS_OT_ARRAY_BYTE, OC_S1, 0, 0),
	      "indexing the Array of", field->key);
	array = open_array(handles, entry.oid, DAOS_OO_RW, field->key);
	set_transfer(&transfer, (void *)field->bytes, field->size);
	check(daos_array_write(array, DAOS_TX_NONE, &transfer.iod, &transfer.sgl, NULL), "writing",
	      field->key);
	check(daos_array_close(array, NULL), "closing", field->key);
	check(daos_kv_put(index, DAOS_TX_NONE, 0, field->key, sizeof(entry), &entry, NULL), "indexing",
	      field->key);
	return entry;
}

/* The index entry of a field; its size is 0 if it does not exist. */
static struct entry
look_up(daos_handle_t index, const char *key)
{
	struct entry entry = {.size = 0};
	daos_size_t  size = sizeof(entry);

	check(daos_kv_get(index, DAOS_TX_NONE, 0, key, &size, &entry, NULL), "looking up", key);
	if (size != 0 && size != sizeof(entry))
		fail("%s: the index entry is invalid", key);
	return entry;
}

/* Finds a field and reads it into a buffer of its length. */
static void
read_field(struct handles *handles, daos_handle_t index, const struct field *field, unsigned char *buffer)
{
	struct transfer transfer;
	struct entry    entry = look_up(index, field->key);
	daos_handle_t   array;

	if (entry.size != field->size)
		fail("%s: %zu bytes in the file, %zu in the store", field->key, field->size,
		     (size_t)entry.size);
	array = open_array(handles, entry.oid, DAOS_OO_RO, field->key);
	set_transfer(&transfer, buffer, field->size);
	check(daos_array_read(array, DAOS_TX_NONE, &transfer.iod, &transfer.sgl, NULL), "reading",
	      field->key);
	check(daos_array_close(array, NULL), "closing", field->key);
}

static void
remove_array(struct handles *handles, const struct entry *entry, const char *key)
{
	daos_handle_t array;

	if (entry->size == 0)
		return;
	array = open_array(handles, entry->oid, DAOS_OO_RW, key);
	check(daos_array_destroy(array, DAOS_TX_NONE, NULL), "removing the former Array of", key);
	check(daos_array_close(array, NULL), "closing", key);
}

/* Stores all fields once; returns the time taken, without the removal of old Arrays. */
static double
write_pass(struct handles *handles, daos_handle_t index, const struct fields *fields, struct entry *former)
{
	double   start, end;
	uint64_t lo;
	size_t   i;

	for (i = 0; i < fields->count; i++)
		former[i] = look_up(index, fields->all[i].key);
	check(daos_cont_alloc_oids(handles->cont, fields->count, &lo, NULL), "asking for", "object ids");
	start = seconds();
	for (i = 0; i < fields->count; i++)
		write_field(handles, index, &fields->all[i], lo + i);
	end = seconds();
	for (i = 0; i < fields->count; i++)
		remove_array(handles, &former[i], fields->all[i].key);
	return end - start;
}

/* Reads all fields once and compares them; returns the time taken by the reads. */
static double
read_pass(struct handles *handles, daos_handle_t index, const struct fields *fields, unsigned char *buffer)
{
	double start, took = 0;
	size_t i;

	for (i = 0; i < fields->count; i++) {
		const struct field *field = &fields->all[i];

		memset(buffer, 0, field->size);
		start = seconds();
		read_field(handles, index, field, buffer);
		took += seconds() - start;
		if (memcmp(buffer, field->bytes, field->size) != 0)
			fail("%s: the stored field differs from the file", field->key);
	}
	return took;
}

static void
tell(const char *what, const struct fields *fields, unsigned long passes, double took)
{
	double mib = fields->bytes * (double)passes / (1 << 20);
	double count = (double)fields->count * (double)passes;

	printf("%s: %.0f fields, %.1f MiB, %.1f MiB/s, %.0f fields/s\n", what, count, mib,
	       took > 0 ? mib / took : 0, took > 0 ? count / took : 0);
}

static void
run(int writes, unsigned long repeat, const char *pool, const char *cont, const struct fields *fields)
{
	struct handles   handles = open_handles(pool, cont, writes);
	daos_handle_t  index = open_kv(&handles, INDEX_HI, 0, writes ? DAOS_OO_RW : DAOS_OO_RO);
	struct entry  *former = allocate(fields->count * sizeof(*former));
	unsigned char *buffer = allocate(fields->largest);
	double         took, first = 0, others = 0;
	unsigned long  pass;

	for (pass = 0; pass < repeat; pass++) {
		took = writes ? write_pass(&handles, index, fields, former)
			      : read_pass(&handles, index, fields, buffer);
		if (pass == 0)
			first = took;
		else
			others += took;
	}
	tell(writes ? "written" : "read and compared", fields, 1, first);
	if (repeat > 1)
		tell(writes ? "written again" : "read and compared again", fields, repeat - 1, others);
	free(buffer);
	free(former);
	check(daos_kv_close(index, NULL), "closing", "the index");
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
