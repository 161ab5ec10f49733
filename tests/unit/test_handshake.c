/*
 * Promises of src/bootstrap/rendezvous/handshake.h:
 *   - The MAC of a message verifies under its key only, and not after any bit has changed.
 *   - Keys differ if any of their inputs differs.
 *   - A refusal arrives as the code and the sentence that were sent, whatever their length.
 */
#include "bootstrap/rendezvous/handshake.h"

#include <string.h>

#include "support/harness.h"

DF_TEST(handshake, a_changed_message_does_not_verify, 10) {
  unsigned char key[DF_KEY_BYTES] = {1}, other[DF_KEY_BYTES] = {2};
  df_refusal message;
  OK(df_handshake_ready());
  df_refusal_write(&message, DF_MESSAGE_LEAVE, dfcclTimeout, "because", key);
  CHECK(df_message_verify(&message, sizeof message, key), "the message itself");
  CHECK(!df_message_verify(&message, sizeof message, other), "another key");
  for (size_t bit = 0; bit < 8 * sizeof message; bit++) {
    unsigned char *bytes = (unsigned char *)&message;
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    CHECK(!df_message_verify(&message, sizeof message, key), "bit %zu changed", bit);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
}

DF_TEST(handshake, a_header_is_known_by_all_its_fields, 10) {
  df_signal signal;
  df_message_start(&signal, DF_MESSAGE_DONE, sizeof signal);
  CHECK(df_header_is(&signal.header, DF_MESSAGE_DONE, sizeof signal), "the header itself");
  CHECK(!df_header_is(&signal.header, DF_MESSAGE_GO, sizeof signal), "another type");
  CHECK(!df_header_is(&signal.header, DF_MESSAGE_DONE, sizeof signal + 1), "another length");
  CHECK(!df_header_is_foreign(&signal.header), "our version is foreign");
  signal.header.version++;
  CHECK(!df_header_is(&signal.header, DF_MESSAGE_DONE, sizeof signal), "another version");
  CHECK(df_header_is_foreign(&signal.header), "another version is not foreign");
  signal.header.magic++;
  CHECK(!df_header_is_foreign(&signal.header), "another protocol");
}

DF_TEST(handshake, keys_differ_with_each_input, 10) {
  unsigned char keys[7][DF_KEY_BYTES];
  unsigned char secret[DF_SECRET_BYTES] = {0};
  df_key_from_secret(keys[0], secret);
  secret[DF_SECRET_BYTES - 1] = 1;
  df_key_from_secret(keys[1], secret);
  df_key_from_text(keys[2], "a", 0);
  df_key_from_text(keys[3], "b", 0);
  df_key_from_text(keys[4], "a", 1);
  df_derive(keys[5], DF_KEY_BYTES, keys[0], "one purpose", "a", 1, NULL, 0);
  df_derive(keys[6], DF_KEY_BYTES, keys[0], "another purpose", "a", 1, NULL, 0);
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < i; j++)
      CHECK(memcmp(keys[i], keys[j], DF_KEY_BYTES) != 0, "keys %d and %d are the same", i, j);
}

DF_TEST(handshake, a_refusal_arrives_as_it_was_sent, 10) {
  unsigned char key[DF_KEY_BYTES] = {1};
  char longer[2 * DF_REASON_BYTES];
  df_refusal refusal;
  df_refusal_write(&refusal, DF_MESSAGE_FAILURE, dfcclInvalidArgument, "rank 3 is wrong", key);
  RESULT(df_refusal_read(&refusal, "it says: "), dfcclInvalidArgument);
  CHECK(strcmp(df_last_sentence(), "it says: rank 3 is wrong") == 0, "%s", df_last_sentence());
  memset(longer, 'x', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  df_refusal_write(&refusal, DF_MESSAGE_FAILURE, dfcclTimeout, longer, key);
  RESULT(df_refusal_read(&refusal, ""), dfcclTimeout);
  CHECK(strlen(df_last_sentence()) == DF_REASON_BYTES - 1, "%zu bytes", strlen(df_last_sentence()));
  memset(refusal.reason, 'y', sizeof refusal.reason); /* a sender that omits the final zero */
  refusal.code = 1000;
  RESULT(df_refusal_read(&refusal, ""), dfcclRemoteError);
  CHECK(strlen(df_last_sentence()) == DF_REASON_BYTES, "%zu bytes", strlen(df_last_sentence()));
  refusal.code = dfcclSuccess; /* a refusal is never a success */
  RESULT(df_refusal_read(&refusal, ""), dfcclRemoteError);
}
