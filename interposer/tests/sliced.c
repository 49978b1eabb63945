/* Uses a module of many kernels by each entry that takes a library or module. What it prints does not depend on
   whether the module is cut. Arguments: the PTX, and `library`, `module`, `capture` or `all`. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Entry)();
static void *driver;
static Entry get(const char *name) {
    void *address = NULL;
    int status = 0;
    int (*entry)(const char *, void **, int, uint64_t, int *) = dlsym(driver, "cuGetProcAddress_v2");
    return entry(name, &address, 12080, 0, &status) == 0 ? (Entry)address : NULL;
}
#define CALL(name, ...) get(#name)(__VA_ARGS__)
#define SHOW(name, ...) printf(#name " %d\n", CALL(name, __VA_ARGS__))

static uint64_t out;

static void launch(const char *name, void *function, void *stream) {
    uint32_t result[4] = {0};
    void *params[] = {&out};
    int code = CALL(cuLaunchKernel, function, 1, 1, 1, 4, 1, 1, 0, stream, params, NULL);
    if (stream) return;
    CALL(cuMemcpyDtoH, result, out, (size_t)16);
    printf("%s: %d: %u %u %u %u\n", name, code, result[0], result[1], result[2], result[3]);
}

static void set(uint64_t address, uint32_t value) { CALL(cuMemcpyHtoD, address, &value, (size_t)4); }
static uint32_t read(uint64_t address) {
    uint32_t value = 0;
    CALL(cuMemcpyDtoH, &value, address, (size_t)4);
    return value;
}

static void library(char *text, int all) {
    void *library = NULL, *kernel = NULL, *function = NULL, *module = NULL, *again = NULL, *found = NULL;
    SHOW(cuLibraryLoadData, &library, text, NULL, NULL, 0, NULL, NULL, 0);
    unsigned count = 0;
    SHOW(cuLibraryGetKernelCount, &count, library);
    printf("%u kernels\n", count);
    for (unsigned index = 0; index < count; index += all ? 1 : 7) {
        char name[20];
        sprintf(name, "k%u", index);
        if (CALL(cuLibraryGetKernel, &kernel, library, name)) printf("no %s\n", name);
        launch(name, kernel, NULL);
    }
    uint64_t address = 0, other = 0;
    size_t bytes = 0;
    SHOW(cuLibraryGetGlobal, &address, &bytes, library, "counter");
    printf("%zu bytes, %u\n", bytes, read(address));
    set(address, 100);
    SHOW(cuLibraryGetGlobal, &address, &bytes, library, "factor");
    set(address, 7);
    SHOW(cuLibraryGetGlobal, &address, NULL, library, "unused");
    printf("%u\n", read(address));
    SHOW(cuLibraryGetGlobal, NULL, &bytes, library, "shown");
    SHOW(cuLibraryGetGlobal, NULL, NULL, library, "shown");
    SHOW(cuLibraryGetGlobal, &address, &bytes, library, "nothing");
    SHOW(cuLibraryGetGlobal, &address, &bytes, library, NULL);
    SHOW(cuLibraryGetManaged, &address, &bytes, library, "nothing");
    SHOW(cuLibraryGetKernel, &kernel, library, "nothing");
    SHOW(cuLibraryGetKernel, NULL, library, "k0");
    SHOW(cuLibraryGetKernel, &kernel, library, "k0");
    SHOW(cuKernelGetFunction, &function, kernel);
    launch("k0", function, NULL);
    SHOW(cuLibraryGetModule, &module, library);
    SHOW(cuLibraryGetModule, &again, library);
    printf("same module: %d\n", module == again);
    SHOW(cuFuncGetModule, &found, function);
    printf("same module: %d\n", module == found);
    SHOW(cuKernelGetLibrary, &found, kernel);
    printf("same library: %d\n", library == found);
    const char *name = NULL;
    SHOW(cuKernelGetName, &name, kernel);
    printf("%s\n", name);
    SHOW(cuModuleGetFunction, &again, module, "k0");
    printf("same function: %d\n", again == function);
    SHOW(cuModuleGetGlobal, &other, &bytes, module, "counter");
    SHOW(cuLibraryGetGlobal, &address, &bytes, library, "counter");
    printf("same address: %d, %u\n", address == other, read(address));
    SHOW(cuModuleUnload, module);
    void *kernels[200];
    SHOW(cuLibraryEnumerateKernels, NULL, 2, library);
    SHOW(cuLibraryEnumerateKernels, kernels, 2, library);
    if (all) {
        SHOW(cuLibraryEnumerateKernels, kernels, count, library);
        for (unsigned index = 0; index < count; index++) CALL(cuKernelGetName, &name, kernels[index]);
    }
    SHOW(cuLibraryUnload, library);
    /* Handles that are none of anybody's. */
    SHOW(cuLibraryGetKernel, &kernel, NULL, "k0");
    SHOW(cuLibraryGetGlobal, &address, &bytes, NULL, "counter");
    SHOW(cuLibraryGetModule, &module, NULL);
    SHOW(cuLibraryUnload, NULL);
    SHOW(cuModuleGetFunction, &function, NULL, "k0");
    SHOW(cuModuleUnload, NULL);
    SHOW(cuKernelGetFunction, &function, NULL);
    SHOW(cuKernelGetLibrary, &found, NULL);
    SHOW(cuFuncGetModule, &found, NULL);
}

