/* Checks of a registration's arguments, before anything is made. */
#ifndef DF_HOST_REGISTRY_CHECK_H
#define DF_HOST_REGISTRY_CHECK_H

#include "host/context.h"
#include "host/registry.h"
#include "tuning/choice.h"

uint32_t df_group_size(dfcclContext_t context, const dfcclCollOptions_t *options);

/* Do two or more of n ranks share each core? The same answer on every member: all have the cards of
 * all ranks. */
uint32_t df_is_crowded(const dfcclContext_t context, uint32_t n);
/* Members of a group of n for each core that the ranks may use. */
uint32_t df_ranks_on_a_core(const dfcclContext_t context, uint32_t n);

/* dfcclInvalidArgument with a sentence, or success with what will carry it out. */
dfcclResult_t df_registration_check(dfcclContext_t context, const df_registration *registration,
                                    df_choice *choice);

#endif
