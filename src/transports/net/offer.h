/* The offer that the receiver of a link sends to its sender by control: the address to call, and
 * the rings. */
#ifndef DF_TRANSPORTS_NET_OFFER_H
#define DF_TRANSPORTS_NET_OFFER_H

#include "base/assert.h"
#include "base/limits.h"
#include "bootstrap/net/listeners.h"

enum { DF_NET_OFFER_MAGIC = 0x0fe7dfcc };

typedef struct df_net_offer {
  uint32_t magic;
  uint32_t link; /* the receiver's number of the link */
  uint32_t n_slots;
  uint16_t port;
  uint16_t release_mask; /* release mask of the rings: both ends must agree */
  uint8_t padding[16];
  unsigned char key[DF_KEY_BYTES];
} df_net_offer;
DF_STATIC_ASSERT(sizeof(df_net_offer) == DF_OFFER_BYTES, "an offer is as long as any");

#endif
