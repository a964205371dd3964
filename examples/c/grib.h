/* SPDX-License-Identifier: Apache-2.0 */
/* Finds GRIB messages of editions 1 and 2 in a file. Decodes only their length. */
#ifndef ESKER_EXAMPLE_GRIB_H
#define ESKER_EXAMPLE_GRIB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Octets of the shortest message: the first section and the "7777" at the end. */
#define GRIB_SHORTEST 12

/* The number in count octets, the highest first. */
static inline uint64_t
grib_number(const unsigned char *octets, int count)
{
	uint64_t value = 0;

	while (count-- > 0)
		value = value << 8 | *octets++;
	return value;
}

/*
 * Length of the message that starts here; 0 if none does, or it does not end correctly.
 *
 * Octet 8 is the edition. Edition 1 has its length in octets 5 to 7, edition 2 in octets 9 to 16.
 * Messages of edition 1 over 8 MiB set the highest bit of the length, whose unit then is 120
 * octets. Their exact length is found by the "7777" at their end.
 */
static inline size_t
grib_length(const unsigned char *octets, size_t left)
{
	uint64_t length;

	if (left < GRIB_SHORTEST || memcmp(octets, "GRIB", 4) != 0)
		return 0;
	if (octets[7] == 1)
		length = grib_number(octets + 4, 3);
	else if (octets[7] == 2 && left >= 16)
		length = grib_number(octets + 8, 8);
	else
		return 0;
	if (octets[7] == 1 && length >= 0x800000) {
		uint64_t most = (length & 0x7fffff) * 120;

		for (length = most; length + 120 > most && length >= GRIB_SHORTEST; length--)
			if (length <= left && memcmp(octets + length - 4, "7777", 4) == 0)
				return (size_t)length;
		return 0;
	}
	if (length < GRIB_SHORTEST || length > left || memcmp(octets + length - 4, "7777", 4) != 0)
		return 0;
	return (size_t)length;
}

/* Finds the next message from *at on: returns its length and sets *at to its first octet; 0 if
 * there is none. */
static inline size_t
grib_next(const unsigned char *octets, size_t size, size_t *at)
{
	size_t length;

	for (; *at + GRIB_SHORTEST <= size; (*at)++) {
		length = grib_length(octets + *at, size - *at);
		if (length > 0)
			return length;
	}
	return 0;
}

#endif /* ESKER_EXAMPLE_GRIB_H */
