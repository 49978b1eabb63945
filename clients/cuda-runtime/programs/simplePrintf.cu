// printf of a kernel, read back from standard output.
#include "check.h"
#include <cstring>
#include <unistd.h>

__global__ void greet(int value) {
    printf("block %d thread %d: %d %.2f %s\n", blockIdx.x, threadIdx.x, value, value / 4.0, "done");
}

int main() {
    int ends[2], out = dup(1);
    EXPECT(pipe(ends) == 0);
    fflush(stdout);
    dup2(ends[1], 1);
    greet<<<2, 2>>>(10);
    cudaError_t error = cudaDeviceSynchronize();
    fflush(stdout);
    dup2(out, 1);
    close(ends[1]);
    CHECK(error);
    char text[4096] = {0};
    for (size_t at = 0, got; at < sizeof text - 1 && (got = read(ends[0], text + at, sizeof text - 1 - at)) > 0;)
        at += got;
    for (const char *line : {"block 0 thread 0: 10 2.50 done\n", "block 0 thread 1: 10 2.50 done\n",
                             "block 1 thread 0: 10 2.50 done\n", "block 1 thread 1: 10 2.50 done\n"})
        EXPECT(strstr(text, line));
}
