/*
 * Promises of src/transports/net/connect/connection_state.h:
 *   - Each state has a name of its own.
 *   - A connection goes through its states in order, may end in each of them, and skips the
 *     network's states if there is no network in addition to TCP. No other transition is legal.
 */
#include <string.h>

#include "transports/net/connect/connection_state.h"
#include "support/harness.h"

DF_TEST(connection_state, names_differ, 10) {
  for (int a = 0; a < DF_CONNECTION_STATES; a++)
    for (int b = 0; b < a; b++)
      CHECK(strcmp(df_connection_state_name(a), df_connection_state_name(b)) != 0, "%d, %d", a, b);
}

DF_TEST(connection_state, only_legal_transitions, 10) {
  static const char *const legal[DF_CONNECTION_STATES] = {/* to each state, in order */
                                                          "111010", "101010", "100100",
                                                          "100010", "100001", "100000"};
  for (int from = 0; from < DF_CONNECTION_STATES; from++)
    for (int to = 0; to < DF_CONNECTION_STATES; to++)
      CHECK(df_connection_may_go(from, to) == legal[from][to] - '0', "%s to %s",
            df_connection_state_name(from), df_connection_state_name(to));
}
