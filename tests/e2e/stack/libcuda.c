/* The driver of a machine without a GPU: enough of libcuda to be started, and to show one H100 that takes a megabyte.
   It needs no C library, so that a compiler alone is enough to make it. */

typedef __SIZE_TYPE__ size_t;

static const char title[] = "NVIDIA H100 80GB HBM3";
static unsigned char memory[1 << 20];

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }

int cuDeviceGetName(char *name, int length, int device) {
  for (int at = 0; at < length && at < (int)sizeof title; at++) name[at] = title[at];
  return device;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = attribute == 75 ? 9 : 0, device; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = memory, device; }
int cuCtxSetCurrent(void *context) { return context != memory; }

int cuMemGetInfo_v2(size_t *unused, size_t *total) { return *unused = *total = 2 * sizeof memory, 0; }

int cuMemAlloc_v2(unsigned long long *address, size_t size) {
  return *address = (unsigned long long)memory, size > sizeof memory;
}

int cuMemsetD8_v2(unsigned long long address, unsigned char value, size_t size) {
  volatile unsigned char *bytes = (unsigned char *)address;
  for (size_t at = 0; at < size; at++) bytes[at] = value;
  return 0;
}

int cuMemcpyDtoH_v2(void *host, unsigned long long address, size_t size) {
  volatile unsigned char *bytes = (unsigned char *)address, *copy = host;
  for (size_t at = 0; at < size; at++) copy[at] = bytes[at];
  return 0;
}

int cuMemFree_v2(unsigned long long address) { return address != (unsigned long long)memory; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuGetErrorName(int code, const char **name) { return *name = "CUDA_ERROR_OF_THE_TESTS", code; }
