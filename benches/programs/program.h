// Shared by all programs. A program is one file with two versions: nvcc compiles the CUDA one
// (`__CUDACC__` is defined), g++ the OpenMP one.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __CUDACC__
#define BOTH __host__ __device__
#else
#define BOTH
#endif

// The number of steps: the program's argument.
inline int steps_of(int argc, char **argv) {
    int steps = argc == 2 ? std::atoi(argv[1]) : 0;
    if (steps < 1) {
        std::fprintf(stderr, "usage: %s STEPS\n", argv[0]);
        std::exit(2);
    }
    return steps;
}

// The same numbers in both versions (SplitMix64).
struct Random {
    uint64_t state;

    explicit Random(uint64_t seed) : state(seed) {}

    uint64_t next() {
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    uint32_t below(uint32_t limit) { return uint32_t(next() % limit); }

    // From 0 to 1.
    float uniform() { return float(next() >> 40) / float(1 << 24); }
};

inline std::vector<float> random_floats(size_t count, uint64_t seed) {
    Random random(seed);
    std::vector<float> values(count);
    for (float &value : values) value = random.uniform();
    return values;
}

// Prints what the bench compares. Integers: a digest, which must be equal. Floats: the sum of absolute
// values and the sum weighted by position, which must be close.
template <typename T>
void report(const std::vector<T> &values) {
    if constexpr (std::is_integral_v<T>) {
        uint64_t digest = 0;
        for (T value : values) {
            digest = (digest ^ digest >> 32 ^ uint64_t(value)) * 0x9e3779b97f4a7c15;
        }
        std::printf("digest %016llx\n", (unsigned long long)digest);
    } else {
        double sum = 0, weighted = 0;
        for (size_t i = 0; i < values.size(); i++) {
            double value = double(values[i]);
            sum += std::fabs(value);
            weighted += value * double(i % 1009 + 1);
        }
        std::printf("sums %.9g %.9g\n", sum, weighted);
    }
}

#ifdef __CUDACC__

#define CUDA(call)                                                                         \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            std::exit(1);                                                                  \
        }                                                                                  \
    } while (0)

// Values in device memory.
template <typename T>
struct Device {
    T *at = nullptr;
    size_t count;

    // Filled with zeros.
    explicit Device(size_t count) : count(count) {
        CUDA(cudaMalloc(&at, count * sizeof(T)));
        CUDA(cudaMemset(at, 0, count * sizeof(T)));
    }

    explicit Device(const std::vector<T> &values) : count(values.size()) {
        CUDA(cudaMalloc(&at, count * sizeof(T)));
        CUDA(cudaMemcpy(at, values.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }

    Device(const Device &) = delete;
    ~Device() { cudaFree(at); }

    operator T *() const { return at; }

    std::vector<T> host() const {
        std::vector<T> values(count);
        CUDA(cudaGetLastError());
        CUDA(cudaMemcpy(values.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }
};

#endif
