/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_VERSION_H
#define ESKER_DAOS_VERSION_H

/**
 * @file
 * The version of the DAOS interface that these headers and the library provide.
 */

#include <stdint.h>

/** Version of the C interface. The library is libdaos.so.DAOS_API_VERSION_MAJOR. */
#define DAOS_API_VERSION_MAJOR 2
#define DAOS_API_VERSION_MINOR 8
#define DAOS_API_VERSION_FIX   0

/** The version of DAOS that defines this interface. */
#define DAOS_VERSION_MAJOR     2
#define DAOS_VERSION_MINOR     9
#define DAOS_VERSION_FIX       100

/** Number of the wire protocol; the spelling of the name is DAOS's. */
#define DAOS_VERSION_PROTOCAL  1

/** A version encoded in 32 bits. */
typedef union {
	uint32_t raw;
	__extension__ struct {
		uint8_t protocol;
		uint8_t patch;
		uint8_t minor;
		uint8_t major;
	};
} daos_version_t;

/** Write the version of these headers into ver. */
static inline void
daos_version_pack(daos_version_t *ver)
{
	ver->protocol = DAOS_VERSION_PROTOCAL;
	ver->patch    = DAOS_VERSION_FIX;
	ver->minor    = DAOS_VERSION_MINOR;
	ver->major    = DAOS_VERSION_MAJOR;
}

static inline uint8_t
daos_version_get_protocol(const daos_version_t *ver)
{
	return ver->protocol;
}

#endif /* ESKER_DAOS_VERSION_H */
