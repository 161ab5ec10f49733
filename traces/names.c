#include "names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(const df_names *names, uint32_t scope, const char *text, size_t length) {
  uint64_t state = names->secret ^ scope;
  for (; length >= 8; text += 8, length -= 8) {
    uint64_t word;
    memcpy(&word, text, 8);
    state = mix(state ^ word, names->secret | 1);
  }
  uint64_t word = length;
  memcpy(&word, text, length); /* the rest, and above it the length's zero bytes */
  return mix(state ^ word, (names->secret >> 7) | UINT64_C(0x8000000000000001)) ^ state;
}

dfcclResult_t df_names_create(df_names *names) {
  *names = (df_names){.slots = 1024};
  names->slot = calloc(names->slots, sizeof *names->slot);
  if (getrandom(&names->secret, sizeof names->secret, GRND_NONBLOCK) != sizeof names->secret)
    names->secret = UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)(uintptr_t)names->slot;
  return names->slot ? dfcclSuccess : df_fail(dfcclOutOfMemory, "no memory for names");
}

void df_names_destroy(df_names *names) {
  free(names->name);
  free(names->bytes);
  free(names->slot);
  memset(names, 0, sizeof *names);
}

/* The slot that holds the name, or the empty slot for it. */
static uint32_t *locate(const df_names *names, uint32_t scope, const char *text, size_t length) {
  uint64_t place = hash(names, scope, text, length) & (names->slots - 1);
  while (names->slot[place] != 0) {
    const df_name *name = &names->name[names->slot[place] - 1];
    if (name->scope == scope && strcmp(names->bytes + name->text, text) == 0) break;
    place = (place + 1) & (names->slots - 1);
  }
  return &names->slot[place];
}

static bool grow_slots(df_names *names) {
  uint32_t *old = names->slot;
  uint32_t *grown = calloc(2 * names->slots, sizeof *grown);
  if (!grown) return false;
  names->slot = grown;
  names->slots *= 2;
  for (uint32_t i = 0; i < names->count; i++) {
    const char *text = df_names_text(names, i);
    *locate(names, names->name[i].scope, text, strlen(text)) = i + 1;
  }
  free(old);
  return true;
}

static bool make_room(df_names *names, size_t bytes) {
  if (2 * (uint64_t)names->count + 2 > names->slots && !grow_slots(names)) return false;
  if (names->count == names->room) {
    uint32_t room = names->room ? 2 * names->room : 256;
    df_name *grown = realloc(names->name, room * sizeof *grown);
    if (!grown) return false;
    names->name = grown;
    names->room = room;
  }
  if (names->bytes_room - names->used >= bytes) return true;
  uint64_t room = 2 * names->bytes_room + bytes + 4096;
  char *grown = realloc(names->bytes, room);
  if (!grown) return false;
  names->bytes = grown;
  names->bytes_room = room;
  return true;
}

dfcclResult_t df_names_intern(df_names *names, uint32_t scope, const char *text, uint32_t *number) {
  size_t length = strlen(text);
  uint32_t *slot = locate(names, scope, text, length);
  if (*slot == 0) {
    if (!make_room(names, length + 1))
      return df_fail(dfcclOutOfMemory, "no memory for %u names", names->count);
    slot = locate(names, scope, text, length); /* the table may have moved */
    memcpy(names->bytes + names->used, text, length + 1);
    names->name[names->count] = (df_name){scope, names->used};
    names->used += length + 1;
    *slot = ++names->count;
  }
  *number = *slot - 1;
  return dfcclSuccess;
}

bool df_names_find(const df_names *names, uint32_t scope, const char *text, uint32_t *number) {
  uint32_t slot = *locate(names, scope, text, strlen(text));
  *number = slot - 1;
  return slot != 0;
}
