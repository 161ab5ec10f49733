/* Certificates for tests, made in memory and written to a directory of their own. */
#ifndef DF_TESTS_SUPPORT_CERTIFICATES_H
#define DF_TESTS_SUPPORT_CERTIFICATES_H

/* Writes NAME.pem and NAME.key, signed by the given authority; authority NULL: self-signed. days:
 * how long the certificate is valid from now on; a negative value gives an expired one. */
void df_certificate_make(const char *directory, const char *name, const char *authority, long days);
/* A directory that the process removes when it ends, unless it is a fork of the creator. */
const char *df_certificates_directory(void);
/* Sets DFCCL_TLS_CERT, _KEY and _CA. */
void df_certificates_set(const char *name, const char *authority);

#endif
