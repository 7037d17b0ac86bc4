/* bcryptprimitives.dll, which Wine 8 lacks: extension modules in Rust take random bytes from it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T size) { return SystemFunction036(bytes, size); }
