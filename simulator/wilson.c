#include "wilson.h"

#include <math.h>

df_interval df_wilson95_of_ratio(double ratio, double trials) {
  const double z = 1.959963984540054;
  double scale = 1.0 + z * z / trials;
  double centre = (ratio + z * z / (2.0 * trials)) / scale;
  double half = z / scale * sqrt(ratio * (1.0 - ratio) / trials + z * z / (4.0 * trials * trials));
  /* The bounds at no hit and at all hits are exactly 0 and 1; rounding may miss them. */
  return (df_interval){ratio <= 0.0 ? 0.0 : fmax(0.0, centre - half),
                       ratio >= 1.0 ? 1.0 : fmin(1.0, centre + half)};
}

df_interval df_wilson95(uint64_t hits, uint64_t trials) {
  return df_wilson95_of_ratio((double)hits / (double)trials, (double)trials);
}
