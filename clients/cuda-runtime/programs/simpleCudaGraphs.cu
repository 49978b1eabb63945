// A graph, built by hand and captured from streams, launched many times.
#include "check.h"

__global__ void add(int *data, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += by;
}

static void count(void *calls) { ++*(int *)calls; }

int main() {
    const int n = 2048;
    std::vector<int> host(n);
    Device<int> data(n);
    int calls = 0, by = 3, length = n;

    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t fill, launch, copy, call;
    cudaMemsetParams zero = {};
    zero.dst = data.data, zero.value = 0, zero.elementSize = 4, zero.width = n, zero.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &zero));
    cudaKernelNodeParams kernel = {};
    void *args[] = {&data.data, &length, &by};
    kernel.func = (void *)add, kernel.gridDim = dim3(n / 256), kernel.blockDim = dim3(256), kernel.kernelParams = args;
    CHECK(cudaGraphAddKernelNode(&launch, graph, &fill, 1, &kernel));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &launch, 1, host.data(), data.data, n * sizeof(int), cudaMemcpyDeviceToHost));
    cudaHostNodeParams function = {count, &calls};
    CHECK(cudaGraphAddHostNode(&call, graph, &copy, 1, &function));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT(nodes == 4);
    cudaGraphExec_t ready;
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (int round = 0; round < 3; round++)
        CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(calls == 3);
    for (int value : host)
        EXPECT(value == 3);
    by = 11;
    CHECK(cudaGraphExecKernelNodeSetParams(ready, launch, &kernel));
    CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(host[n - 1] == 11 && calls == 4);

    cudaStream_t other;
    cudaEvent_t fork, join;
    CHECK(cudaStreamCreate(&other));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    cudaGraph_t captured;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(data.data, 0, n * sizeof(int), stream));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    add<<<n / 512, 256, 0, stream>>>(data.data, n / 2, 1);
    add<<<n / 512, 256, 0, other>>>(data.data + n / 2, n / 2, 2);
    CHECK(cudaEventRecord(join, other));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    CHECK(cudaMemcpyAsync(host.data(), data.data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &captured));
    host.assign(n, -1);
    cudaGraphExec_t again;
    CHECK(cudaGraphInstantiate(&again, captured, 0));
    EXPECT(host[0] == -1);
    CHECK(cudaGraphLaunch(again, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++)
        EXPECT(host[i] == (i < n / 2 ? 1 : 2));
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphExecDestroy(again));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(captured));
}
