#ifdef FLASH
int flash() { return 0; }
#else
int kernel() { return 0; }
#endif
