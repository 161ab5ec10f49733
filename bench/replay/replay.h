/* dfccl-bench replay: the calls and the computing of a recorded training job. */
#ifndef DF_BENCH_REPLAY_REPLAY_H
#define DF_BENCH_REPLAY_REPLAY_H

/* argv[0] is the word "replay". Returns the program's exit status. */
int df_bench_replay(int argc, char **argv);

#endif
