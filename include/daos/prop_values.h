/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_PROP_VALUES_H
#define ESKER_DAOS_PROP_VALUES_H

/**
 * @file
 * The properties of pools and containers, and their values.
 *
 * Each property says which member of a daos_prop_entry holds its value: dpe_val (number),
 * dpe_str (string) or dpe_val_ptr (pointer).
 */

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Properties of a pool. */
enum daos_pool_props {
	DAOS_PROP_PO_MIN               = 0,
	/** String: its name. */
	DAOS_PROP_PO_LABEL             = 1,
	/** Pointer to a struct daos_acl: the access control list. */
	DAOS_PROP_PO_ACL               = 2,
	/** Number: percentage of space reserved for rebuild. */
	DAOS_PROP_PO_SPACE_RB          = 3,
	/** Number: DAOS_SELF_HEAL_*. */
	DAOS_PROP_PO_SELF_HEAL         = 4,
	/** Number: DAOS_RECLAIM_*. */
	DAOS_PROP_PO_RECLAIM           = 5,
	/** String: the user that owns it, user@. */
	DAOS_PROP_PO_OWNER             = 6,
	/** String: the group that owns it, group@. */
	DAOS_PROP_PO_OWNER_GROUP       = 7,
	/** Pointer to a d_rank_list_t: replicas of the pool service. */
	DAOS_PROP_PO_SVC_LIST          = 8,
	/** Number: bytes of an erasure code cell. */
	DAOS_PROP_PO_EC_CELL_SZ        = 9,
	/** Number: minimum size in bytes of data that goes to block storage. */
	DAOS_PROP_PO_DATA_THRESH       = 10,
	/** Number: redundancy factor of new containers. */
	DAOS_PROP_PO_REDUN_FAC         = 11,
	/** Number: performance domain affinity of erasure-coded objects. */
	DAOS_PROP_PO_EC_PDA            = 12,
	/** Number: performance domain affinity of replicated objects. */
	DAOS_PROP_PO_RP_PDA            = 13,
	/** Number: version of its format. */
	DAOS_PROP_PO_GLOBAL_VERSION    = 14,
	/** Number: DAOS_UPGRADE_STATUS_*. */
	DAOS_PROP_PO_UPGRADE_STATUS    = 15,
	/** Number: DAOS_SCRUB_MODE_*. */
	DAOS_PROP_PO_SCRUB_MODE        = 16,
	/** Number: seconds between two scrubs. */
	DAOS_PROP_PO_SCRUB_FREQ        = 17,
	/** Number: checksum errors after which a target is evicted; 0: never. */
	DAOS_PROP_PO_SCRUB_THRESH      = 18,
	/** Number: redundancy factor of the pool service. */
	DAOS_PROP_PO_SVC_REDUN_FAC     = 19,
	/** Number: version of the placement of objects. */
	DAOS_PROP_PO_OBJ_VERSION       = 20,
	/** Number: DAOS_PROP_PERF_DOMAIN_*. */
	DAOS_PROP_PO_PERF_DOMAIN       = 21,
	/** Number: DAOS_CHECKPOINT_*. */
	DAOS_PROP_PO_CHECKPOINT_MODE   = 22,
	/** Number: seconds between two checkpoints. */
	DAOS_PROP_PO_CHECKPOINT_FREQ   = 23,
	/** Number: percentage of the log that triggers a checkpoint. */
	DAOS_PROP_PO_CHECKPOINT_THRESH = 24,
	/** Number: DAOS_REINT_MODE_*. */
	DAOS_PROP_PO_REINT_MODE        = 25,
	/** Number: whether the service recognises repeated requests. */
	DAOS_PROP_PO_SVC_OPS_ENABLED   = 26,
	/** Number: seconds for which it recognises them. */
	DAOS_PROP_PO_SVC_OPS_ENTRY_AGE = 27,
	DAOS_PROP_PO_MAX               = 28
};

/** The number of pool properties. */
#define DAOS_PROP_PO_NUM                       27

