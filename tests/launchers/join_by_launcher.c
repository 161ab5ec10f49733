/*
 * One rank of a job that some launcher has started: finds the others, talks to each, and prints
 * "rank R of N in job J". Exit status 1, with the sentence, when it does not find them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/launcher.h"

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, df_last_sentence());
  return 1;
}

/* Every rank sends its own to all others, and must get theirs. */
static int talk(const df_mesh *mesh) {
  for (int rank = 0; rank < mesh->n_ranks; rank++)
    if (rank != mesh->rank &&
        send(mesh->sockets[rank], &mesh->rank, sizeof(int), MSG_NOSIGNAL) != sizeof(int))
      return 1;
  for (int rank = 0; rank < mesh->n_ranks; rank++) {
    int said = -1;
    if (rank == mesh->rank) continue;
    while (recv(mesh->sockets[rank], &said, sizeof said, 0) < 0)
      if (errno != EAGAIN || usleep(100) != 0) return 1;
    if (said != rank) return 1;
  }
  return 0;
}

int main(void) {
  df_launch launch;
  df_peer_info info = {{0}};
  df_mesh mesh;
  alarm(60);
  if (df_launcher_read(&launch, "") != dfcclSuccess) return failed("launcher");
  if (df_bootstrap_join_key(NULL, NULL, launch.key, launch.n_ranks, launch.rank, &info, 20000,
                            &mesh) != dfcclSuccess)
    return failed(launch.key);
  int status = talk(&mesh);
  printf("rank %d of %d in job %02x%02x%02x%02x\n", mesh.rank, mesh.n_ranks, mesh.job[0],
         mesh.job[1], mesh.job[2], mesh.job[3]);
  df_mesh_close(&mesh);
  return status;
}
