/* Loads PTX in each way and prints what a kernel writes. Arguments: the ways, and `fork` or `threads`. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*Entry)();
static void *driver;
static Entry (*get)(const char *);

static Entry symbol(const char *name) { return (Entry)dlsym(driver, name); }
static Entry procedure(const char *name) {
    void *address = NULL;
    int status = 0;
    int (*entry)(const char *, void **, int, uint64_t, int *) = dlsym(driver, "cuGetProcAddress_v2");
    return entry(name, &address, 12080, 0, &status) == 0 ? (Entry)address : NULL;
}

#define CHECK(call) do { int failed_ = (call); if (failed_) { printf("%s: %d\n", #call, failed_); return failed_; } } while (0)

static int run(void *function) {
    uint64_t out;
    uint32_t result[4] = {0};
    CHECK(symbol("cuMemAlloc_v2")(&out, (size_t)16));
    void *params[] = {&out};
    CHECK(symbol("cuLaunchKernel")(function, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
    CHECK(symbol("cuMemcpyDtoH_v2")(result, out, (size_t)16));
    printf("%u %u %u %u\n", result[0], result[1], result[2], result[3]);
    return 0;
}

/* Links the text; `link-two` adds a function that a second text has. */
static int link_text(const char *way, char *text, void **module) {
    void *link = NULL, *code = NULL;
    size_t size = 0;
    char log[1000] = "unwritten";
    unsigned names[] = {3, 4, 2};
    void *values[] = {log, (void *)1000, NULL};
    CHECK(get("cuLinkCreate")(3, names, values, &link));
    CHECK(get("cuLinkAddData")(link, 1, text, strlen(text) + 1, "k.ptx", 0, NULL, NULL));
    if (!strcmp(way, "link-two")) {
        char *other = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .func f() { ret; }\n";
        CHECK(get("cuLinkAddData")(link, 1, other, strlen(other) + 1, "f.ptx", 0, NULL, NULL));
    }
    CHECK(get("cuLinkComplete")(link, &code, &size));
    float time;
    memcpy(&time, &values[2], 4);
    if (strlen(log) != (size_t)values[1] || time < 0) printf("log %zu of %zu\n", (size_t)values[1], strlen(log));
    CHECK(get("cuModuleLoadData")(module, code));
    CHECK(get("cuLinkDestroy")(link));
    return 0;
}

static int load(const char *way, const char *path, char *text) {
    void *module = NULL, *library = NULL, *function = NULL, *context = NULL;
    if (!strcmp(way, "library") || !strcmp(way, "library-file")) {
        if (!strcmp(way, "library"))
            CHECK(get("cuLibraryLoadData")(&library, text, NULL, NULL, 0, NULL, NULL, 0));
        else
            CHECK(get("cuLibraryLoadFromFile")(&library, path, NULL, NULL, 0, NULL, NULL, 0));
        symbol("cuCtxGetCurrent")(&context);
        if (!context) {
            CHECK(symbol("cuDevicePrimaryCtxRetain")(&context, 0));
            CHECK(symbol("cuCtxSetCurrent")(context));
        }
        CHECK(symbol("cuLibraryGetModule")(&module, library));
    } else {
        CHECK(symbol("cuDevicePrimaryCtxRetain")(&context, 0));
        CHECK(symbol("cuCtxSetCurrent")(context));
        if (!strcmp(way, "data"))
            CHECK(get("cuModuleLoadData")(&module, text));
        else if (!strncmp(way, "link", 4))
            CHECK(link_text(way, text, &module));
        else if (!strcmp(way, "fatbinary"))
            CHECK(get("cuModuleLoadFatBinary")(&module, text));
        else if (!strcmp(way, "file"))
            CHECK(get("cuModuleLoad")(&module, path));
        else {
            char log[1000] = "";
            int unknown = !strcmp(way, "unknown-option");
            unsigned names[] = {5, 6, unknown ? 9 : 7};
            void *values[] = {log, (void *)1000, (void *)(uintptr_t)(unknown ? 90 : 4)};
            int code = get("cuModuleLoadDataEx")(&module, text, 3, names, values);
            if (code) printf("log: %s\n", log);
            CHECK(code);
        }
    }
    CHECK(symbol("cuModuleGetFunction")(&function, module, "k"));
    return run(function);
}

int main(int count, char **arguments) {
    const char *opened = getenv("OPEN");
    driver = dlopen(opened ? opened : "libcuda.so.1", RTLD_NOW);
    if (getenv("NOLOAD") && dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != driver)
        return printf("another library is loaded\n"), 1;
    if (!driver) return printf("%s\n", dlerror()), 1;
    get = getenv("BY_SYMBOL") ? symbol : procedure;
    FILE *file = fopen(arguments[1], "r");
    static char text[1 << 16];
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    if (!strcmp(arguments[2], "fork") && fork()) {
        int status;
        wait(&status);
        return WEXITSTATUS(status);
    }
    CHECK(symbol("cuInit")(0));
    for (int i = 2; i < count; i++)
        if (strcmp(arguments[i], "fork")) {
            int code = load(arguments[i], arguments[1], text);
            if (code) return 3;
        }
    return 0;
}
