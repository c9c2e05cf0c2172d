/* SPDX-License-Identifier: MIT */
#include "fs/siphash.h"
#include "tests/unit/check.h"

/* The key and the messages of the published test vectors: 0, 1, 2 ... */
static void the_vectors_come_out(void)
{
	static const uint64_t seed[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
	static const struct {
		size_t n;
		uint64_t want;
	} vectors[] = {{0, 0xabac0158050fc4dcu}, {1, 0xc9f49bf37d57ca93u}, {8, 0x369095118d299a8eu},
		{15, 0xd320d86d2a519956u}, {33, 0x4d54b9e57a8ff9bfu}};
	uint8_t message[64];

	for (size_t k = 0; k < sizeof(message); k++)
		message[k] = (uint8_t)k;
	for (size_t k = 0; k < sizeof(vectors) / sizeof(*vectors); k++)
		CHECK(siphash_with(seed, message, vectors[k].n) == vectors[k].want);
}

static void each_process_has_its_own(void)
{
	uint64_t before = siphash("a key", 5);

	siphash_seed();
	CHECK(siphash("a key", 5) != before);
	CHECK(siphash("a key", 5) == siphash("a key", 5));
}

int main(void)
{
	TEST(the_vectors_come_out);
	TEST(each_process_has_its_own);
	return check_done();
}
