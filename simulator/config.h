/* Configuration: what to simulate. The authors' keys and this program's own; see docs/SIMULATOR.md.
 */
#ifndef DF_SIM_CONFIG_H
#define DF_SIM_CONFIG_H

#include <stdint.h>

#include "layout.h"

typedef enum { DF_MODEL_SINGLE, DF_MODEL_SYNC } df_model;
typedef enum { DF_GROUPING_3D, DF_GROUPING_FREE } df_grouping;
typedef enum { DF_CHECK_EXACT, DF_CHECK_REFERENCE } df_check;

extern const char *const df_model_names[2];
extern const char *const df_grouping_names[2];
extern const char *const df_order_names[2];
extern const char *const df_check_names[2];

typedef struct {
  df_model model;
  df_grouping grouping;
  df_order order;
  df_check check;
  double disorder_probability, sync_probability;
  uint64_t rounds, seed;
  int64_t resource_limit; /* the reference check's; none if not positive */

  uint32_t tp_size, dp_size, pp_size, tp_collectives, dp_collectives; /* 3d */

  /* Both groupings: groups, as df_layout_create takes them. */
  uint32_t gpu_count, group_count;
  uint32_t *member_first, *members, *coll_counts;
} df_config;

/* Reads a configuration; on success it is freed with df_config_destroy. */
dfcclResult_t df_config_load(df_config *config, const char *file);
dfcclResult_t df_config_parse(df_config *config, const char *file, const char *text, size_t bytes);

/* Fills the groups of a 3d grouping from its sizes: in each of pp stages, dp TP groups of
 * consecutive GPUs, then tp DP groups across them. */
dfcclResult_t df_config_group_3d(df_config *config, const char *file);

dfcclResult_t df_config_layout(const df_config *config, df_layout *layout);
void df_config_destroy(df_config *config);

enum { DF_GROUP_NAME_BYTES = 48 };

/* A group's name for people, such as "stage 2 TP group 1" or "group 5". */
const char *df_config_group_name(const df_config *config, uint32_t group,
                                 char buffer[DF_GROUP_NAME_BYTES]);

#endif
