/* The engines mpi and gloo: the module of the other library, and how its ranks are started. */
#ifndef DF_BENCH_REPLAY_REPLAY_PEER_H
#define DF_BENCH_REPLAY_REPLAY_PEER_H

#include "peers/peer.h"
#include "replay_rank.h"

/* The peer's operation of a df_operation; false: no peer has it. */
bool df_replay_peer_operation(int operation, replay_peer_operation *found);

/* Loads the engine's module into options->peer, and sets peer_file. False: one sentence, which says
 * how to get it, is on standard error. */
bool df_replay_peer_load(replay_options *options);

/* Replaces this process by the library's launcher, which starts this program again as each rank.
 * argv is that of df_bench_replay. Returns only if that fails, after a sentence. */
void df_replay_peer_exec(const replay_job *job, int argc, char **argv);

/* rank_main of df_tool_launch for a library without a launcher; the argument is the job. */
void df_replay_peer_rank_main(df_tool_rank *self);

/* An empty directory in which the ranks of a library without a launcher find each other. False: one
 * sentence is on standard error. */
bool df_replay_peer_directory_make(replay_job *job);
void df_replay_peer_directory_remove(const replay_job *job);

/* The rank that this process is, of a job that another program has started. False: the environment
 * or --rendezvous cannot be used; one sentence is on standard error. */
bool df_replay_peer_world_of_env(const replay_job *job, replay_peer_world *world);

/* Plays that rank. Rank 0 then has all reports. Returns the rank, or -1 after a failure, about
 * which a sentence is on standard error. */
int df_replay_peer_play_env(replay_job *job, replay_peer_world *world, char *reports,
                            size_t report_bytes);

#endif
