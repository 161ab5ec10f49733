/* Assertions stay on in every build: each costs a predictable branch. */
#ifndef DF_BASE_ASSERT_H
#define DF_BASE_ASSERT_H

#include "base/attributes.h"

#if DF_ON_DEVICE
#include <cassert>
#define DF_ASSERT(fact) assert(fact)
#else
#ifdef __cplusplus
extern "C"
#endif
    void
    df_assert_failed(const char *fact, const char *file, int line);
/* The process aborts, because memory cannot be trusted after a broken invariant. */
#define DF_ASSERT(fact) (DF_LIKELY(fact) ? (void)0 : df_assert_failed(#fact, __FILE__, __LINE__))
#endif

#endif
