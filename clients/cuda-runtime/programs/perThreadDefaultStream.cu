// flags: --default-stream per-thread
// Each thread has a default stream of its own, which waits for no other's.
#include "check.h"
#include <thread>

__global__ void count(int *data, int rounds) {
    for (int i = 0; i < rounds; i++)
        data[threadIdx.x] += i % 3;
}

int main() {
    const int threads = 6, rounds = 300;
    std::vector<int *> memory(threads);
    std::vector<std::thread> workers;
    std::vector<std::vector<int>> got(threads, std::vector<int>(64));
    for (int t = 0; t < threads; t++)
        workers.emplace_back([&, t] {
            CHECK(cudaMalloc(&memory[t], 64 * sizeof(int)));
            CHECK(cudaMemset(memory[t], 0, 64 * sizeof(int)));
            count<<<1, 64>>>(memory[t], rounds * (t + 1));
            CHECK(cudaMemcpyAsync(got[t].data(), memory[t], 64 * sizeof(int), cudaMemcpyDeviceToHost, 0));
            CHECK(cudaStreamSynchronize(0));
        });
    for (auto &worker : workers)
        worker.join();
    for (int t = 0; t < threads; t++)
        for (int value : got[t])
            EXPECT(value == rounds * (t + 1));
    // The stream of a thread can be captured, which the legacy default stream cannot.
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(0, cudaStreamCaptureModeThreadLocal));
    count<<<1, 64>>>(memory[0], 3);
    CHECK(cudaStreamEndCapture(0, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphLaunch(ready, 0));
    CHECK(cudaMemcpy(got[0].data(), memory[0], 64 * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(got[0][5] == rounds + 3);
}
