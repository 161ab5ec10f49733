/* DFCCL_NET_SECURITY: the protection of connections between hosts. All ranks of a job have the same
 * value. */
#ifndef DF_BOOTSTRAP_NET_SECURITY_H
#define DF_BOOTSTRAP_NET_SECURITY_H

typedef enum df_security {
  DF_SECURITY_AUTH,      /* both ends prove that they have the job's secret */
  DF_SECURITY_INTEGRITY, /* and no third party can change the data */
  DF_SECURITY_ENCRYPT,   /* nor read the data */
  DF_SECURITY_TLS,       /* TLS: both ends also need a certificate of the authority of the job */
  DF_SECURITY_NONE,      /* a job needs no secret: every process that reaches its ports may join */
  DF_SECURITY_BEYOND
} df_security;

enum { DF_TLS_PATH = 512 };

/* The values of DFCCL_TLS_CERT, _KEY and _CA; either all are set, or none. */
typedef struct df_tls_files {
  char cert[DF_TLS_PATH], key[DF_TLS_PATH], ca[DF_TLS_PATH];
} df_tls_files;

/* The names of the values in DFCCL_NET_SECURITY. */
extern const char *const df_security_names[DF_SECURITY_BEYOND];

#endif
