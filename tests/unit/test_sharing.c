/*
 * Promise of src/transports/shm/sharing.c: memory of another process is followed from when it is mapped
 * until its owner asks for the mapping's end. Then no message can lend from there.
 */
#include "stage.h"

enum { USER_SEGMENT = 1, PAGES = 3 };

DF_TEST(sharing, a_peers_memory_is_followed_until_it_is_unmapped, 30) {
  df_stage s;
  stage_open_with_bell(&s);
  const df_shm_peer *peer = &s.context->transports.shm->peers[1];
  stage_offer_segment(&s, USER_SEGMENT, PAGES * DF_PAGE, DF_SEGMENT_USER);
  CHECK(peer->segments != NULL && peer->segments->id == USER_SEGMENT, "it is not mapped");
  const uint64_t base = (uint64_t)(uintptr_t)peer->segments->base;
  CHECK(df_windows_cover(peer->windows, base, PAGES * DF_PAGE), "what is mapped may be lent");
  df_message message = {.kind = DF_MESSAGE_UNMAP, .id = USER_SEGMENT};
  stage_handle(&s, &message, -1);
  CHECK(peer->segments == NULL || peer->segments->id != USER_SEGMENT, "it is still mapped");
  CHECK(!df_windows_cover(peer->windows, base, 1), "what is unmapped would be read");
  stage_close(&s);
}
