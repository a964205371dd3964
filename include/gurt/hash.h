/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_GURT_HASH_H
#define ESKER_GURT_HASH_H

/**
 * @file
 * A chained hash table whose links are inside the caller's records.
 *
 * The table never allocates or copies records. A d_hash_table_ops_t defines what a key is and how
 * records are compared, counted and freed. Finding a record takes a reference on it (through
 * hop_rec_addref); drop it with d_hash_rec_decref.
 */

#include <gurt/list.h>
#include <gurt/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct d_hash_table;

/** The caller's functions for a table. Only hop_key_cmp is required. */
typedef struct {
	/** Whether the record has this key. */
	bool (*hop_key_cmp)(struct d_hash_table *htable, d_list_t *link, const void *key,
			    unsigned int ksize);
	/** Assign a key to a record that has none; for d_hash_rec_insert_anonym. */
	void (*hop_key_init)(struct d_hash_table *htable, d_list_t *link, void *arg);
	/** Hash of a key. Without it d_hash_string_u32 is applied to the bytes of the key. */
	uint32_t (*hop_key_hash)(struct d_hash_table *htable, const void *key,
				 unsigned int ksize);
	/** Hash of a record, equal to that of its key. Without it one lock guards the table. */
	uint32_t (*hop_rec_hash)(struct d_hash_table *htable, d_list_t *link);
	/** Take a reference. */
	void (*hop_rec_addref)(struct d_hash_table *htable, d_list_t *link);
	/** Drop a reference; true if it was the last. */
	bool (*hop_rec_decref)(struct d_hash_table *htable, d_list_t *link);
	/** Drop count references; 1 if none is left, 0 otherwise, negative on error. */
	int (*hop_rec_ndecref)(struct d_hash_table *htable, d_list_t *link, int count);
	/** Free a record without references. */
	void (*hop_rec_free)(struct d_hash_table *htable, d_list_t *link);
} d_hash_table_ops_t;

/** Locking and storage of a table's records. Without a lock flag: one spin lock per bucket. */
enum d_hash_feats {
	/** The caller locks. */
	D_HASH_FT_NOLOCK          = 0x1,
	/** Mutexes instead of spin locks. */
	D_HASH_FT_MUTEX           = 0x2,
	/** Reader-writer locks instead of spin locks. */
	D_HASH_FT_RWLOCK          = 0x4,
	/** A record is removed from the table with its last reference. */
	D_HASH_FT_EPHEMERAL       = 0x8,
	/** A record that was found moves to the front of its bucket. */
	D_HASH_FT_LRU             = 0x10,
	/** hop_key_init is called without the lock held. */
	D_HASH_FT_NO_KEYINIT_LOCK = 0x20,
	/** One lock for the whole table. */
	D_HASH_FT_GLOCK           = 0x8000
};

/* With a strict -std=c99 or c11, two of these types are hidden unless a macro requests POSIX. */
union d_hash_lock {
	pthread_mutex_t    mutex;
#if defined(__cplusplus) || (defined(_POSIX_C_SOURCE) && _POSIX_C_SOURCE >= 200112L)
	pthread_spinlock_t spin;
	pthread_rwlock_t   rwlock;
#else
	uint64_t           space[7];
#endif
};

struct d_hash_bucket {
	d_list_t hb_head;
};

/** A table. Callers may read ht_priv; the rest belongs to the library. */
struct d_hash_table {
	union d_hash_lock     ht_lock;
	/** The table has 1 << ht_bits buckets. */
	uint32_t              ht_bits;
	/** d_hash_feats. */
	uint32_t              ht_feats;
	/** The caller's pointer. */
	void                 *ht_priv;
	d_hash_table_ops_t   *ht_ops;
	struct d_hash_bucket *ht_buckets;
	union d_hash_lock    *ht_locks;
};

/** Called once per record by d_hash_table_traverse; a non-zero return ends the walk. */
typedef int (*d_hash_traverse_cb_t)(d_list_t *link, void *arg);

/**
 * Create a table of 1 << bits buckets. hops must outlive it; priv is stored in ht_priv.
 * @return 0, or -DER_NOMEM.
 */
int
d_hash_table_create(uint32_t feats, uint32_t bits, void *priv, d_hash_table_ops_t *hops,
		    struct d_hash_table **htable);

/** Like d_hash_table_create, in memory of the caller. */
int
d_hash_table_create_inplace(uint32_t feats, uint32_t bits, void *priv, d_hash_table_ops_t *hops,
			    struct d_hash_table *htable);

/** Visit every record. @return 0, or the value with which the callback stopped. */
int
d_hash_table_traverse(struct d_hash_table *htable, d_hash_traverse_cb_t cb, void *arg);

/**
 * Free a table made by d_hash_table_create.
 * @param force remove remaining records; without it, a table in use returns -DER_BUSY.
 */
int
d_hash_table_destroy(struct d_hash_table *htable, bool force);

/** Like d_hash_table_destroy, for a table created in place. */
int
d_hash_table_destroy_inplace(struct d_hash_table *htable, bool force);

/** The record of this key with a reference taken, or NULL. */
d_list_t *
d_hash_rec_find(struct d_hash_table *htable, const void *key, unsigned int ksize);

/** Find the record of this key, or else insert link. @return the record found, or link. */
d_list_t *
d_hash_rec_find_insert(struct d_hash_table *htable, const void *key, unsigned int ksize,
		       d_list_t *link);

/**
 * Insert a record.
 * @param exclusive refuse a key that is already in the table.
 * @return 0 or -DER_EXIST. The key must not be NULL and ksize not 0.
 */
int
d_hash_rec_insert(struct d_hash_table *htable, const void *key, unsigned int ksize,
		  d_list_t *link, bool exclusive);

/** Insert a record whose key hop_key_init creates from arg. @return 0, or -DER_INVAL without it. */
int
d_hash_rec_insert_anonym(struct d_hash_table *htable, d_list_t *link, void *arg);

/** Remove the record of this key. @return whether there was one. */
bool
d_hash_rec_delete(struct d_hash_table *htable, const void *key, unsigned int ksize);

/** Remove this record. @return whether it was in the table. */
bool
d_hash_rec_delete_at(struct d_hash_table *htable, d_list_t *link);

/**
 * Move the record of this key to the end of its bucket, in tables with D_HASH_FT_LRU.
 * @return whether it was moved.
 */
bool
d_hash_rec_evict(struct d_hash_table *htable, const void *key, unsigned int ksize);

/** Like d_hash_rec_evict, for a given record. */
bool
d_hash_rec_evict_at(struct d_hash_table *htable, d_list_t *link);

/** Take a reference on a record. */
void
d_hash_rec_addref(struct d_hash_table *htable, d_list_t *link);

/** Drop a reference; the last one frees the record through hop_rec_free. */
void
d_hash_rec_decref(struct d_hash_table *htable, d_list_t *link);

/** Drop count references. @return 0, or -DER_INVAL if there were fewer. */
int
d_hash_rec_ndecref(struct d_hash_table *htable, int count, d_list_t *link);

/** Whether the record is in no table. */
bool
d_hash_rec_unlinked(d_list_t *link);

/** Any record of the table without taking a reference, or NULL if it is empty. */
d_list_t *
d_hash_rec_first(struct d_hash_table *htable);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_GURT_HASH_H */
