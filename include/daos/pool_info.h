/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_POOL_INFO_H
#define ESKER_DAOS_POOL_INFO_H

/**
 * @file
 * Information about pools: space, targets, rebuild.
 */

#include <daos_prop.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** States of a target. */
typedef enum {
	DAOS_TS_UNKNOWN  = 0,
	/** Out of service, its data rebuilt elsewhere. */
	DAOS_TS_DOWN_OUT = 1,
	/** Out of service. */
	DAOS_TS_DOWN     = 2,
	/** In service, still being filled. */
	DAOS_TS_UP       = 3,
	/** In service. */
	DAOS_TS_UP_IN    = 4,
	/** Added. */
	DAOS_TS_NEW      = 5,
	/** Being emptied. */
	DAOS_TS_DRAIN    = 6
} daos_target_state_t;

/** Performance of a target; currently empty. */
typedef struct {
	int foo;
} daos_target_perf_t;

/** Kinds of storage: indexes into the arrays below. */
enum daos_media_type_t {
	DAOS_MEDIA_SCM  = 0,
	DAOS_MEDIA_NVME = 1,
	DAOS_MEDIA_MAX  = 2
};

/** Bytes of each kind of storage. */
struct daos_space {
	uint64_t s_total[DAOS_MEDIA_MAX];
	uint64_t s_free[DAOS_MEDIA_MAX];
};

/** A target. */
typedef struct {
	uint32_t            ta_padding;
	daos_target_state_t ta_state;
	daos_target_perf_t  ta_perf;
	struct daos_space   ta_space;
} daos_target_info_t;

/** Space of a pool. */
struct daos_pool_space {
	/** Bytes, over all targets in service. */
	struct daos_space ps_space;
	/** Bytes free on the fullest target. */
	uint64_t          ps_free_min[DAOS_MEDIA_MAX];
	/** Bytes free on the emptiest target. */
	uint64_t          ps_free_max[DAOS_MEDIA_MAX];
	/** Bytes free on average. */
	uint64_t          ps_free_mean[DAOS_MEDIA_MAX];
	/** Targets in service. */
	uint32_t          ps_ntargets;
	uint32_t          ps_padding;
};

/** States of a rebuild. */
enum daos_rebuild_state_t {
	DRS_IN_PROGRESS = 0,
	DRS_NOT_STARTED = 1,
	DRS_COMPLETED   = 2
};

/** Flags of a rebuild. */
enum daos_rebuild_status_flag {
	/** Some data has fewer copies than it should. */
	DAOS_RSF_DEGRADED = 0x1
};

/** A rebuild. */
struct daos_rebuild_status {
	/** Target version of the pool map. */
	uint32_t rs_version;
	/** Seconds it took. */
	uint32_t rs_seconds;
	/** Its error, 0 or negated. */
	int32_t  rs_errno;
	/** daos_rebuild_state_t, under two names. */
	__extension__ union {
		int32_t rs_state;
		int32_t rs_done;
	};
	/** Version of container layouts that the pool supports. */
	uint16_t rs_max_supported_layout_ver;
	/** daos_rebuild_status_flag. */
	uint8_t  rs_flags;
	uint8_t  rs_reserved_;
	/** The rank that caused the failure. */
	int32_t  rs_fail_rank;
	/** Objects to examine, objects done, records and bytes moved. */
	uint64_t rs_toberb_obj_nr;
	uint64_t rs_obj_nr;
	uint64_t rs_rec_nr;
	uint64_t rs_size;
};

/** Bits of pi_bits: additional information to return in a daos_pool_info_t. */
enum daos_pool_info_bit {
	DPI_SPACE                  = 0x01,
	DPI_REBUILD_STATUS         = 0x02,
	/** Return the ranks that are in service. */
	DPI_ENGINES_ENABLED        = 0x04,
	/** Return the ranks that are not. */
	DPI_ENGINES_DISABLED       = 0x08,
	/** Return the ranks that do not respond. */
	DPI_ENGINES_DEAD           = 0x10,
	DPI_REBUILD_MAX_LAYOUT_VER = 0x20,
	DPI_SELF_HEAL_POLICY       = 0x40,
	DPI_ALL                    = -1
};

/** A pool. */
typedef struct {
	uuid_t                     pi_uuid;
	/** Targets. */
	uint32_t                   pi_ntargets;
	/** Nodes. */
	uint32_t                   pi_nnodes;
	/** Targets out of service. */
	uint32_t                   pi_ndisabled;
	/** Version of the pool map. */
	uint32_t                   pi_map_ver;
	/** The rank that leads the pool service. */
	uint32_t                   pi_leader;
	/** In: what to return, daos_pool_info_bit. */
	uint64_t                   pi_bits;
	/** With DPI_SPACE. */
	struct daos_pool_space     pi_space;
	/** With DPI_REBUILD_STATUS. */
	struct daos_rebuild_status pi_rebuild_st;
} daos_pool_info_t;

/** A container of a pool. */
struct daos_pool_cont_info {
	uuid_t pci_uuid;
	/** Its label, or DAOS_PROP_NO_CO_LABEL. */
	char   pci_label[DAOS_PROP_MAX_LABEL_BUF_LEN];
};

/** A container of a pool, with the results of daos_cont_query. */
struct daos_pool_cont_info2 {
	struct daos_pool_cont_info pci_id;
	daos_cont_info_t           pci_cinfo;
	void                      *pci_reserved[2];
};

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_POOL_INFO_H */
