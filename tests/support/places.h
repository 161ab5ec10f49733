/* Hosts for a job's ranks: network namespaces, each given by a process there. */
#ifndef DF_TESTS_SUPPORT_PLACES_H
#define DF_TESTS_SUPPORT_PLACES_H

#include <stdbool.h>

/* Processes as "PID,PID,...", 2 to 16; false: the text is malformed. Afterwards each rank's process
 * enters a host before anything else. */
bool places_read(const char *processes);
int places_count(void); /* 0: all ranks are on this host */
/* Sets the host of each rank in the next job. apart: neighbours among the ranks are on different
 * hosts. */
void places_arrange(bool apart);
int places_host_of(int rank, int ranks); /* from 0 */
int places_keeper(int host);             /* the process that gives the host */

#endif