#define DAOS_PROP_PO_EC_CELL_SZ_MIN            0x400UL
#define DAOS_PROP_PO_EC_CELL_SZ_MAX            0x40000000UL
#define DAOS_PROP_PO_REDUN_FAC_MAX             4
#define DAOS_PROP_PO_REDUN_FAC_DEFAULT         3
#define DAOS_PROP_PDA_MAX                      UINT32_MAX
#define DAOS_PROP_PO_RP_PDA_DEFAULT            DAOS_PROP_PDA_MAX
#define DAOS_PROP_PO_EC_PDA_DEFAULT            ((uint32_t)1)
#define DAOS_PROP_PO_SVC_REDUN_FAC_MAX         4
#define DAOS_PROP_PO_SVC_REDUN_FAC_DEFAULT     2
#define DAOS_PROP_PO_DATA_THRESH_DEFAULT       4096UL
#define DAOS_PROP_PO_REINT_MODE_DEFAULT        DAOS_REINT_MODE_DATA_SYNC
#define DAOS_PROP_PO_SCRUB_MODE_DEFAULT        DAOS_SCRUB_MODE_OFF
#define DAOS_PROP_PO_SCRUB_FREQ_DEFAULT        604800
#define DAOS_PROP_PO_SCRUB_THRESH_DEFAULT      0
#define DAOS_PROP_PO_CHECKPOINT_MODE_DEFAULT   DAOS_CHECKPOINT_TIMED
#define DAOS_PROP_PO_CHECKPOINT_FREQ_DEFAULT   5
#define DAOS_PROP_PO_CHECKPOINT_FREQ_MIN       1
#define DAOS_PROP_PO_CHECKPOINT_FREQ_MAX       0x100000
#define DAOS_PROP_PO_CHECKPOINT_THRESH_DEFAULT 50
#define DAOS_PROP_PO_CHECKPOINT_THRESH_MIN     10
#define DAOS_PROP_PO_CHECKPOINT_THRESH_MAX     75
#define DAOS_PROP_PO_SVC_OPS_ENABLED_DEFAULT   1
#define DAOS_PROP_PO_SVC_OPS_ENTRY_AGE_DEFAULT 300
#define DAOS_PROP_PO_SVC_OPS_ENTRY_AGE_MIN     60
#define DAOS_PROP_PO_SVC_OPS_ENTRY_AGE_MAX     600

/** Progress of an upgrade of a pool's format. */
enum {
	DAOS_UPGRADE_STATUS_NOT_STARTED = 0,
	DAOS_UPGRADE_STATUS_IN_PROGRESS = 1,
	DAOS_UPGRADE_STATUS_COMPLETED   = 2,
	DAOS_UPGRADE_STATUS_FAILED      = 3
};

/** Levels of fault domains, for performance. */
enum {
	DAOS_PROP_PERF_DOMAIN_GROUP = 200,
	DAOS_PROP_PERF_DOMAIN_ROOT  = 255
};
#define DAOS_PROP_PO_PERF_DOMAIN_DEFAULT DAOS_PROP_PERF_DOMAIN_ROOT
#define DAOS_PROP_CO_PERF_DOMAIN_DEFAULT DAOS_PROP_PERF_DOMAIN_ROOT

/** When the space of old epochs is reclaimed. */
enum {
	DAOS_RECLAIM_DISABLED = 0,
	/** When the system is idle. */
	DAOS_RECLAIM_LAZY     = 1,
	/** When a snapshot is created. */
	DAOS_RECLAIM_SNAPSHOT = 2,
	/** When enough has accumulated. */
	DAOS_RECLAIM_BATCH    = 3,
	/** At intervals. */
	DAOS_RECLAIM_TIME     = 4
};

/** Data that a reintegrated target gets. */
enum {
	/** With all the data it should have. */
	DAOS_REINT_MODE_DATA_SYNC    = 0,
	/** Not at all. */
	DAOS_REINT_MODE_NO_DATA_SYNC = 1,
	/** With what it missed. */
	DAOS_REINT_MODE_INCREMENTAL  = 2
};

/** When checksums of stored data are verified. */
enum {
	DAOS_SCRUB_MODE_OFF     = 0,
	DAOS_SCRUB_MODE_LAZY    = 1,
	DAOS_SCRUB_MODE_TIMED   = 2,
	DAOS_SCRUB_MODE_INVALID = 3
};

/** When checkpoints are taken. */
enum {
	DAOS_CHECKPOINT_DISABLED = 0,
	DAOS_CHECKPOINT_TIMED    = 1,
	DAOS_CHECKPOINT_LAZY     = 2
};

/** Automatic actions of a pool when a component fails. */
#define DAOS_SELF_HEAL_AUTO_EXCLUDE  0x1U
#define DAOS_SELF_HEAL_AUTO_REBUILD  0x2U
#define DAOS_SELF_HEAL_DELAY_REBUILD 0x4U

