/* The rows of the paper's Table 1: Pan et al., "Comprehensive Deadlock Prevention for GPU
 * Collective Communication", EuroSys 2025. */
#ifndef DF_SIM_TABLE1_ROWS_H
#define DF_SIM_TABLE1_ROWS_H

#include "config.h"

enum { DF_TABLE1_ROWS = 18 };

/* The reading that gives the paper's ratio, as many rounds have shown. */
typedef enum { DF_FITS_NONE, DF_FITS_EXACT, DF_FITS_REFERENCE } df_table1_fit;

typedef struct {
  const char *id;
  df_model model;
  uint32_t tp, dp, pp;     /* 3d grouping; tp == 0: free */
  uint32_t groups, gpus;   /* free */
  uint32_t tp_collectives; /* 3d: of a TP group; free: the mean of a group */
  uint32_t dp_collectives; /* 3d: of a DP group */
  double disorder, sync;   /* sync: synchronisation model only */
  double paper;            /* the paper's ratio; negative: not known */
  uint64_t paper_rounds;   /* how many rounds that ratio is taken to come from */
  df_table1_fit fits;
  const char *note; /* or NULL */
} df_table1_row;

extern const df_table1_row df_table1_rows[DF_TABLE1_ROWS];

/* A configuration for a row; freed with df_config_destroy. Free groupings but the one with a single
 * group are stand-ins: the paper's are not published. */
dfcclResult_t df_table1_config(const df_table1_row *row, df_order order, uint64_t seed,
                               df_config *config);

/* The row's grouping for people, such as "3d (4,4,4)"; returns buffer. */
const char *df_table1_grouping(const df_table1_row *row, char buffer[32]);

#endif
