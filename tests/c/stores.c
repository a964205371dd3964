/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stores of esker.h in a program of daos.h: one process, its handles, its events, both kinds of
 * store in one pool.
 */
#include "check.h"

#include <esker.h>

#define EVENTS 16

static const char schema[] = "[run [type [step: Integer]]]";

/** Checks that a call fails, with a text that contains a part. */
static void
refused(int rc, int expected, const char *part)
{
	GIVES(expected, rc);
	if (strstr(esker_error_text(), part) == NULL)
		fprintf(stderr, "\"%s\" does not contain \"%s\"\n", esker_error_text(), part);
	CHECK(strstr(esker_error_text(), part) != NULL);
}

static void
wait_for(daos_event_t *ev, int expected)
{
	bool done = false;

	OK(daos_event_test(ev, DAOS_EQ_WAIT, &done));
	CHECK(done);
	GIVES(expected, ev->ev_error);
}

/** Bytes of a field that can be viewed in place. */
#define LONG_FIELD 2000

/** Archives with many events under way, beside a put of DAOS in the same queue. */
static void
fields_with_events(daos_handle_t fsh, daos_handle_t eqh)
{
	daos_event_t events[EVENTS];
	char         data[EVENTS][8];
	uint64_t     count, bytes;
	int          i;

	for (i = 0; i < EVENTS; i++) {
		char         step[8];
		esker_pair_t key[] = {{"run", "a"}, {"type", "fc"}, {"step", step}};

		snprintf(step, sizeof(step), "%d", i);
		snprintf(data[i], sizeof(data[i]), "step%3d", i);
		OK(daos_event_init(&events[i], eqh, NULL));
		OK(esker_field_archive(fsh, key, 3, data[i], sizeof(data[i]), &events[i]));
	}
	for (i = 0; i < EVENTS; i++) {
		wait_for(&events[i], 0);
		CHECK(esker_event_error_text(&events[i])[0] == '\0');
	}
	OK(esker_field_pending(fsh, &count, &bytes));
	CHECK(count == EVENTS && bytes == EVENTS * sizeof(data[0]));
	OK(esker_field_flush(fsh, NULL));
	for (i = 0; i < EVENTS; i++)
		OK(daos_event_fini(&events[i]));
}

static void
axes(daos_handle_t fsh)
{
	const esker_pair_t request[] = {{"step", "3/to/20"}};
	daos_handle_t      axes;
	daos_event_t       ev;
	uint32_t           count;
	uint64_t           values;
	char               name[ESKER_FIELD_NAME_SIZE], value[ESKER_FIELD_VALUE_SIZE];

	OK(daos_event_init(&ev, DAOS_HDL_INVAL, NULL));
	OK(esker_field_axes(fsh, request, 1, ESKER_EMPTY, &axes, &count, &ev));
	wait_for(&ev, 0);
	CHECK(count == 3);
	OK(esker_field_axis(axes, 1, name, sizeof(name), &values));
	CHECK(strcmp(name, "step") == 0 && values == EVENTS - 3);
	OK(esker_field_axis_value(axes, 1, values - 1, value, sizeof(value)));
	CHECK(strcmp(value, "15") == 0);
	refused(esker_field_axis(axes, 3, name, sizeof(name), NULL), -DER_INVAL, "axis 3 of 3");
	OK(esker_field_axes_close(axes, NULL));
	refused(esker_field_axes(fsh, NULL, 0, ESKER_DOIT, &axes, NULL, NULL), -DER_INVAL, "flags");
}

