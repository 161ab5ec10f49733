/* Rank, number of ranks and rendezvous key from the environment of whoever launched this process.
 */
#ifndef DF_BOOTSTRAP_LAUNCHER_H
#define DF_BOOTSTRAP_LAUNCHER_H

#include "base/result.h"

typedef struct df_launch {
  int rank, n_ranks;
  char key[256]; /* the same on all ranks of the job, and on no other job that runs at this time */
} df_launch;

/*
 * Reads the variables of the first of these launchers whose rank or size is set:
 *   torchrun       RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 *   Open MPI       OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
 *   MPICH (hydra)  PMI_RANK, PMI_SIZE
 *   Slurm          SLURM_PROCID, SLURM_NTASKS (in a step SLURM_STEP_NUM_TASKS), SLURM_JOB_ID
 * The key is made of the launcher's name for the job; launcher.c says which and why. Reads the
 * environment, for MPICH also /proc; any thread as long as none changes the environment.
 * *launch is written on success only. Errors: dfcclInvalidUsage, naming the variable and its value:
 * no launcher's variables are set, one is missing or makes no sense, or the job spans several
 * hosts.
 */
dfcclResult_t df_launcher_read(df_launch *launch);

#endif
