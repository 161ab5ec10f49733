/* DFCCL_NET_SECURITY: how connections between hosts are protected. All ranks of a job have the
 * same. */
#ifndef DF_BOOTSTRAP_NET_SECURITY_H
#define DF_BOOTSTRAP_NET_SECURITY_H

typedef enum df_security {
  DF_SECURITY_AUTH,      /* both ends prove that they have the job's secret */
  DF_SECURITY_INTEGRITY, /* and nobody can change what they send */
  DF_SECURITY_ENCRYPT,   /* nor read it */
  DF_SECURITY_TLS,       /* nor who has no certificate of the job's authority */
  DF_SECURITY_NONE,      /* a job needs no secret: whoever reaches its ports may join */
  DF_SECURITY_BEYOND
} df_security;

enum { DF_TLS_PATH = 512 };

/* DFCCL_TLS_CERT, _KEY and _CA; all of them, or none. */
typedef struct df_tls_files {
  char cert[DF_TLS_PATH], key[DF_TLS_PATH], ca[DF_TLS_PATH];
} df_tls_files;

/* As DFCCL_NET_SECURITY names them. */
extern const char *const df_security_names[DF_SECURITY_BEYOND];

#endif
