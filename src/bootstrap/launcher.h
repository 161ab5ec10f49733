/* Rank, number of ranks and rendezvous key from the launcher's environment. */
#ifndef DF_BOOTSTRAP_LAUNCHER_H
#define DF_BOOTSTRAP_LAUNCHER_H

#include "base/result.h"
#include "bootstrap/bootstrap.h"

typedef struct df_launch {
  int rank, n_ranks;
  char key[256]; /* unique to this job, and the same on all its ranks */
  df_root_place root;
} df_launch;

/*
 * Reads the variables of the first launcher whose rank or size is set:
 *   torchrun       RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   Open MPI       OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
 *   MPICH (hydra)  PMI_RANK, PMI_SIZE
 *   Slurm          SLURM_PROCID, SLURM_NTASKS (in a step SLURM_STEP_NUM_TASKS), SLURM_JOB_ID
 * root is the value of DFCCL_ROOT, HOST:PORT. If it is not empty, it has precedence over the
 * launcher's address, and RANK and WORLD_SIZE need no address. Any thread may call this function
 * while no thread changes the environment. *launch is written on success only.
 * dfcclInvalidUsage: there is no launcher, or a variable is missing or wrong.
 */
dfcclResult_t df_launcher_read(df_launch *launch, const char *root);

#endif
