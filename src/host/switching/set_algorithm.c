/* A plan switch by a name, as users give it. */
#include "base/log.h"
#include "host/switching/plan_switch.h"
#include "tuning/choice.h"

dfcclResult_t df_set_algorithm(dfcclContext_t context, dfcclCollId_t id, const char *algorithm) {
  df_variant_spec spec = {.algorithm = DF_AS_REGISTERED};
  char sentence[DF_ALGORITHM_SENTENCE_BYTES];
  if (algorithm != NULL) {
    df_named named;
    if (!df_named_read(&named, algorithm, sentence, sizeof sentence))
      return df_fail(dfcclInvalidArgument, "algorithm: %s", sentence);
    if (named.algorithm < 0)
      return df_fail(dfcclInvalidArgument, "%s",
                     df_algorithm_explain(named.word, -1, NULL, sentence));
    spec = (df_variant_spec){.algorithm = (uint32_t)named.algorithm,
                             .slot_bytes = named.limits.slot_bytes,
                             .slots = named.limits.slots,
                             .blocks = named.limits.blocks,
                             .split = named.limits.split,
                             .copies = named.limits.copies};
  }
  return df_plan_switch_ask(context, id, &spec);
}
