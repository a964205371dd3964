/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Size and fields of the structures of daos_fs.h and daos_uns.h, as in programs that were built
 * against other headers of this interface. Compiling this file is the test. x86-64 only.
 */

#include "layout.h"

#include <daos_fs.h>
#include <daos_uns.h>

SIZE(dfs_attr_t, 176);
	FIELD(dfs_attr_t, da_id, 0, 8);
	FIELD(dfs_attr_t, da_chunk_size, 8, 8);
	FIELD(dfs_attr_t, da_oclass_id, 16, 4);
	FIELD(dfs_attr_t, da_props, 24, 8);
	FIELD(dfs_attr_t, da_mode, 32, 4);
	FIELD(dfs_attr_t, da_dir_oclass_id, 36, 4);
	FIELD(dfs_attr_t, da_file_oclass_id, 40, 4);
	FIELD(dfs_attr_t, da_hints, 44, 128);

SIZE(dfs_obj_info_t, 40);
	FIELD(dfs_obj_info_t, doi_oclass_id, 0, 4);
	FIELD(dfs_obj_info_t, doi_chunk_size, 8, 8);
	FIELD(dfs_obj_info_t, doi_dir_oclass_id, 16, 4);
	FIELD(dfs_obj_info_t, doi_file_oclass_id, 20, 4);
	FIELD(dfs_obj_info_t, doi_oid, 24, 16);

SIZE(dfs_iod_t, 16);
	FIELD(dfs_iod_t, iod_nr, 0, 8);
	FIELD(dfs_iod_t, iod_rgs, 8, 8);

SIZE(dfs_predicate_t, 272);
	FIELD(dfs_predicate_t, dp_name, 0, 255);
	FIELD(dfs_predicate_t, dp_newer, 256, 8);
	FIELD(dfs_predicate_t, dp_size, 264, 8);

SIZE(struct duns_attr_t, 480);
	FIELD(struct duns_attr_t, da_type, 0, 2);
	FIELD(struct duns_attr_t, da_oclass_id, 4, 4);
	FIELD(struct duns_attr_t, da_chunk_size, 8, 8);
	FIELD(struct duns_attr_t, da_props, 16, 8);
	FIELD(struct duns_attr_t, da_flags, 24, 4);
	FIELD(struct duns_attr_t, da_pool, 28, 128);
	FIELD(struct duns_attr_t, da_cont, 156, 128);
	FIELD(struct duns_attr_t, da_sys, 288, 8);
	FIELD(struct duns_attr_t, da_rel_path, 296, 8);
	FIELD(struct duns_attr_t, da_on_lustre, 304, 1);
	FIELD(struct duns_attr_t, da_no_prefix, 305, 1);
	FIELD(struct duns_attr_t, da_puuid, 306, 16);
	FIELD(struct duns_attr_t, da_cuuid, 322, 16);
	FIELD(struct duns_attr_t, da_dir_oclass_id, 340, 4);
	FIELD(struct duns_attr_t, da_file_oclass_id, 344, 4);
	FIELD(struct duns_attr_t, da_hints, 348, 128);
