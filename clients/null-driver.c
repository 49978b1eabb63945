// A driver that does nothing: every entry returns success and writes nothing. What a test
// suite passes on it says nothing about a driver. `clients/run` adds the entries that are not
// here, for programs that look up symbols.
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int nothing(void) { return 0; }

EXPORT int cuDriverGetVersion(int *version) { *version = 13000; return 0; }

EXPORT int cuDeviceGetCount(int *count) { *count = 1; return 0; }

EXPORT int cuGetErrorName(int code, const char **out) { (void)code; *out = "nothing"; return 0; }

EXPORT int cuGetErrorString(int code, const char **out) { return cuGetErrorName(code, out); }

EXPORT int cuGetProcAddress_v2(const char *name, void **entry, int version,
                               unsigned long long flags, int *status) {
  (void)version, (void)flags;
  *entry = (void *)nothing;
  if (strcmp(name, "cuDriverGetVersion") == 0) *entry = (void *)cuDriverGetVersion;
  if (strcmp(name, "cuDeviceGetCount") == 0) *entry = (void *)cuDeviceGetCount;
  if (strncmp(name, "cuGetError", 10) == 0) *entry = (void *)cuGetErrorName;
  if (strcmp(name, "cuGetProcAddress") == 0) *entry = (void *)cuGetProcAddress_v2;
  if (status) *status = 0;
  return 0;
}

EXPORT int cuGetProcAddress(const char *name, void **entry, int version,
                            unsigned long long flags) {
  return cuGetProcAddress_v2(name, entry, version, flags, NULL);
}

EXPORT int cuInit(unsigned flags) { (void)flags; return 0; }

// NVRTC calls it without looking whether it is there.
EXPORT int cuGetExportTable(void **table, const void *number) {
  (void)number;
  *table = NULL;
  return 801;
}
