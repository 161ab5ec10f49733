/* Rank, number of ranks and rendezvous key from the launcher's environment. */
#ifndef DF_BOOTSTRAP_LAUNCHER_H
#define DF_BOOTSTRAP_LAUNCHER_H

#include "base/result.h"
#include "bootstrap/bootstrap.h"

typedef struct df_launch {
  int rank, n_ranks;
  char key[256]; /* of this job alone, and the same on all its ranks */
  df_root_place root;
} df_launch;

/* The first launcher whose rank or size is set:
 *   torchrun       RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   Open MPI       OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
 *   MPICH (hydra)  PMI_RANK, PMI_SIZE
 *   Slurm          SLURM_PROCID, SLURM_NTASKS (in a step SLURM_STEP_NUM_TASKS), SLURM_JOB_ID
 * root: DFCCL_ROOT, HOST:PORT, if not empty: it comes before what the launcher says, and then RANK
 * and WORLD_SIZE need no address. Any thread, while none changes the environment. Writes *launch on
 * success only. dfcclInvalidUsage: no launcher, or a variable is missing or wrong. */
dfcclResult_t df_launcher_read(df_launch *launch, const char *root);

#endif
