/*
 * Operators that applications make: functions, and scalars that each input is multiplied by. A
 * descriptor names one by its number. Collectives keep what they use; all else of an operator may
 * go before them.
 */
#ifndef DF_PRIMITIVES_USER_OPERATOR_H
#define DF_PRIMITIVES_USER_OPERATOR_H

#include "base/result.h"
#include "primitives/elements/types.h"

enum { DF_MAX_USER_OPERATORS = 1024, DF_OWN_BLOCK_BYTES = 4096 };

typedef struct df_user_operator {
  dfcclRedOpFunction_t function; /* NULL: multiplies by a scalar first, then adds */
  void *argument;
  int commutative;
  dfcclDataType_t type; /* of the scalar */
  uint32_t users;       /* the application, and each collective */
  int destroyed;        /* by the application */
  /* The scalar, over and over. */
  DF_ALIGNED(64) uint8_t scalars[DF_OWN_BLOCK_BYTES];
} df_user_operator;

/* Written under a lock, before a collective that names the operator is. */
extern df_user_operator *df_user_operators[DF_MAX_USER_OPERATORS];

/* Takes *operator, which is the application's from then on. 0: all numbers are taken. */
int df_user_operator_enter(df_user_operator *made, uint32_t *number);
/* NULL: there is none, or the application has destroyed it. Counts a user. */
df_user_operator *df_user_operator_use(uint32_t number);
void df_user_operator_unuse(uint32_t number);
/* The application's. 0: there is none. */
int df_user_operator_destroy(uint32_t number);

#endif