/** A process sees what another handle flushes, and reads it in place and in part. */
static void
watch_and_view(daos_handle_t coh, daos_handle_t fsh)
{
	const esker_pair_t key[] = {{"run", "b"}, {"type", "fc"}, {"step", "0"}};
	static char        data[LONG_FIELD];
	daos_handle_t      writer, watch, sel, view;
	const void        *bytes = NULL;
	uint64_t           count, archived, offset;
	daos_size_t        size;
	char               part[3] = "", path[ESKER_FIELD_PATH_SIZE] = "?";
	int                rc;

	OK(esker_field_watch(fsh, key, 1, 0, &watch, NULL));
	refused(esker_field_watch_next(watch, DAOS_EQ_NOWAIT, &sel, &count), -DER_TIMEDOUT,
		"within 0 microseconds");
	OK(esker_field_store_open(coh, NULL, 0, &writer, NULL));
	snprintf(data, sizeof(data), "watched");
	OK(esker_field_archive(writer, key, 3, data, sizeof(data), NULL));
	OK(esker_field_flush(writer, NULL));
	OK(esker_field_watch_next(watch, DAOS_EQ_WAIT, &sel, &count));
	CHECK(count == 1);
	OK(esker_field_watch_close(watch, NULL));
	OK(esker_field_read_at(sel, 0, 2, part, 2, NULL));
	CHECK(strcmp(part, "tc") == 0);
	OK(esker_field_location(sel, 0, &archived, path, sizeof(path), &offset));
	CHECK(archived > 0 && path[0] == '\0' && offset == 0);
	rc = esker_field_view(sel, 0, ESKER_IN_PLACE, &view, &bytes, &size, NULL);
	if (rc == -DER_NOTSUPPORTED)
		rc = esker_field_view(sel, 0, 0, &view, &bytes, &size, NULL);
	OK(rc);
	OK(esker_field_select_close(sel, NULL));
	OK(esker_field_wipe(fsh, key, 1, ESKER_DOIT, NULL, NULL));
	CHECK(size == sizeof(data) && memcmp(bytes, data, size) == 0);
	OK(esker_field_view_close(view, NULL));
	refused(esker_field_view_close(view, NULL), -DER_NO_HDL, "a view");
	OK(esker_field_store_close(writer, 0, NULL));
}

/** A field in a file of the program. */
static void
adopted(daos_handle_t fsh)
{
	const esker_pair_t key[] = {{"run", "c"}, {"type", "fc"}, {"step", "0"}};
	daos_handle_t      sel;
	daos_size_t        size = 4;
	uint64_t           offset;
	char               file[] = "/tmp/esker-adopted-XXXXXX", data[5] = "", path[ESKER_FIELD_PATH_SIZE];
	int                fd = mkstemp(file);

	CHECK(fd >= 0 && write(fd, "header, data", 12) == 12);
	refused(esker_field_adopt(fsh, key, 3, file, 8, 5, NULL), -DER_INVAL, "a file of 12 bytes");
	OK(esker_field_adopt(fsh, key, 3, file, 8, 4, NULL));
	OK(esker_field_flush(fsh, NULL));
	OK(esker_field_retrieve(fsh, key, 3, data, &size, NULL));
	CHECK(size == 4 && strcmp(data, "data") == 0);
	OK(esker_field_select(fsh, key, 3, &sel, NULL, NULL));
	OK(esker_field_location(sel, 0, NULL, path, sizeof(path), &offset));
	CHECK(strcmp(path, file) == 0 && offset == 8);
	OK(esker_field_select_close(sel, NULL));
	OK(unlink(file));
	size = 4;
	refused(esker_field_retrieve(fsh, key, 3, data, &size, NULL), -DER_NONEXIST, file);
	close(fd);
}

