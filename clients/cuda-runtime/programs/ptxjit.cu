// PTX that the program has as text, loaded as a library, beside its own kernels.
#include "check.h"

static const char *text = R"(
.version 7.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 base = 100;
.visible .entry shift(.param .u64 data, .param .u32 by) {
    .reg .u64 %rd<4>;
    .reg .u32 %r<6>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [by];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r3, [base];
    add.u32 %r4, %r3, %r1;
    add.u32 %r4, %r4, %r2;
    st.global.u32 [%rd1], %r4;
    ret;
}
)";

int main() {
    cudaLibrary_t library;
    cudaKernel_t kernel;
    CHECK(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cudaLibraryGetKernel(&kernel, library, "shift"));
    EXPECT(cudaLibraryGetKernel(&kernel, library, "absent") == cudaErrorSymbolNotFound);
    cudaGetLastError();
    Device<int> data(32);
    int by = 7;
    void *args[] = {&data.data, &by};
    CHECK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(32), args, 0, 0));
    std::vector<int> got = data.host();
    for (int i = 0; i < 32; i++)
        EXPECT(got[i] == 107 + i);
    void *base;
    size_t bytes;
    CHECK(cudaLibraryGetGlobal(&base, &bytes, library, "base"));
    EXPECT(bytes == 4);
    by = 1000;
    CHECK(cudaMemcpy(base, &by, 4, cudaMemcpyHostToDevice));
    CHECK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(32), args, 0, 0));
    EXPECT(data.host()[1] == 2001);
    CHECK(cudaLibraryUnload(library));
    EXPECT(cudaLibraryLoadData(&library, ".version 7.0\n.target sm_50\n.entry k() { wrong; }", nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaErrorInvalidPtx);
}
