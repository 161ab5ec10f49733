/* Promise of src/transports/shm/sharing.c: addresses in another process's memory are valid from the
 * mapping until its owner requests the end of the mapping. Afterwards no message can lend from
 * there. No address of a peer that has lent nothing is valid, and a peer without a link costs no
 * table of mapped ranges. */
#include "base/mutex.h"
#include "host/state/registry.h"
#include "stage.h"

enum { USER_SEGMENT = 1, PAGES = 3, COLL = 7 };

DF_TEST(sharing, a_peers_memory_is_valid_until_it_is_unmapped, 30) {
  df_stage s;
  stage_open_with_bell(&s);
  const df_shm_peer *peer = &s.context->transports.shm->peers[1];
  stage_offer_segment(&s, USER_SEGMENT, PAGES * DF_PAGE, DF_SEGMENT_USER);
  CHECK(peer->segments != NULL && peer->segments->id == USER_SEGMENT, "it is not mapped");
  const uint64_t base = (uint64_t)(uintptr_t)peer->segments->base;
  CHECK(df_mapped_ranges_cover(peer->mapped_ranges, base, PAGES * DF_PAGE),
        "what is mapped may be lent");
  df_message message = {.kind = DF_MESSAGE_UNMAP, .id = USER_SEGMENT};
  stage_handle(&s, &message, -1);
  CHECK(peer->segments == NULL || peer->segments->id != USER_SEGMENT, "it is still mapped");
  CHECK(!df_mapped_ranges_cover(peer->mapped_ranges, base, 1), "what is unmapped would be read");
  stage_close(&s);
}

DF_TEST(sharing, a_peer_that_has_lent_nothing_has_no_valid_memory, 30) {
  static uint8_t received[STAGE_COUNT];
  df_stage s;
  stage_open(&s);
  const df_shm_peer *peers = s.context->transports.shm->peers;
  CHECK(peers[1].mapped_ranges == NULL && peers[2].mapped_ranges == NULL, "windows without a link");
  stage_begin_broadcast(&s, COLL, STAGE_COUNT, NULL, received);
  df_rank_lock(&s.context->lock);
  const df_link *link = &df_find(s.context, COLL)->exec.device.links[0];
  CHECK(link->peer == 1 && !link->sends, "not the link that receives");
  CHECK(link->mapped_ranges != NULL, "any address is followed");
  CHECK(!df_mapped_ranges_cover(link->mapped_ranges, (uint64_t)(uintptr_t)received, 1),
        "nothing was lent");
  CHECK(peers[2].mapped_ranges == NULL, "windows of a peer without a link");
  df_rank_unlock(&s.context->lock);
  stage_die(&s, 1); /* ends the run */
  stage_close(&s);
}
