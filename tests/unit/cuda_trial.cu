/* Checks at configuration whether nvcc's host compiler can build and link with a sanitizer. */
int main() { return 0; }
