#include "bootstrap/rendezvous/root_reports.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "bootstrap/net/rank_list.h"
#include "bootstrap/net/sockets.h"

enum { CALLER_BYTES = DF_CALLER_PLACE_BYTES + 32 };

/* Keeps the reason for the ranks that wait, and logs it once. */
static void note(df_root *root, const char *format, ...) DF_PRINTF(2, 3);
static void note(df_root *root, const char *format, ...) {
  char text[sizeof root->note];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (strcmp(text, root->note) == 0) return;
  memcpy(root->note, text, sizeof text);
  df_log(DF_LOG_WARN, "the root of the job: %s", text);
}

const char *df_caller_place(const df_caller *caller, char text[DF_CALLER_PLACE_BYTES]) {
  struct sockaddr_storage socket = {0};
  socklen_t bytes = sizeof socket;
  df_address address;
  char words[DF_ADDRESS_TEXT];
  text[0] = '\0';
  if (getpeername(caller->fd, (struct sockaddr *)&socket, &bytes) != 0 ||
      !df_address_from_socket(&address, &socket))
    return text;
  address.port = 0;
  snprintf(text, DF_CALLER_PLACE_BYTES, " at %s", df_address_text(&address, words));
  return text;
}

/* "a caller at 10.77.0.2", or "process 77 of this host" */
static const char *describe(const df_caller *caller, char text[CALLER_BYTES]) {
  struct ucred peer = {0};
  socklen_t bytes = sizeof peer;
  char place[DF_CALLER_PLACE_BYTES];
  if (*df_caller_place(caller, place)) {
    snprintf(text, CALLER_BYTES, "a caller%s", place);
  } else {
    (void)getsockopt(caller->fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    snprintf(text, CALLER_BYTES, "process %d of this host", (int)peer.pid);
  }
  return text;
}

void df_root_note_version(df_root *root, const df_caller *caller) {
  char text[CALLER_BYTES];
  const uint32_t version = caller->in.header.version;
  note(root, "%s runs version %u (protocol %u) of the library, rank 0 version %d (protocol %d)",
       describe(caller, text), DF_BUILD_VERSION(version), DF_BUILD_PROTOCOL(version),
       DFCCL_VERSION_CODE, DF_PROTOCOL);
}

void df_root_note_secret(df_root *root, const df_caller *caller) {
  char text[CALLER_BYTES];
  note(root,
       root->options.same_user_only
           ? "%s has another secret (DFCCL_SECRET or DFCCL_SECRET_FILE) than rank 0"
           : "%s has another unique id",
       describe(caller, text));
}

void df_root_note_users(df_root *root) {
  struct ucred peer = {0};
  socklen_t bytes = sizeof peer;
  const int fd = df_accept(root->users.fd);
  if (fd < 0) return;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid != geteuid())
    note(root, DF_OTHER_USER, (int)peer.pid, peer.uid, "rank 0", geteuid());
  close(fd);
}

/* ---- ranks that have not come */

/* Returns how many they are. */
static int list_the_missing(const df_root *root, char *names) {
  unsigned char missing[DF_MAX_RANKS] = {0};
  int n = 0;
  for (int rank = 0; rank < root->n_ranks; rank++) {
    const df_caller *caller = root->members[rank];
    missing[rank] = root->phase == DF_ROOT_MESHING    ? caller->stage != DF_CALLER_MESHED
                    : root->n_joined == root->n_ranks ? root->records[rank].n_addresses == 0
                                                      : caller == NULL;
    n += missing[rank];
  }
  df_rank_list(names, DF_RANK_LIST_BYTES, missing, root->n_ranks);
  return n;
}

#define NO_SECRET                                                                                  \
  "; only ranks of this host can come, since rank 0 has no secret, but " DF_NEEDS_SECRET

/* Appends what may be wrong with the missing ranks. */
static void say_hints(const df_root *root, char *text, size_t bytes) {
  const size_t used = strlen(text);
  df_text rest = {text + used, bytes - used};
  if (root->options.remark[0]) df_say(&rest, "; %s", root->options.remark);
  if (root->note[0]) df_say(&rest, "; %s", root->note);
}

void df_root_explain_timeout(df_root *root) {
  char names[DF_RANK_LIST_BYTES];
  bool meshing = root->phase == DF_ROOT_MESHING;
  list_the_missing(root, names);
  if (!meshing && df_is_out_of_descriptors(root->accept_error)) {
    char why[DF_WHY_BYTES];
    snprintf(root->reason, sizeof root->reason,
             "the root of the job could not accept %s of %d within %u ms: %s", names, root->n_ranks,
             root->limit_ms, df_why(root->accept_error, why));
    return;
  }
  snprintf(root->reason, sizeof root->reason, "%s of %d did not %s within %u ms%s", names,
           root->n_ranks, meshing ? "get all connections" : "come", root->limit_ms,
           !meshing && root->options.lacks_secret ? NO_SECRET : "");
  if (!meshing) say_hints(root, root->reason, sizeof root->reason);
}

/* Describes the addresses at which ranks of other hosts would connect. */
static void describe_listeners(const df_root *root, char *text, size_t bytes) {
  const df_listeners *listeners = root->options.listeners;
  char address[DF_ADDRESS_TEXT];
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; listeners && i < listeners->n_offered && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "; they are awaited at ",
                             df_address_text(&listeners->offered[i], address));
  if (root->options.lacks_secret) snprintf(text, bytes, NO_SECRET);
}

void df_root_describe_missing(const df_root *root, char text[DF_REASON_BYTES]) {
  char names[DF_RANK_LIST_BYTES], listeners[DF_REASON_BYTES - DF_RANK_LIST_BYTES - 64];
  const int one = list_the_missing(root, names) == 1;
  describe_listeners(root, listeners, sizeof listeners);
  if (root->phase == DF_ROOT_MESHING)
    snprintf(text, DF_REASON_BYTES, "%s of %d still connect%s to other ranks", names, root->n_ranks,
             one ? "s" : "");
  else
    snprintf(text, DF_REASON_BYTES, "%s of %d %s not come%s", names, root->n_ranks,
             one ? "has" : "have", listeners);
  if (root->phase != DF_ROOT_MESHING) say_hints(root, text, DF_REASON_BYTES);
}
