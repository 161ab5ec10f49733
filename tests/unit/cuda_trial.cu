/* Can nvcc's host compiler build and link with a sanitizer? Tried when the build is configured. */
int main() { return 0; }
