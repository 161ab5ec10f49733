/* Certificates for tests, made in memory and written to a directory of their own. */
#ifndef DF_TESTS_SUPPORT_CERTIFICATES_H
#define DF_TESTS_SUPPORT_CERTIFICATES_H

/* NAME.pem and NAME.key, of the authority whose name it is given; authority NULL: its own. days: how
 * long it is good from now on; negative: it no longer is. */
void df_certificate_make(const char *directory, const char *name, const char *authority, long days);
/* A directory that the process removes when it ends, unless it is a fork of the maker. */
const char *df_certificates_directory(void);
/* DFCCL_TLS_CERT, _KEY and _CA. */
void df_certificates_set(const char *name, const char *authority);

#endif
