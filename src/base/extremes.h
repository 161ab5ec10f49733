/* The lesser and the greater of two numbers. Those of the mathematics library would be the only
 * functions that the library needs of it. */
#ifndef DF_BASE_EXTREMES_H
#define DF_BASE_EXTREMES_H

static inline double df_lesser(double a, double b) { return a < b ? a : b; }
static inline double df_greater(double a, double b) { return a > b ? a : b; }

#endif
