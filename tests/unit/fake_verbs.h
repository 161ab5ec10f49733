/*
 * The calls of libibverbs that the library uses, in the memory of one process: two devices that
 * write each other's registered memory. It is linked in place of the real library, so that the code
 * can be tested on machines without RDMA. It fails a test that uses verbs wrongly: a write without
 * a posted receive, a queue that overflows, memory that is not registered.
 */
#ifndef DF_TESTS_UNIT_FAKE_VERBS_H
#define DF_TESTS_UNIT_FAKE_VERBS_H

#include <infiniband/verbs.h>

enum { FAKE_DEVICES = 2 };

typedef struct fake_verbs {
  int n_devices;           /* 0: the machine has none */
  int has_no_inline;       /* queue pairs with this limit cannot be created */
  int refuses_open;        /* errno of ibv_open_device */
  int refuses_memory;      /* errno of ibv_reg_mr */
  int registrations_left;  /* calls that succeed before refuses_memory applies */
  int fails_next;          /* enum ibv_wc_status of the next write */
  int is_cut;              /* posted requests neither arrive nor complete, until fake_give_up */
  uint32_t writes, events; /* count so far */
  uint32_t objects;        /* count of existing objects */
} fake_verbs;
extern fake_verbs fake;

void fake_reset(void);
/* The retries have ended: requests that a cut link has lost complete with an error, and all others
 * are flushed. */
void fake_give_up(void);
/* Delivers a write as if a remote end had made it, to the oldest queue pair of device `which`. */
void fake_complete(int which, uint32_t immediate);
/* The device reports its failure, and flushes its requests. */
void fake_lose_device(int which);

#endif
