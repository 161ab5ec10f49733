/* Checks of a registration's arguments, before anything is allocated. */
#ifndef DF_HOST_REGISTRATION_CHECK_ARGUMENTS_H
#define DF_HOST_REGISTRATION_CHECK_ARGUMENTS_H

#include "host/state/context.h"
#include "host/state/registry.h"
#include "tuning/configuration.h"

/* Elements of the registration; of uneven pieces, of this rank's longer side. */
uint64_t df_registered_count(const df_registration *r);
uint32_t df_group_size(dfcclContext_t context, const dfcclCollOptions_t *options);

/* Blocks of a collective of n ranks on so many hosts, at most. */
uint32_t df_most_blocks(dfcclContext_t context, uint32_t n, uint32_t hosts);
df_configuration_question df_configuration_question_of(dfcclContext_t context,
                                                       const df_registration *r);

/* dfcclInvalidArgument with a sentence, or success with the manner. */
dfcclResult_t df_registration_check(dfcclContext_t context, const df_registration *registration,
                                    df_configuration_question *question,
                                    df_configuration *configuration);

#endif
