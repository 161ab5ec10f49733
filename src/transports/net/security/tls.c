#include "transports/net/security/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bootstrap/rendezvous/handshake.h"
#include "transports/net/stream/write_buffer.h"

enum {
  CHUNK = 16 << 10, /* contents of a TLS record */
  CHUNK_MORE = 512, /* bytes that a record, and a change of the key, add at most */
  OUT = 5 * (CHUNK + CHUNK_MORE),
  AHEAD = 64 << 10, /* bytes that are read at once */
  PROOF = 32,
  WHY = 160,
  REKEY_EVERY = 1 << 22 /* records; a key of AES-GCM should not encrypt more */
};

struct df_tls {
  SSL_CTX *context;
  BIO_METHOD *method;
};

typedef struct tls_stream {
  df_stream stream, *below;
  SSL *ssl;
  df_outbox outbox;
  uint8_t *scratch;
  unsigned char key[DF_KEY_BYTES];
  uint8_t proof[PROOF]; /* proof of the other end */
  size_t proof_have;
  uint32_t records;
  int calls, is_connected, has_proven;
  int is_dry;      /* the stream below has nothing more; it becomes ready when it has */
  int below_ended; /* the stream below has ended, and everything received was valid */
  char why[WHY];   /* reason of the end; "": it has not ended */
} tls_stream;

/* ---- files */

static const char *ssl_reason(void) {
  const char *reason = ERR_reason_error_string(ERR_peek_error());
  return reason ? reason : "unknown reason";
}

static dfcclResult_t bad_file(const char *variable, const char *path, const char *why) {
  return df_fail(dfcclInvalidUsage, "environment variable %s names \"%.200s\": %s", variable, path,
                 why);
}

static dfcclResult_t check_file(const char *variable, const char *path, int is_private) {
  struct stat status;
  FILE *file = fopen(path, "re");
  if (file == NULL) return bad_file(variable, path, strerror(errno));
  const int is_open = is_private && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
                      (status.st_mode & 07);
  fclose(file);
  return is_open ? bad_file(variable, path, "everybody may read it: chmod 600 it") : dfcclSuccess;
}

/* Refuses a password, because OpenSSL would ask for it at the terminal. */
static int no_passphrase(char *text, int bytes, int is_new, void *data) {
  (void)text, (void)bytes, (void)is_new, (void)data;
  return -1;
}

static dfcclResult_t load(SSL_CTX *context, const df_tls_files *files) {
  dfcclResult_t result = check_file("DFCCL_TLS_CERT", files->cert, 0);
  if (result == dfcclSuccess) result = check_file("DFCCL_TLS_KEY", files->key, 1);
  if (result == dfcclSuccess) result = check_file("DFCCL_TLS_CA", files->ca, 0);
  if (result != dfcclSuccess) return result;
  ERR_clear_error();
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
    return bad_file("DFCCL_TLS_CERT", files->cert, ssl_reason());
  if (SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1)
    return bad_file("DFCCL_TLS_KEY", files->key, ssl_reason());
  if (SSL_CTX_load_verify_locations(context, files->ca, NULL) != 1)
    return bad_file("DFCCL_TLS_CA", files->ca, ssl_reason());
  return dfcclSuccess;
}

/* ---- below TLS */

/* Bytes that TLS writes go to the write buffer; callers of TLS have made room there. */
static int below_write(BIO *bio, const char *bytes, int length) {
  tls_stream *s = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (length > 0 && (uint32_t)length > df_outbox_room(&s->outbox))
    (void)df_outbox_flush(&s->outbox, s->below); /* happens only during the handshake */
  if (length < 0 || (uint32_t)length > df_outbox_room(&s->outbox)) {
    BIO_set_retry_write(bio);
    return -1;
  }
  memcpy(s->outbox.bytes + s->outbox.end, bytes, (size_t)length);
  s->outbox.end += (uint32_t)length;
  return length;
}

static int below_read(BIO *bio, char *bytes, int length) {
  tls_stream *s = BIO_get_data(bio);
  const df_stream_room room = {bytes, (size_t)length};
  BIO_clear_retry_flags(bio);
  const int64_t came = s->is_dry ? 0 : s->below->read(s->below, &room, 1);
  s->is_dry |= came < length;
  if (came > 0) return (int)came;
  if (came == DF_STREAM_ENDED) s->below_ended = 1;
  if (came == 0) BIO_set_retry_read(bio);
  return came == 0 ? -1 : 0;
}

static long below_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio, (void)number, (void)pointer;
  return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void) {
  BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "dfccl stream");
  if (method && BIO_meth_set_write(method, below_write) && BIO_meth_set_read(method, below_read) &&
      BIO_meth_set_ctrl(method, below_control))
    return method;
  BIO_meth_free(method);
  return NULL;
}

