/*
 * Tuner plugins made for NCCL (ncclTunerPlugin_v2 to _v6), and files in the example plugin's form.
 * A plugin is loaded for a context and asked once for each registration.
 *
 * Threads: at most one call of any tuner plugin is in progress in a process, made by the thread
 * that registers, or opens or closes the context. Its lock is held meanwhile, and no other: so a
 * plugin that takes long delays registrations, and no run. A plugin must not call this library.
 */
#ifndef DF_TUNING_TUNER_PLUGIN_H
#define DF_TUNING_TUNER_PLUGIN_H

#include "base/result.h"
#include "tuning/advice.h"

typedef struct df_tuner_plugin df_tuner_plugin;

/* choice: as DFCCL_TUNER_PLUGIN says. *plugin is NULL for "none". dfcclInvalidUsage: no such
 * plugin, or a file that is wrong. job: a number that all ranks have. */
dfcclResult_t df_tuner_plugin_open(df_tuner_plugin **plugin, const char *choice, uint64_t job);
void df_tuner_plugin_ask(df_tuner_plugin *plugin, const df_advice_question *question,
                         df_advice *advice);
/* NULL is fine. Libraries stay loaded. */
void df_tuner_plugin_close(df_tuner_plugin *plugin);

#endif
