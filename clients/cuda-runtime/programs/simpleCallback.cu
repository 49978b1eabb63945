// Functions of the host in stream order, from streams that several threads fill.
#include "check.h"
#include <atomic>
#include <thread>

__global__ void increment(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i]++;
}

struct Job {
    int *host, n;
    std::atomic<int> seen{0};
};

static void CUDART_CB after(cudaStream_t, cudaError_t status, void *data) {
    Job *job = (Job *)data;
    if (status == cudaSuccess && job->host[job->n - 1] == job->n)
        job->seen += 1;
}

static void CUDART_CB finish(void *data) { ((Job *)data)->seen += 10; }

int main() {
    const int threads = 4, n = 1000;
    Job jobs[threads];
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; t++)
        workers.emplace_back([&jobs, t] {
            Job &job = jobs[t];
            int *device;
            cudaStream_t stream;
            CHECK(cudaStreamCreate(&stream));
            CHECK(cudaMallocHost(&job.host, n * sizeof(int)));
            CHECK(cudaMalloc(&device, n * sizeof(int)));
            job.n = n;
            for (int i = 0; i < n; i++)
                job.host[i] = i;
            CHECK(cudaMemcpyAsync(device, job.host, n * sizeof(int), cudaMemcpyHostToDevice, stream));
            increment<<<(n + 63) / 64, 64, 0, stream>>>(device, n);
            CHECK(cudaMemcpyAsync(job.host, device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
            CHECK(cudaStreamAddCallback(stream, after, &job, 0));
            CHECK(cudaLaunchHostFunc(stream, finish, &job));
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaStreamDestroy(stream));
        });
    for (auto &worker : workers)
        worker.join();
    for (Job &job : jobs) {
        EXPECT(job.seen == 11);
        for (int i = 0; i < n; i++)
            EXPECT(job.host[i] == i + 1);
    }
}
