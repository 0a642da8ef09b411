/* A shared library whose globals are symmetric because it depends on the OpenSHMEM library. */
extern long library_data[3];
extern long library_bss[1000];
long *library_hidden(void);
