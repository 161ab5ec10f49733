#include "primitives/user_operator.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/mutex.h"

df_user_operator *df_user_operators[DF_MAX_USER_OPERATORS];

static df_mutex lock = DF_MUTEX_INITIALIZER;

int df_user_operator_enter(df_user_operator *made, uint32_t *number) {
  int found = 0;
  df_lock(&lock);
  for (uint32_t i = 0; i < DF_MAX_USER_OPERATORS && !found; i++) {
    if (df_user_operators[i] != NULL) continue;
    made->users = 1;
    df_user_operators[i] = made;
    *number = i;
    found = 1;
  }
  df_unlock(&lock);
  return found;
}

static df_user_operator *find(uint32_t number) {
  df_user_operator *made = number < DF_MAX_USER_OPERATORS ? df_user_operators[number] : NULL;
  return made && !made->destroyed ? made : NULL;
}

static void drop_user(uint32_t number) DF_REQUIRES(lock) {
  if (--df_user_operators[number]->users > 0) return;
  free(df_user_operators[number]);
  df_user_operators[number] = NULL;
}

df_user_operator *df_user_operator_use(uint32_t number) {
  df_lock(&lock);
  df_user_operator *made = find(number);
  if (made) made->users++;
  df_unlock(&lock);
  return made;
}

df_user_operator *df_user_operator_share(uint32_t number) {
  df_lock(&lock);
  df_user_operator *made = df_user_operators[number];
  made->users++;
  df_unlock(&lock);
  return made;
}

void df_user_operator_unuse(uint32_t number) {
  df_lock(&lock);
  drop_user(number);
  df_unlock(&lock);
}

int df_user_operator_destroy(uint32_t number) {
  df_lock(&lock);
  df_user_operator *made = find(number);
  if (made) {
    made->destroyed = 1;
    drop_user(number);
  }
  df_unlock(&lock);
  return made != NULL;
}
