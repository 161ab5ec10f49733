/* The ranks of this process are on a list, which each schedule must find as it was. */
#include "control/process_inbox.c"

void *sim_worlds_get(void);
void *sim_worlds_get(void) { return all_inboxes; }
void sim_worlds_set(void *list);
void sim_worlds_set(void *list) { all_inboxes = list; }
