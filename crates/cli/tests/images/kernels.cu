// Kernels that take something of everything, for the fixtures.
struct Point {
    float place[3];
    int weight;
    char kind;
};
struct Large {
    char bytes[8000];
};
__constant__ float table[16];
__device__ int counter;
__device__ int limit = 7;

__global__ void __launch_bounds__(256, 2) shared_sum(float *values, Point point, int n) {
    __shared__ float sums[64];
    sums[threadIdx.x % 64] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = sums[(threadIdx.x + 1) % 64] * point.place[1] + table[n % 16];
}

__global__ void on_the_stack(long long *values, char step) {
    int many[100];
    for (int i = 0; i < 100; i++)
        many[i] = (int)values[i] * step;
    int sum = 0;
    for (int i = 0; i < 100; i++)
        sum += many[(unsigned)(i * values[3]) % 100];
    values[0] = sum;
    if (atomicAdd(&counter, 1) > limit)
        values[1] = 0;
}

__global__ void large(Large large, int index, char *out) { *out = large.bytes[index]; }

template <class T> __global__ void copy(T value, T *out) { *out = value; }
template __global__ void copy<double>(double, double *);
template __global__ void copy<short>(short, short *);
