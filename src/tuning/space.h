/* Search space of one collective: algorithms (subspaces of the search), and for each slot bytes,
 * slots, blocks, split, and whether buffers are lent (its axes). */
#ifndef DF_TUNING_SPACE_H
#define DF_TUNING_SPACE_H

#include "control/message.h"
#include "plans/msccl/directory.h"
#include "tuning/coordinate_descent.h"
#include "tuning/configuration.h"

typedef struct df_space_question {
  const df_configuration *registered;
  const df_policy *policy;
  df_operation operation;
  uint32_t n;
  uint64_t bytes; /* bytes of a rank's larger buffer */
  uint32_t max_blocks;
  const df_file_directory *files; /* whose algorithms may be tried; NULL: none */
  int varying;
} df_space_question;

typedef struct df_space {
  uint32_t algorithms[DF_DESCENT_SUBSPACES];
  const df_plan_file *files[DF_DESCENT_SUBSPACES]; /* files of DF_FROM_FILE; otherwise NULL */
  uint32_t max_blocks;
  df_choice of_registered;
  df_point registered;
} df_space;

/* Begins the search. The registered variant comes first, then the operation's other algorithms,
 * then files that are for so many ranks and bytes. */
void df_space_make(df_space *space, const df_space_question *question,
                   df_coordinate_descent *descent);
/* Values that the registration would not have chosen are written out. */
df_variant_spec df_space_variant(const df_space *space, const df_coordinate_descent *descent,
                                 const df_point *point);
/* As the tuning table says it. */
df_rule df_space_rule(const df_space *space, const df_coordinate_descent *descent,
                      const df_point *point);
/* The point of a rule from the tuning file. 0: no point is like it. */
int df_space_find(const df_space *space, const df_coordinate_descent *descent, const df_rule *rule,
                  df_point *point);

#endif
