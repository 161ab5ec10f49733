/* Checks of a registration's arguments, before anything is allocated. */
#ifndef DF_HOST_REGISTRATION_CHECK_ARGUMENTS_H
#define DF_HOST_REGISTRATION_CHECK_ARGUMENTS_H

#include "host/state/context.h"
#include "host/state/registry.h"
#include "tuning/configuration.h"

/* Number of elements of the registration; for vector collectives, of this rank's longer side. */
uint64_t df_registered_count(const df_registration *r);
uint32_t df_group_size(dfcclContext_t context, const dfcclCollOptions_t *options);

/* Maximum number of blocks of a collective of n ranks on this number of hosts. */
uint32_t df_most_blocks(dfcclContext_t context, uint32_t n, uint32_t hosts);
df_configuration_question df_configuration_question_of(dfcclContext_t context,
                                                       const df_registration *r);

/* Returns dfcclSuccess with the configuration, or dfcclInvalidArgument with a sentence. */
dfcclResult_t df_registration_check(dfcclContext_t context, const df_registration *registration,
                                    df_configuration_question *question,
                                    df_configuration *configuration);

#endif