static void
fields(daos_handle_t coh, daos_handle_t eqh)
{
	const esker_pair_t key[] = {{"run", "a"}, {"type", "fc"}, {"step", "7"}};
	const esker_pair_t missing[] = {{"run", "a"}, {"type", "fc"}, {"step", "99"}};
	daos_handle_t      fsh, sel;
	daos_event_t       ev;
	daos_size_t        size = 3;
	uint64_t           count;
	char               data[8] = "xxxxxxx", text[ESKER_FIELD_KEY_SIZE];
	int                rc;

	refused(esker_field_store_open(coh, NULL, 0, &fsh, NULL), -DER_INVAL, "holds no fields");
	rc = esker_field_store_open(coh, schema, ESKER_CREATE, &fsh, NULL);
	OK(rc);
	fields_with_events(fsh, eqh);
	refused(esker_field_retrieve(fsh, key, 3, data, &size, NULL), -DER_REC2BIG, "a buffer of 3 bytes");
	CHECK(size == sizeof(data) && strcmp(data, "xxxxxxx") == 0);
	OK(esker_field_retrieve(fsh, key, 3, data, &size, NULL));
	CHECK(strcmp(data, "step  7") == 0);
	OK(daos_event_init(&ev, eqh, NULL));
	OK(esker_field_retrieve(fsh, missing, 3, data, &size, &ev));
	wait_for(&ev, -DER_NONEXIST);
	CHECK(strstr(esker_event_error_text(&ev), "step=99") != NULL);
	OK(daos_event_fini(&ev));
	OK(esker_field_list(fsh, key, 2, &sel, &count, NULL));
	CHECK(count == EVENTS);
	OK(esker_field_entry(sel, 0, text, sizeof(text), &size));
	CHECK(strcmp(text, "run=a,type=fc,step=0") == 0 && size == 8);
	OK(esker_field_select_close(sel, NULL));
	refused(esker_field_archive(fsh, key, 3, NULL, 8, NULL), -DER_INVAL, "data is a null pointer");
	axes(fsh);
	watch_and_view(coh, fsh);
	adopted(fsh);
	OK(esker_field_store_close(fsh, 0, NULL));
	refused(esker_field_flush(fsh, NULL), -DER_NO_HDL, "a field store");
}

/** Attributes of lists, in a PUT that is never committed, which a collection frees. */
static void
collected(daos_handle_t tsh)
{
	const uint64_t           shape[] = {2};
	const double             range[] = {0, 100};
	const esker_attr_t       attrs[] = {
		{"range", range, sizeof(range), ESKER_ATTR_LIST | ESKER_ATTR_REAL, 0},
		{"words", "a\0b", 4, ESKER_ATTR_LIST | ESKER_ATTR_TEXT, 0},
	};
	esker_tensor_collected_t counts;
	daos_handle_t            put, th;
	char                     words[4];
	double                   found[2] = {0};
	daos_size_t              size = sizeof(found);
	uint32_t                 type;

	OK(esker_tensor_begin(tsh, "|u1", 1, shape, NULL, attrs, 2, &put, NULL));
	OK(esker_tensor_write(put, 1, (const uint64_t[]){0}, shape, "ab", 2, NULL));
	OK(esker_tensor_commit(put, "listed", NULL, NULL));
	OK(esker_tensor_put_close(put, NULL));
	OK(esker_tensor_open(tsh, "listed", &th, NULL));
	OK(esker_tensor_attribute(th, "range", &type, found, &size));
	CHECK(type == (ESKER_ATTR_LIST | ESKER_ATTR_REAL) && memcmp(found, range, sizeof(range)) == 0);
	size = sizeof(words);
	OK(esker_tensor_attribute(th, "words", &type, words, &size));
	CHECK(type == (ESKER_ATTR_LIST | ESKER_ATTR_TEXT) && memcmp(words, "a\0b", 4) == 0);
	OK(esker_tensor_close(th, NULL));
	OK(esker_tensor_begin(tsh, "|u1", 1, shape, NULL, NULL, 0, &put, NULL));
	OK(esker_tensor_put_close(put, NULL));
	OK(esker_tensor_collect(tsh, 3600, ESKER_DOIT, &counts, NULL));
	CHECK(counts.puts == 0 && counts.kept == 1);
	OK(esker_tensor_collect(tsh, 0, ESKER_DOIT, &counts, NULL));
	CHECK(counts.puts == 1);
}

