// What stands in another translation unit: to be built with -rdc=true.
extern __device__ int elsewhere;
extern __constant__ float outer[16];
extern __device__ int outside(int, float);
__device__ int here = 3;
__device__ int* address = &elsewhere;
__device__ int exported(int x) { return x * here; }
__device__ __attribute__((weak)) int replaceable(int x) { return x + 1; }
static __device__ __noinline__ int hidden(int x) { return outside(x, outer[x]); }
namespace deep { namespace names { template <typename T> struct S { __device__ static T f(T x) { return x * 2; } }; } }
extern __shared__ double tile[];
__global__ void kernel(int* out) {
    tile[threadIdx.x] = elsewhere;
    out[0] = exported(1) + replaceable(2) + hidden(3) + *address + deep::names::S<long>::f(4) + outside(5, tile[0]);
}
