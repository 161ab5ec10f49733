/* One primitive of one rank, executed symbolically. */
#ifndef DF_PLANS_CHECK_CHECK_STEP_H
#define DF_PLANS_CHECK_CHECK_STEP_H

#include "plans/check/check_places.h"

/* The rank's next one. 1: executed. 0: has to wait, or is wrong (c->result). */
int df_check_step(df_checker *c, uint32_t rank);

#endif
