#include "support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/harness.h"

enum { PATH = 512, DAY = 86400 };

static char directory[64];
static pid_t maker;

static void path_of(char path[PATH], const char *where, const char *name, const char *ending) {
  snprintf(path, PATH, "%s/%s.%s", where, name, ending);
}

static FILE *open_file(const char *where, const char *name, const char *ending, const char *mode) {
  char path[PATH];
  path_of(path, where, name, ending);
  FILE *file = fopen(path, mode);
  CHECK(file != NULL, "%s cannot be opened", path);
  return file;
}

static void add(X509 *certificate, int what, const char *value) {
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, what, value);
  CHECK(extension && X509_add_ext(certificate, extension, -1) == 1, "no extension");
  X509_EXTENSION_free(extension);
}

void df_certificate_make(const char *where, const char *name, const char *authority, long days) {
  EVP_PKEY *key = EVP_EC_gen("P-256"), *issuer_key = key;
  X509 *certificate = X509_new(), *issuer = certificate;
  CHECK(key && certificate, "no memory");
  if (authority) {
    FILE *file = open_file(where, authority, "pem", "r");
    issuer = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    file = open_file(where, authority, "key", "r");
    issuer_key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
  }
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), rand());
  X509_gmtime_adj(X509_getm_notBefore(certificate), -20 * DAY);
  X509_gmtime_adj(X509_getm_notAfter(certificate), days * DAY);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             (const unsigned char *)name, -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  if (authority == NULL) add(certificate, NID_basic_constraints, "critical,CA:TRUE");
  CHECK(X509_sign(certificate, issuer_key, EVP_sha256()) > 0, "it cannot be signed");
  FILE *file = open_file(where, name, "pem", "w");
  PEM_write_X509(file, certificate);
  fclose(file);
  file = open_file(where, name, "key", "w");
  CHECK(fchmod(fileno(file), 0600) == 0, "no chmod");
  PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
  fclose(file);
  if (authority) {
    X509_free(issuer);
    EVP_PKEY_free(issuer_key);
  }
  X509_free(certificate);
  EVP_PKEY_free(key);
}

static void remove_directory(void) {
  char command[128];
  if (getpid() != maker) return;
  snprintf(command, sizeof command, "rm -rf %s", directory);
  (void)!system(command);
}

const char *df_certificates_directory(void) {
  if (directory[0]) return directory;
  snprintf(directory, sizeof directory, "/tmp/dfccl-tls-XXXXXX");
  CHECK(mkdtemp(directory) != NULL, "no directory");
  maker = getpid();
  atexit(remove_directory);
  return directory;
}

void df_certificates_set(const char *name, const char *authority) {
  char path[PATH];
  path_of(path, df_certificates_directory(), name, "pem");
  setenv("DFCCL_TLS_CERT", path, 1);
  path_of(path, df_certificates_directory(), name, "key");
  setenv("DFCCL_TLS_KEY", path, 1);
  path_of(path, df_certificates_directory(), authority, "pem");
  setenv("DFCCL_TLS_CA", path, 1);
}
