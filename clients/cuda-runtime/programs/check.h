// What the programs share: a failed call or a wrong result ends a program with status 1.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                          \
    do {                                                                                     \
        cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess) {                                                         \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_));  \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

#define EXPECT(condition)                                              \
    do {                                                               \
        if (!(condition)) {                                            \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

// Device memory that is freed at the end of its block.
template <typename T> struct Device {
    T *data = nullptr;
    size_t count;
    explicit Device(size_t count) : count(count) { CHECK(cudaMalloc(&data, count * sizeof(T))); }
    explicit Device(const std::vector<T> &host) : Device(host.size()) {
        CHECK(cudaMemcpy(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Device() { cudaFree(data); }
    Device(const Device &) = delete;
    std::vector<T> host() const {
        std::vector<T> result(count);
        CHECK(cudaMemcpy(result.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return result;
    }
};
