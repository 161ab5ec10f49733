/* Steps of a registration that successor.c needs too. */
#ifndef DF_HOST_REGISTRATION_REGISTER_PARTS_H
#define DF_HOST_REGISTRATION_REGISTER_PARTS_H

#include "base/mutex.h"
#include "host/registration/check_arguments.h"

/* Makes the record. registration->options is complete, or NULL. */
dfcclResult_t df_make_coll(dfcclContext_t context, const df_registration *registration,
                           df_coll **out);
/* Makes the plan and the descriptor, and enters the collective. */
dfcclResult_t df_install_coll(dfcclContext_t context, df_coll *coll,
                              const df_registration *registration,
                              const df_configuration_question *question) DF_RANK_LOCKED;

#endif