/** Properties of a container. */
enum daos_cont_props {
	DAOS_PROP_CO_MIN                = 0x1000,
	/** String: its name. */
	DAOS_PROP_CO_LABEL              = 0x1001,
	/** Number: DAOS_PROP_CO_LAYOUT_*, its contents. */
	DAOS_PROP_CO_LAYOUT_TYPE        = 0x1002,
	/** Number: version of that layout. */
	DAOS_PROP_CO_LAYOUT_VER         = 0x1003,
	/** Number: DAOS_PROP_CO_CSUM_*. */
	DAOS_PROP_CO_CSUM               = 0x1004,
	/** Number: bytes under one checksum. */
	DAOS_PROP_CO_CSUM_CHUNK_SIZE    = 0x1005,
	/** Number: DAOS_PROP_CO_CSUM_SV_*. */
	DAOS_PROP_CO_CSUM_SERVER_VERIFY = 0x1006,
	/** Number: DAOS_PROP_CO_REDUN_RF*, failures to tolerate. */
	DAOS_PROP_CO_REDUN_FAC          = 0x1007,
	/** Number: DAOS_PROP_CO_REDUN_RANK and so on, the fault domain. */
	DAOS_PROP_CO_REDUN_LVL          = 0x1008,
	/** Number: maximum number of snapshots; 0: unlimited. */
	DAOS_PROP_CO_SNAPSHOT_MAX       = 0x1009,
	/** Pointer to a struct daos_acl: the access control list. */
	DAOS_PROP_CO_ACL                = 0x100a,
	/** Number: DAOS_PROP_CO_COMPRESS_*. */
	DAOS_PROP_CO_COMPRESS           = 0x100b,
	/** Number: DAOS_PROP_CO_ENCRYPT_*. */
	DAOS_PROP_CO_ENCRYPT            = 0x100c,
	/** String: the user that owns it, user@. */
	DAOS_PROP_CO_OWNER              = 0x100d,
	/** String: the group that owns it, group@. */
	DAOS_PROP_CO_OWNER_GROUP        = 0x100e,
	/** Number: DAOS_PROP_CO_DEDUP_*. */
	DAOS_PROP_CO_DEDUP              = 0x100f,
	/** Number: minimum size in bytes of data that is deduplicated. */
	DAOS_PROP_CO_DEDUP_THRESHOLD    = 0x1010,
	/** Pointer to a struct daos_prop_co_roots: where its layout starts. */
	DAOS_PROP_CO_ROOTS              = 0x1011,
	/** Number: DAOS_PROP_CO_STATUS_VAL, its health. */
	DAOS_PROP_CO_STATUS             = 0x1012,
	/** Number: progress of daos_cont_alloc_oids. Only set at creation. */
	DAOS_PROP_CO_ALLOCED_OID        = 0x1013,
	/** Number: bytes of an erasure code cell. */
	DAOS_PROP_CO_EC_CELL_SZ         = 0x1014,
	/** Number: performance domain affinity of erasure-coded objects. */
	DAOS_PROP_CO_EC_PDA             = 0x1015,
	/** Number: performance domain affinity of replicated objects. */
	DAOS_PROP_CO_RP_PDA             = 0x1016,
	/** Number: version of its format. */
	DAOS_PROP_CO_GLOBAL_VERSION     = 0x1017,
	/** Number: whether scrubbing skips it. */
	DAOS_PROP_CO_SCRUBBER_DISABLED  = 0x1018,
	/** Number: version of the placement of objects. */
	DAOS_PROP_CO_OBJ_VERSION        = 0x1019,
	/** Number: DAOS_PROP_PERF_DOMAIN_*. */
	DAOS_PROP_CO_PERF_DOMAIN        = 0x101a,
	DAOS_PROP_CO_MAX                = 0x101b
};

/** The number of container properties. */
#define DAOS_PROP_CO_NUM 26

/** A layout, of the list below. */
typedef uint16_t daos_cont_layout_t;

/** Kind of a container's content. */
enum {
	DAOS_PROP_CO_LAYOUT_UNKNOWN  = 0,
	/** The same, in an older spelling. */
	DAOS_PROP_CO_LAYOUT_UNKOWN   = 0,
	/** A file system. */
	DAOS_PROP_CO_LAYOUT_POSIX    = 1,
	DAOS_PROP_CO_LAYOUT_HDF5     = 2,
	DAOS_PROP_CO_LAYOUT_PYTHON   = 3,
	DAOS_PROP_CO_LAYOUT_SPARK    = 4,
	DAOS_PROP_CO_LAYOUT_DATABASE = 5,
	DAOS_PROP_CO_LAYOUT_ROOT     = 6,
	DAOS_PROP_CO_LAYOUT_SEISMIC  = 7,
	DAOS_PROP_CO_LAYOUT_METEO    = 8,
	DAOS_PROP_CO_LAYOUT_MAX      = 9
};