dfcclResult_t df_tls_make(df_tls **out, const df_tls_files *files) {
  df_tls *tls = calloc(1, sizeof *tls);
  if (tls) tls->context = SSL_CTX_new(TLS_method());
  if (tls) tls->method = make_method();
  dfcclResult_t result = dfcclSuccess;
  if (tls == NULL || tls->context == NULL || tls->method == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory for TLS");
  if (result == dfcclSuccess) result = load(tls->context, files);
  if (result != dfcclSuccess) {
    df_tls_free(tls);
    return result;
  }
  SSL_CTX_set_min_proto_version(tls->context, TLS1_3_VERSION);
  SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(tls->context, 0);
  SSL_CTX_set_read_ahead(tls->context, 1);
  SSL_CTX_set_default_read_buffer_len(tls->context, AHEAD);
  *out = tls;
  return dfcclSuccess;
}

void df_tls_free(df_tls *tls) {
  if (tls == NULL) return;
  SSL_CTX_free(tls->context);
  BIO_meth_free(tls->method);
  free(tls);
}

/* ---- handshake */

/* Evaluates a call of TLS that returned nothing. Returns 0 if TLS waits; otherwise it has ended,
 * and the reason is set. */
static int judge(tls_stream *s, int given) {
  const int error = SSL_get_error(s->ssl, given);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
  const long verified = SSL_get_verify_result(s->ssl);
  if (verified != X509_V_OK)
    snprintf(s->why, WHY, "TLS: the other end's certificate: %s",
             X509_verify_cert_error_string(verified));
  else if (s->below_ended)
    snprintf(s->why, WHY, "%s", s->below->reason(s->below));
  else
    snprintf(s->why, WHY, "TLS: %s", ssl_reason());
  (void)df_outbox_flush(&s->outbox, s->below); /* sends the alert to the other end */
  return DF_STREAM_ENDED;
}

/* Makes the proof of the calling end, or of the other one. */
static int make_proof(tls_stream *s, int callers, uint8_t proof[PROOF]) {
  static const char label[] = "EXPORTER-dfccl-proof";
  const uint32_t who = (uint32_t)callers;
  uint8_t session[PROOF];
  if (SSL_export_keying_material(s->ssl, session, PROOF, label, strlen(label), NULL, 0, 0) != 1)
    return 0;
  df_derive(proof, PROOF, s->key, "dfccl tls proof", &who, sizeof who, session, PROOF);
  return 1;
}

/* Returns 1: done; 0: not yet; DF_STREAM_ENDED. */
static int prove(tls_stream *s) {
  uint8_t proof[PROOF];
  if (!s->has_proven) {
    if (!make_proof(s, s->calls, proof)) return judge(s, -1);
    const int given = SSL_write(s->ssl, proof, PROOF);
    if (given <= 0) return judge(s, given);
    s->has_proven = 1;
  }
  while (s->proof_have < PROOF) {
    const int given = SSL_read(s->ssl, s->proof + s->proof_have, (int)(PROOF - s->proof_have));
    if (given <= 0) return judge(s, given);
    s->proof_have += (size_t)given;
  }
  if (make_proof(s, !s->calls, proof) && sodium_memcmp(proof, s->proof, PROOF) == 0) return 1;
  snprintf(s->why, WHY, "TLS: the other end does not have the key of the connection");
  return DF_STREAM_ENDED;
}

static int tls_connect(df_stream *stream) {
  tls_stream *s = (tls_stream *)stream;
  if (s->why[0]) return DF_STREAM_ENDED;
  if (s->is_connected) return 1;
  ERR_clear_error();
  s->is_dry = 0;
  const int given = SSL_do_handshake(s->ssl);
  int state = given == 1 ? prove(s) : judge(s, given);
  const int flushed = state == DF_STREAM_ENDED ? 0 : df_outbox_flush(&s->outbox, s->below);
  if (flushed == DF_STREAM_ENDED) {
    snprintf(s->why, WHY, "%s", s->below->reason(s->below));
    state = DF_STREAM_ENDED;
  }
  if (state == 1 && !flushed) state = 0; /* otherwise the proof would stay in the buffer */
  s->is_connected = state == 1;
  if (SSL_get_verify_result(s->ssl) != X509_V_OK) state = DF_STREAM_REFUSED;
  return state;
}

/* ---- writing and reading */

/* Makes as many records as there is room for, of the bytes that the stream below has not accepted
 * yet. Returns 0 if TLS failed. */
static int seal(tls_stream *s, df_parts parts) {
  uint32_t bytes;
  while (df_outbox_room(&s->outbox) >= CHUNK + CHUNK_MORE) {
    const uint8_t *plain = df_parts_next(&parts, s->scratch, CHUNK, 0, &bytes);
    if (plain == NULL) return 1;
    if (++s->records % REKEY_EVERY == 0) SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
    const int given = SSL_write(s->ssl, plain, (int)bytes);
    if (given != (int)bytes) {
      judge(s, given);
      return 0;
    }
    s->outbox.held += bytes;
  }
  return 1;
}

static int64_t tls_write(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  tls_stream *s = (tls_stream *)stream;
  df_parts rest = {.parts = parts, .n = n_parts};
  int64_t taken = 0;
  if (s->why[0]) return DF_STREAM_ENDED;
  ERR_clear_error();
  for (;;) {
    const int flushed = df_outbox_flush(&s->outbox, s->below);
    if (flushed == DF_STREAM_ENDED) return DF_STREAM_ENDED;
    if (!flushed) return taken;
    df_parts_skip(&rest, s->outbox.held);
    taken += s->outbox.held;
    s->outbox.held = 0;
    if (!seal(s, rest)) return DF_STREAM_ENDED;
    if (s->outbox.held == 0) return taken;
  }
}

static int64_t tls_read(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  tls_stream *s = (tls_stream *)stream;
  int64_t came = 0;
  if (s->why[0]) return DF_STREAM_ENDED;
  ERR_clear_error();
  s->is_dry = 0;
  for (uint32_t i = 0; i < n_rooms; i++)
    for (size_t at = 0; at < rooms[i].length;) {
      size_t now;
      const int given =
          SSL_read_ex(s->ssl, (uint8_t *)rooms[i].bytes + at, rooms[i].length - at, &now);
      if (given != 1) {
        if (judge(s, given) == 0) return came;
        return s->below_ended && came ? came : DF_STREAM_ENDED;
      }
      at += now;
      came += (int64_t)now;
    }
  return came;
}

static int tls_awaits_rest(const df_stream *stream) {
  return SSL_has_pending(((const tls_stream *)(const void *)stream)->ssl);
}

static const char *tls_reason(df_stream *stream) {
  tls_stream *s = (tls_stream *)stream;
  return s->why[0] ? s->why : s->below->reason(s->below);
}

/* ---- opening and closing */

static df_rate_estimate tls_rate_estimate(df_stream *stream) {
  df_stream *below = ((tls_stream *)stream)->below;
  return below->rate_estimate ? below->rate_estimate(below) : (df_rate_estimate){.queued = 0};
}

static void tls_close(df_stream *stream) {
  tls_stream *s = (tls_stream *)stream;
  SSL_free(s->ssl);
  free(s->outbox.bytes);
  sodium_memzero(s, sizeof *s);
  free(s);
}

static int begin(tls_stream *s, const df_tls *tls) {
  BIO *bio = BIO_new(tls->method);
  s->ssl = SSL_new(tls->context);
  if (bio == NULL || s->ssl == NULL) {
    BIO_free(bio);
    return 0;
  }
  BIO_set_data(bio, s);
  BIO_set_init(bio, 1);
  SSL_set_bio(s->ssl, bio, bio); /* the SSL object owns it */
  if (s->calls)
    SSL_set_connect_state(s->ssl);
  else
    SSL_set_accept_state(s->ssl);
  return 1;
}

dfcclResult_t df_tls_open(df_stream **out, df_tls *tls, df_stream *below,
                          const unsigned char key[DF_KEY_BYTES], int calls) {
  tls_stream *s = calloc(1, sizeof *s);
  uint8_t *buffers = malloc(OUT + DF_OUTBOX_GATHERED);
  if (s && buffers) {
    s->stream = (df_stream){.write = tls_write,
                            .read = tls_read,
                            .awaits_rest = tls_awaits_rest,
                            .reason = tls_reason,
                            .rate_estimate = tls_rate_estimate,
                            .close = tls_close,
                            .connect = tls_connect};
    s->below = below;
    s->calls = calls;
    s->outbox = (df_outbox){.bytes = buffers, .capacity = OUT};
    s->scratch = buffers + OUT;
    memcpy(s->key, key, sizeof s->key);
  }
  if (s == NULL || buffers == NULL || !begin(s, tls)) {
    if (s) SSL_free(s->ssl);
    free(buffers);
    free(s);
    return df_fail(dfcclOutOfMemory, "no memory for the TLS of a connection");
  }
  *out = &s->stream;
  return dfcclSuccess;
}