static void module(char *text) {
    void *module = NULL, *function = NULL, *found = NULL, *functions[2];
    SHOW(cuModuleLoadData, &module, text);
    unsigned count = 0;
    SHOW(cuModuleGetFunctionCount, &count, module);
    printf("%u functions\n", count);
    SHOW(cuModuleEnumerateFunctions, functions, 2, module);
    SHOW(cuModuleGetFunction, &function, module, "k9");
    launch("k9", function, NULL);
    SHOW(cuFuncGetModule, &found, function);
    printf("same module: %d\n", module == found);
    uint64_t address = 0;
    size_t bytes = 0;
    SHOW(cuModuleGetGlobal, &address, &bytes, module, "factor");
    set(address, 1000);
    SHOW(cuModuleGetFunction, &function, module, "k1");
    launch("k1", function, NULL);
    SHOW(cuModuleGetFunction, &function, module, "nothing");
    SHOW(cuModuleGetFunction, &function, module, NULL);
    SHOW(cuModuleGetTexRef, &found, module, "nothing");
    SHOW(cuModuleGetGlobal, &address, &bytes, module, "nothing");
    /* Without a current context. */
    void *context = NULL, *none = NULL;
    CALL(cuCtxGetCurrent, &context);
    CALL(cuCtxSetCurrent, NULL);
    SHOW(cuModuleGetFunction, &function, module, "k11");
    CALL(cuCtxGetCurrent, &none);
    printf("context: %d\n", none != NULL);
    CALL(cuCtxSetCurrent, context);
    launch("k11", function, NULL);
    SHOW(cuModuleUnload, module);
}

/* The first use of a kernel while a stream is captured. */
static void capture(char *text) {
    void *library = NULL, *kernel = NULL, *stream = NULL, *graph = NULL, *exec = NULL;
    SHOW(cuLibraryLoadData, &library, text, NULL, NULL, 0, NULL, NULL, 0);
    SHOW(cuStreamCreate, &stream, 0);
    SHOW(cuStreamBeginCapture, stream, 0);
    SHOW(cuLibraryGetKernel, &kernel, library, "k3");
    launch("k3", kernel, stream);
    SHOW(cuStreamEndCapture, stream, &graph);
    SHOW(cuGraphInstantiateWithFlags, &exec, graph, 0ull);
    SHOW(cuGraphLaunch, exec, stream);
    SHOW(cuStreamSynchronize, stream);
    printf("%u\n", read(out));
    SHOW(cuLibraryUnload, library);
}

int main(int count, char **arguments) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return printf("%s\n", dlerror()), 1;
    FILE *file = fopen(arguments[1], "r");
    static char text[1 << 20];
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    void *context = NULL;
    SHOW(cuInit, 0);
    SHOW(cuDevicePrimaryCtxRetain, &context, 0);
    SHOW(cuCtxSetCurrent, context);
    SHOW(cuMemAlloc, &out, (size_t)16);
    if (!strcmp(arguments[2], "library")) library(text, 0);
    if (!strcmp(arguments[2], "all")) library(text, 1);
    if (!strcmp(arguments[2], "module")) module(text);
    if (!strcmp(arguments[2], "capture")) capture(text);
    if (!strcmp(arguments[2], "reset")) {
        library(text, 0);
        SHOW(cuDevicePrimaryCtxReset, 0);
        SHOW(cuDevicePrimaryCtxRetain, &context, 0);
        SHOW(cuCtxSetCurrent, context);
        SHOW(cuMemAlloc, &out, (size_t)16);
        library(text, 1);
    }
    return 0;
}
