/* SPDX-License-Identifier: Apache-2.0 */

/* Size and fields of the structures of esker.h, as the library has them. Compiling this file is the test. */

#include "layout.h"

#include <esker.h>

SIZE(esker_pair_t, 16);
	FIELD(esker_pair_t, name, 0, 8);
	FIELD(esker_pair_t, value, 8, 8);

SIZE(esker_field_removed_t, 32);
	FIELD(esker_field_removed_t, fields, 0, 8);
	FIELD(esker_field_removed_t, masked, 8, 8);
	FIELD(esker_field_removed_t, leftovers, 16, 8);
	FIELD(esker_field_removed_t, bytes, 24, 8);

SIZE(esker_tensor_collected_t, 32);
	FIELD(esker_tensor_collected_t, puts, 0, 8);
	FIELD(esker_tensor_collected_t, removed, 8, 8);
	FIELD(esker_tensor_collected_t, objects, 16, 8);
	FIELD(esker_tensor_collected_t, kept, 24, 8);

SIZE(esker_slab_t, 24);
	FIELD(esker_slab_t, start, 0, 8);
	FIELD(esker_slab_t, step, 8, 8);
	FIELD(esker_slab_t, count, 16, 8);

SIZE(esker_attr_t, 32);
	FIELD(esker_attr_t, name, 0, 8);
	FIELD(esker_attr_t, value, 8, 8);
	FIELD(esker_attr_t, size, 16, 8);
	FIELD(esker_attr_t, type, 24, 4);

SIZE(esker_tensor_info_t, 1664);
	FIELD(esker_tensor_info_t, uuid, 0, 40);
	FIELD(esker_tensor_info_t, dtype, 40, 64);
	FIELD(esker_tensor_info_t, name, 104, 1008);
	FIELD(esker_tensor_info_t, item, 1112, 8);
	FIELD(esker_tensor_info_t, bytes, 1120, 8);
	FIELD(esker_tensor_info_t, committed_ms, 1128, 8);
	FIELD(esker_tensor_info_t, attributes, 1136, 4);
	FIELD(esker_tensor_info_t, members, 1140, 4);
	FIELD(esker_tensor_info_t, ndim, 1144, 4);
	FIELD(esker_tensor_info_t, shape, 1152, 256);
	FIELD(esker_tensor_info_t, chunks, 1408, 256);