/** A snapshot has the tensor that a later one replaces. Pools of files have no snapshots. */
static void
snapshots(daos_handle_t coh, daos_handle_t tsh)
{
	const uint64_t shape[] = {2};
	daos_handle_t  snapshot, th;
	daos_epoch_t   epoch;
	daos_size_t    size = 2;
	char           found[3] = "";

	OK(esker_tensor_put(tsh, "|u1", 1, shape, "ab", 2, "s", NULL, NULL));
	if (daos_cont_create_snap(coh, &epoch, NULL, NULL) == -DER_NOTSUPPORTED)
		return;
	OK(esker_tensor_put(tsh, "|u1", 1, shape, "cd", 2, "s", NULL, NULL));
	OK(esker_tensor_store_at(tsh, epoch, &snapshot, NULL));
	OK(esker_tensor_open(snapshot, "s", &th, NULL));
	OK(esker_tensor_get(th, NULL, 0, found, &size, NULL));
	CHECK(strcmp(found, "ab") == 0);
	OK(esker_tensor_close(th, NULL));
	refused(esker_tensor_remove(snapshot, "s", NULL), -DER_NO_PERM, "read-only");
	OK(esker_tensor_store_close(snapshot, NULL));
	refused(esker_tensor_store_at(tsh, epoch + 1, &snapshot, NULL), -DER_NONEXIST, "snapshot");
}

static void
tensors(daos_handle_t coh)
{
	const uint64_t      shape[] = {2, 3}, start[] = {1, 0}, count[] = {1, 3};
	const int32_t       row[] = {1, 2, 3};
	daos_handle_t       tsh, put, joined, th;
	esker_tensor_info_t info;
	char                token[ESKER_UUID_SIZE];
	int32_t             found[6];
	daos_size_t         size = sizeof(found);

	OK(esker_tensor_store_open(coh, ESKER_CREATE, &tsh, NULL));
	OK(esker_tensor_begin(tsh, "<i4", 2, shape, NULL, NULL, 0, &put, NULL));
	OK(esker_tensor_token(put, token));
	OK(esker_tensor_join(tsh, token, &joined, NULL));
	OK(esker_tensor_put_query(joined, &info));
	CHECK(info.ndim == 2 && info.bytes == sizeof(found) && info.chunks[0] == 2);
	OK(esker_tensor_write(joined, 2, start, count, row, sizeof(row), NULL));
	refused(esker_tensor_open(tsh, token, &th, NULL), -DER_NONEXIST, token);
	refused(esker_tensor_commit(put, "t", NULL, NULL), -DER_INVAL, "cannot be committed");
	OK(esker_tensor_write(put, 2, (const uint64_t[]){0, 0}, count, row, sizeof(row), NULL));
	OK(esker_tensor_commit(put, "t", NULL, NULL));
	OK(esker_tensor_open(tsh, "t", &th, NULL));
	OK(esker_tensor_query(th, &info));
	CHECK(info.ndim == 2 && info.shape[1] == 3 && strcmp(info.dtype, "<i4") == 0);
	OK(esker_tensor_get(th, NULL, 0, found, &size, NULL));
	CHECK(size == sizeof(found) && memcmp(found + 3, row, sizeof(row)) == 0);
	OK(esker_tensor_close(th, NULL));
	OK(esker_tensor_put_close(joined, NULL));
	OK(esker_tensor_put_close(put, NULL));
	collected(tsh);
	snapshots(coh, tsh);
	OK(esker_tensor_store_close(tsh, NULL));
}

int
main(int argc, char **argv)
{
	struct store  store, other;
	daos_handle_t eqh, fsh;

	CHECK(argc == 2);
	GIVES(-DER_UNINIT, esker_field_store_open(DAOS_HDL_INVAL, NULL, 0, &fsh, NULL));
	CHECK(strstr(esker_error_text(), "daos_init") != NULL);
	store = store_open(argv[1], "fields");
	other = store_open(argv[1], "tensors");
	OK(daos_eq_create(&eqh));
	fields(store.coh, eqh);
	tensors(other.coh);
	OK(daos_eq_destroy(eqh, 0));
	store_close(&other);
	store_close(&store);
	return 0;
}
