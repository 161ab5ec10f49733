/* Symbolic execution of one primitive of one rank. */
#ifndef DF_PLANS_CHECK_CHECK_STEP_H
#define DF_PLANS_CHECK_CHECK_STEP_H

#include "plans/check/check_places.h"

/* Executes the rank's next primitive. 1: executed. 0: it has to wait, or it is wrong (c->result).
 * */
int df_check_step(df_checker *c, uint32_t rank);

#endif
