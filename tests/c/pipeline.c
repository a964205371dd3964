/* SPDX-License-Identifier: Apache-2.0 */

/* Pipelines: the sum of the ages of old enough dogs, and their names. */

#include <daos_pipeline.h>

#include "check.h"

enum { PETS = 200, PAGE = 7 };

#define SET(iov, text) d_iov_set((iov), (void *)(text), strlen(text))

static void
put(daos_handle_t oh, int number)
{
	char        name[16];
	const char *species = number % 3 == 0 ? "dog" : "cat";
	uint32_t    age     = (uint32_t)number;
	daos_key_t  dkey;
	daos_iod_t  iods[2] = {0};
	d_iov_t     iovs[2];
	d_sg_list_t sgls[2] = {{1, 0, &iovs[0]}, {1, 0, &iovs[1]}};

	snprintf(name, sizeof(name), "pet%03d", number);
	SET(&dkey, name);
	SET(&iods[0].iod_name, "species");
	SET(&iods[1].iod_name, "age");
	iods[0].iod_type = iods[1].iod_type = DAOS_IOD_SINGLE;
	iods[0].iod_nr = iods[1].iod_nr = 1;
	iods[0].iod_size = 3;
	iods[1].iod_size = sizeof(age);
	SET(&iovs[0], species);
	d_iov_set(&iovs[1], &age, sizeof(age));
	OK(daos_obj_update(oh, NO_TX, 0, &dkey, 2, iods, sgls, NULL));
}

static void
part(daos_filter_t *filter, daos_filter_part_t *part, const char *type, uint32_t operands,
     const char *data_type, const char *akey, d_iov_t *constant)
{
	memset(part, 0, sizeof(*part));
	SET(&part->part_type, type);
	part->num_operands = operands;
	if (data_type != NULL)
		SET(&part->data_type, data_type);
	if (akey != NULL)
		SET(&part->akey, akey);
	part->constant      = constant;
	part->num_constants = constant != NULL ? 1 : 0;
	OK(daos_filter_add(filter, part));
}

/** Runs a pipeline to its end; returns the number of records. */
static int
run(struct store *store, daos_handle_t oh, daos_pipeline_t *pipeline, d_sg_list_t *result)
{
	char                  keys[PAGE * 8], values[PAGE * 8];
	daos_key_desc_t       kds[PAGE];
	daos_size_t           sizes[PAGE * 2];
	daos_iod_t            iods[2] = {0};
	daos_anchor_t         anchor  = DAOS_ANCHOR_INIT;
	daos_pipeline_stats_t stats;
	int                   found = 0;

	SET(&iods[0].iod_name, "species");
	SET(&iods[1].iod_name, "age");
	iods[0].iod_type = iods[1].iod_type = DAOS_IOD_SINGLE;
	iods[0].iod_nr = iods[1].iod_nr = 1;
	iods[0].iod_size = iods[1].iod_size = 4;
	while (!daos_anchor_is_eof(&anchor)) {
		uint32_t    nr_iods = 2, nr_kds = PAGE;
		d_iov_t     key_iov, value_iov;
		d_sg_list_t sgl_keys = {1, 0, &key_iov}, sgl_values = {1, 0, &value_iov};

		d_iov_set(&key_iov, keys, sizeof(keys));
		d_iov_set(&value_iov, values, sizeof(values));
		OK(daos_pipeline_run(store->coh, oh, pipeline, NO_TX, 0, NULL, &nr_iods, iods, &anchor,
				     &nr_kds, kds, &sgl_keys, &sgl_values, sizes, result, &stats, NULL));
		CHECK(key_iov.iov_len == nr_kds * strlen("pet000"));
		CHECK(value_iov.iov_len == nr_kds * 7 && (nr_kds == 0 || sizes[1] == 4));
		CHECK(nr_kds == 0 || memcmp(values, "dog", 3) == 0);
		found += (int)nr_kds;
	}
	CHECK(stats.nr_dkeys == PETS);
	return found;
}

int
main(int argc, char **argv)
{
	struct store       store = store_open(argv[argc - 1], "pipeline");
	daos_handle_t      oh;
	daos_pipeline_t    pipeline;
	daos_filter_t      condition, aggregation;
	daos_filter_part_t parts[7], sum_parts[2];
	uint32_t           limit = 100;
	double             sum   = -1;
	d_iov_t            dog, least, result_iov;
	d_sg_list_t        result = {1, 0, &result_iov};
	int                i;

	OK(daos_obj_open(store.coh, new_oid(&store, DAOS_OT_MULTI_HASHED, OC_SX), DAOS_OO_RW, &oh,
			 NULL));
	for (i = 0; i < PETS; i++)
		put(oh, i);
	SET(&dog, "dog");
	d_iov_set(&least, &limit, sizeof(limit));
	d_iov_set(&result_iov, &sum, sizeof(sum));

	daos_pipeline_init(&pipeline);
	daos_filter_init(&condition);
	SET(&condition.filter_type, "DAOS_FILTER_CONDITION");
	part(&condition, &parts[0], "DAOS_FILTER_FUNC_AND", 2, NULL, NULL, NULL);
	part(&condition, &parts[1], "DAOS_FILTER_FUNC_EQ", 2, NULL, NULL, NULL);
	part(&condition, &parts[2], "DAOS_FILTER_AKEY", 0, "DAOS_FILTER_TYPE_BINARY", "species", NULL);
	part(&condition, &parts[3], "DAOS_FILTER_CONST", 0, "DAOS_FILTER_TYPE_BINARY", NULL, &dog);
	part(&condition, &parts[4], "DAOS_FILTER_FUNC_GE", 2, NULL, NULL, NULL);
	part(&condition, &parts[5], "DAOS_FILTER_AKEY", 0, "DAOS_FILTER_TYPE_UINTEGER4", "age", NULL);
	OK(daos_pipeline_add(&pipeline, &condition));
	GIVES(-DER_INVAL, daos_pipeline_check(&pipeline));
	part(&condition, &parts[6], "DAOS_FILTER_CONST", 0, "DAOS_FILTER_TYPE_UINTEGER4", NULL, &least);
	OK(daos_pipeline_check(&pipeline));
	CHECK(run(&store, oh, &pipeline, NULL) == 33);

	daos_filter_init(&aggregation);
	SET(&aggregation.filter_type, "DAOS_FILTER_AGGREGATION");
	part(&aggregation, &sum_parts[0], "DAOS_FILTER_FUNC_SUM", 1, NULL, NULL, NULL);
	part(&aggregation, &sum_parts[1], "DAOS_FILTER_AKEY", 0, "DAOS_FILTER_TYPE_UINTEGER4", "age",
	     NULL);
	OK(daos_pipeline_add(&pipeline, &aggregation));
	CHECK(run(&store, oh, &pipeline, &result) == 1);
	CHECK(sum == 33 * (102 + 198) / 2);

	OK(daos_pipeline_free(&pipeline));
	CHECK(pipeline.num_filters == 0 && condition.num_parts == 0);
	OK(daos_obj_close(oh, NULL));
	store_close(&store);
	return 0;
}
