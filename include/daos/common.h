/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_COMMON_H
#define ESKER_DAOS_COMMON_H

/**
 * @file
 * What programs that include DAOS's header of this name use of it: the helpers around basic types.
 */

#include <daos_types.h>
#include <gurt/common.h>

#endif /* ESKER_DAOS_COMMON_H */