/** Checksums. */
enum {
	DAOS_PROP_CO_CSUM_OFF     = 0,
	DAOS_PROP_CO_CSUM_CRC16   = 1,
	DAOS_PROP_CO_CSUM_CRC32   = 2,
	DAOS_PROP_CO_CSUM_CRC64   = 3,
	DAOS_PROP_CO_CSUM_SHA1    = 4,
	DAOS_PROP_CO_CSUM_SHA256  = 5,
	DAOS_PROP_CO_CSUM_SHA512  = 6,
	DAOS_PROP_CO_CSUM_ADLER32 = 7
};

/** Whether checksums are verified when data is stored too. */
enum {
	DAOS_PROP_CO_CSUM_SV_OFF = 0,
	DAOS_PROP_CO_CSUM_SV_ON  = 1
};

/** Deduplication, by comparison or by hash alone. */
enum {
	DAOS_PROP_CO_DEDUP_OFF    = 0,
	DAOS_PROP_CO_DEDUP_MEMCMP = 1,
	DAOS_PROP_CO_DEDUP_HASH   = 2
};

/** Compression. */
enum {
	DAOS_PROP_CO_COMPRESS_OFF      = 0,
	DAOS_PROP_CO_COMPRESS_LZ4      = 1,
	DAOS_PROP_CO_COMPRESS_DEFLATE  = 2,
	DAOS_PROP_CO_COMPRESS_DEFLATE1 = 3,
	DAOS_PROP_CO_COMPRESS_DEFLATE2 = 4,
	DAOS_PROP_CO_COMPRESS_DEFLATE3 = 5,
	DAOS_PROP_CO_COMPRESS_DEFLATE4 = 6
};

/** Encryption. */
enum {
	DAOS_PROP_CO_ENCRYPT_OFF        = 0,
	DAOS_PROP_CO_ENCRYPT_AES_XTS128 = 1,
	DAOS_PROP_CO_ENCRYPT_AES_XTS256 = 2,
	DAOS_PROP_CO_ENCRYPT_AES_CBC128 = 3,
	DAOS_PROP_CO_ENCRYPT_AES_CBC192 = 4,
	DAOS_PROP_CO_ENCRYPT_AES_CBC256 = 5,
	DAOS_PROP_CO_ENCRYPT_AES_GCM128 = 6,
	DAOS_PROP_CO_ENCRYPT_AES_GCM256 = 7
};

/** Failures to tolerate. */
enum {
	DAOS_PROP_CO_REDUN_RF0 = 0,
	DAOS_PROP_CO_REDUN_RF1 = 1,
	DAOS_PROP_CO_REDUN_RF2 = 2,
	DAOS_PROP_CO_REDUN_RF3 = 3,
	DAOS_PROP_CO_REDUN_RF4 = 4,
	DAOS_RF_MAX            = 4
};

/** Levels of fault domains, for redundancy. */
enum {
	DAOS_PROP_CO_REDUN_MIN   = 1,
	DAOS_PROP_CO_REDUN_RANK  = 1,
	DAOS_PROP_CO_REDUN_NODE  = 2,
	DAOS_PROP_CO_REDUN_FAULT = 3,
	DAOS_PROP_CO_REDUN_MAX   = 254
};
#define DAOS_PROP_CO_REDUN_DEFAULT DAOS_PROP_CO_REDUN_NODE

/** Health of a container. */
enum {
	DAOS_PROP_CO_HEALTHY = 0,
	/** More failures than its redundancy tolerates. */
	DAOS_PROP_CO_UNCLEAN = 1
};

/** Flag of DAOS_PROP_CO_STATUS: consider it healthy again. */
#define DAOS_PROP_CO_CLEAR (0x1)

static inline bool
daos_rf_is_valid(unsigned long long rf)
{
	return rf <= DAOS_PROP_PO_REDUN_FAC_MAX;
}

static inline bool
daos_svc_rf_is_valid(uint64_t svc_rf)
{
	return svc_rf <= DAOS_PROP_PO_SVC_REDUN_FAC_MAX;
}

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_PROP_VALUES_H */
