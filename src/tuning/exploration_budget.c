#include "tuning/exploration_budget.h"

#include <math.h>
#include <string.h>

#include "base/attributes.h"

void df_account_open(df_account *account, double part, double risk) {
  memset(account, 0, sizeof *account);
  account->part = part;
  account->risk = risk;
}

void df_account_earn(df_account *account, uint64_t run) {
  if (run <= account->run) return;
  const double earned = account->part * account->run_ns * (double)(run - account->run);
  account->earned_ns += earned;
  account->by_runs_ns += earned;
  account->run = run;
}

void df_account_charge(df_account *account, double ns) {
  account->excess_ns += ns - account->run_ns;
}

static double at_hand(const df_account *account) {
  const double known = (double)account->switches * DF_ACCOUNT_SWITCH_NS;
  return account->excess_ns > known ? account->excess_ns : known;
}

void df_account_close(df_account *account) {
  account->spent_ns += at_hand(account);
  account->excess_ns = 0;
  account->switches = 0;
}

void df_account_grant(df_account *account) {
  df_account_take_back(account);
  const double earned = account->by_runs_ns - account->earned_before_ns;
  const double now = account->part * account->run_ns * (double)(account->run - account->granted_to);
  account->granted_ns = 2 * DF_MIN(DF_MAX(now, earned), 4 * earned);
  account->earned_before_ns = account->by_runs_ns;
  account->granted_to = account->run;
  account->earned_ns += account->granted_ns;
  account->spent_before_ns = account->spent_ns + at_hand(account);
}

void df_account_take_back(df_account *account) {
  const double used = account->spent_ns + at_hand(account) - account->spent_before_ns;
  const double unused = account->granted_ns - (used > 0 ? used : 0);
  if (unused > 0) account->earned_ns -= unused;
  account->granted_ns = 0;
}

double df_account_left(const df_account *account) {
  if (account->part == 0) return HUGE_VAL;
  return account->earned_ns - account->spent_ns - at_hand(account);
}

double df_account_needed(const df_account *account, uint32_t switches) {
  return (double)switches * DF_ACCOUNT_SWITCH_NS + account->risk * account->run_ns;
}

uint64_t df_account_runs_until(const df_account *account, double needed_ns) {
  enum { MOST = 1000000 }; /* it looks again */
  const double missing = needed_ns - df_account_left(account);
  const double of_run = account->part * account->run_ns;
  if (missing <= 0) return 1;
  return of_run * MOST <= missing ? MOST : (uint64_t)(missing / of_run) + 1;
}
