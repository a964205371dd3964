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
	OK(esker_field_store_close(fsh, 0, NULL));
	refused(esker_field_flush(fsh, NULL), -DER_NO_HDL, "a field store");
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
