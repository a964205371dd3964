/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_GURT_LIST_H
#define ESKER_GURT_LIST_H

/**
 * @file
 * Circular doubly linked lists whose links are inside the listed structures.
 *
 * A list is a d_list_t that points to itself if empty. No function locks or allocates.
 */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct d_list_head {
	struct d_list_head *next;
	struct d_list_head *prev;
};

typedef struct d_list_head d_list_t;

/** Initializer of an empty list called name. */
#define D_LIST_HEAD_INIT(name) {&(name), &(name)}

/** Define an empty list. */
#define D_LIST_HEAD(name)      d_list_t name = D_LIST_HEAD_INIT(name)

/** Initialize *ptr as an empty list, or as an entry that is in no list. */
#define D_INIT_LIST_HEAD(ptr)                                                                      \
	do {                                                                                       \
		(ptr)->prev = (ptr);                                                               \
		(ptr)->next = (ptr);                                                               \
	} while (0)

/** Insert entry right after place. */
static inline void
d_list_add(d_list_t *entry, d_list_t *place)
{
	entry->prev       = place;
	entry->next       = place->next;
	place->next->prev = entry;
	place->next       = entry;
}

/** Insert entry right before place; if place is a list head, at the end of the list. */
static inline void
d_list_add_tail(d_list_t *entry, d_list_t *place)
{
	d_list_add(entry, place->prev);
}

/** Remove entry from its list. Its own links are left dangling. */
static inline void
d_list_del(d_list_t *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

/** Remove entry from its list and reinitialize it. */
static inline void
d_list_del_init(d_list_t *entry)
{
	d_list_del(entry);
	D_INIT_LIST_HEAD(entry);
}

/** Move entry from its list to right after place. */
static inline void
d_list_move(d_list_t *entry, d_list_t *place)
{
	d_list_del(entry);
	d_list_add(entry, place);
}

/** Move entry from its list to right before place. */
static inline void
d_list_move_tail(d_list_t *entry, d_list_t *place)
{
	d_list_del(entry);
	d_list_add_tail(entry, place);
}

/** Non-zero if the list is empty. */
static inline int
d_list_empty(d_list_t *head)
{
	return head->next == head;
}

/** Insert all entries of list after place and leave list empty. */
static inline void
d_list_splice_init(d_list_t *list, d_list_t *place)
{
	if (d_list_empty(list))
		return;
	list->prev->next  = place->next;
	place->next->prev = list->prev;
	place->next       = list->next;
	list->next->prev  = place;
	D_INIT_LIST_HEAD(list);
}

/** Like d_list_splice_init, but list itself is left dangling. */
static inline void
d_list_splice(d_list_t *list, d_list_t *place)
{
	d_list_t spent;

	if (d_list_empty(list))
		return;
	spent             = *list;
	spent.next->prev  = &spent;
	spent.prev->next  = &spent;
	d_list_splice_init(&spent, place);
}

/** The structure of the given type whose given member is *ptr. */
#define d_list_entry(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/** Visit every link; the body must not remove the current one. */
#define d_list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)

/** Visit every link; the body may remove the current one. n is scratch. */
#define d_list_for_each_safe(pos, n, head)                                                         \
	for (pos = (head)->next, n = pos->next; pos != (head); pos = n, n = pos->next)

/** Visit every structure; the body must not remove the current one. */
#define d_list_for_each_entry(pos, head, member)                                                   \
	for (pos = d_list_entry((head)->next, __typeof__(*pos), member); &pos->member != (head);   \
	     pos = d_list_entry(pos->member.next, __typeof__(*pos), member))

/** Visit every structure; the body may remove the current one. n is scratch. */
#define d_list_for_each_entry_safe(pos, n, head, member)                                           \
	for (pos = d_list_entry((head)->next, __typeof__(*pos), member),                           \
	    n    = d_list_entry(pos->member.next, __typeof__(*pos), member);                       \
	     &pos->member != (head);                                                               \
	     pos = n, n = d_list_entry(n->member.next, __typeof__(*n), member))

/** Visit every structure from the last to the first. */
#define d_list_for_each_entry_reverse(pos, head, member)                                           \
	for (pos = d_list_entry((head)->prev, __typeof__(*pos), member); &pos->member != (head);   \
	     pos = d_list_entry(pos->member.prev, __typeof__(*pos), member))

#ifdef __cplusplus
}
#endif

#endif /* ESKER_GURT_LIST_H */
