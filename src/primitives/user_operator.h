/*
 * User-defined operators: functions, and scalars by which each input is multiplied. A descriptor
 * names an operator by its number. A collective keeps the operator that it uses, even if the
 * application destroys it.
 */
#ifndef DF_PRIMITIVES_USER_OPERATOR_H
#define DF_PRIMITIVES_USER_OPERATOR_H

#include "base/result.h"
#include "primitives/elements/types.h"

enum { DF_MAX_USER_OPERATORS = 1024, DF_OWN_BLOCK_BYTES = 4096 };

typedef struct df_user_operator {
  dfcclRedOpFunction_t function; /* NULL: the operator multiplies by a scalar and then adds */
  void *argument;
  int commutative;
  dfcclDataType_t type; /* type of the scalar */
  uint32_t users;       /* number of users: the application, and each collective */
  int destroyed;        /* 1: destroyed by the application */
  /* Copies of the scalar, as many as fit. */
  DF_ALIGNED(64) uint8_t scalars[DF_OWN_BLOCK_BYTES];
} df_user_operator;

/* An entry is written under a lock, before any collective that names the operator is registered. */
extern df_user_operator *df_user_operators[DF_MAX_USER_OPERATORS];

/* Takes over *made and enters it under a free number, with the application as its user. Returns 0
 * if all numbers are in use. */
int df_user_operator_enter(df_user_operator *made, uint32_t *number);
/* Counts a user and returns the operator. NULL: it does not exist, or the application has destroyed
 * it. */
df_user_operator *df_user_operator_use(uint32_t number);
/* The same on behalf of a user: the operator may be destroyed already. */
df_user_operator *df_user_operator_share(uint32_t number);
void df_user_operator_unuse(uint32_t number);
/* Ends the application's use. Returns 0 if there is no such operator. */
int df_user_operator_destroy(uint32_t number);

#endif
