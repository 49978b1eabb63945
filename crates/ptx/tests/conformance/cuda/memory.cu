// State spaces, qualifiers, parameters and launch bounds.
__constant__ float weights[4][4] = {{1, 2, 3, 4}, {0.5f, -0.25f, 1e-30f, 1e30f}};
__constant__ unsigned char small[5] = {1, 2, 3, 4, 255};
__managed__ int managed_counter = 5;
__device__ char flag_bytes[4];
__device__ double table[3] = {1.0, -2.5, 3e300};
__device__ struct { int a; float b; char c; double d; void* other; } record = {1, 2.0f, 'c', 4.0, &table[1]};
static __device__ unsigned char* pointer = (unsigned char*)&flag_bytes[2];
__device__ volatile int flag;
__device__ __align__(256) char aligned[512];
extern __shared__ char dynamic[];

struct Options { int size[16]; double scale; const float* data[8]; };
struct Huge { int values[2000]; };

__global__ void __launch_bounds__(256, 2) bounded(const float* __restrict__ in, float* out) {
    out[threadIdx.x] = in[threadIdx.x] * weights[threadIdx.x & 3][1] + small[threadIdx.x % 5];
}
__global__ void __maxnreg__(64) wide(int* out) { out[threadIdx.x] = managed_counter; }
__global__ void by_value(Options options, char c, short s, long long l, bool b, float3 f, double2 d) {
    const float* p = options.data[options.size[c]];
    p == nullptr ? void() : void(const_cast<float*>(p)[s] = f.x + d.y + l + b);
}
__global__ void constant_parameter(const __grid_constant__ Options options, int* out) {
    const Options* at = &options;
    out[0] = at->size[out[1]];
}
__global__ void huge(const __grid_constant__ Huge huge, int* out) { *out = huge.values[*out]; }

__global__ void spaces(volatile int* v, int n) {
    __shared__ volatile float tile[33][4];
    __shared__ __align__(128) unsigned long long words[8];
    int local[64];
    for (int i = 0; i < 64; ++i) local[i] = v[i];
    tile[n][0] = local[n];
    words[n & 7] = clock64();
    flag = 1;
    while (flag) {}
    dynamic[n] = tile[3][n & 3];
    double* more = reinterpret_cast<double*>(dynamic + 1024);
    more[0] = words[n & 3] + table[n % 3] + record.b + *pointer + aligned[n];
    v[0] = __isGlobal(more) + __isShared(more) + __isLocal(local) + __isConstant(weights);
    v[1] = __cvta_generic_to_shared(words);
}

__global__ void cached(const int4* in, int4* out, const double* d) {
    int4 a = __ldg(in), b = __ldcg(in + 1), c = __ldca(in + 2), e = __ldcs(in + 3), f = __ldlu(in + 4), g = __ldcv(in + 5);
    a.x += b.x + c.y + e.z + f.w + g.x + __ldg(d);
    __stwb(out, a), __stcg(out + 1, b), __stcs(out + 2, c), __stwt(out + 3, e);
}

struct Packed { char a; } ;
template <typename T> __global__ void vectors(const T* in, T* out) { out[threadIdx.x] = in[threadIdx.x]; }
template __global__ void vectors<uchar2>(const uchar2*, uchar2*);
template __global__ void vectors<char4>(const char4*, char4*);
template __global__ void vectors<ushort4>(const ushort4*, ushort4*);
template __global__ void vectors<longlong2>(const longlong2*, longlong2*);
template __global__ void vectors<double2>(const double2*, double2*);
template __global__ void vectors<__int128>(const __int128*, __int128*);
template __global__ void vectors<bool>(const bool*, bool*);
#if __CUDACC_VER_MAJOR__ >= 13
template __global__ void vectors<double4_32a>(const double4_32a*, double4_32a*);
#endif
