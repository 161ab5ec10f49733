/*
 * Promise: a million runs in a row complete, and neither memory nor descriptors nor threads grow
 * with the number of runs.
 */
#include "endurance.h"

DF_TEST(endurance_long, a_million_callbacks, 1200) { endure(chain, 1000000); }
DF_TEST(endurance_long, a_million_waits, 1200) { endure(wait_loop, 1000000); }
