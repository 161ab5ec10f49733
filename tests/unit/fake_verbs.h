/*
 * The calls of libibverbs that the library uses, in the memory of one process: two devices that
 * write each other's registered memory. It is linked in the place of the real one, so that what a
 * machine without RDMA cannot do is tested as well. It fails a test that uses verbs wrongly: a write
 * for which there is no receive, a queue that runs over, memory that is not registered.
 */
#ifndef DF_TESTS_UNIT_FAKE_VERBS_H
#define DF_TESTS_UNIT_FAKE_VERBS_H

#include <infiniband/verbs.h>

enum { FAKE_DEVICES = 2 };

typedef struct fake_verbs {
  int n_devices;           /* 0: none has been plugged in */
  int has_no_inline;       /* queue pairs with it cannot be made */
  int refuses_open;        /* errno of ibv_open_device */
  int refuses_memory;      /* errno of ibv_reg_mr */
  int registrations_left;  /* before refuses_memory counts */
  int fails_next;          /* enum ibv_wc_status of the next write */
  int is_cut;              /* what is posted neither arrives nor completes, until fake_give_up */
  uint32_t writes, events; /* so far */
  uint32_t objects;        /* that live */
} fake_verbs;
extern fake_verbs fake;

void fake_reset(void);
/* Retries have ended: what a cut link swallowed completes, and all else is flushed. */
void fake_give_up(void);
/* As if a remote end had written: to the queue pair that was made earliest, of device `which`. */
void fake_complete(int which, uint32_t immediate);
/* The device says so, and flushes. */
void fake_lose_device(int which);

#endif
