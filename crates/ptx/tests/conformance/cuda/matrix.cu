// Plain numerical kernels: tiled products, stencils, a transform, many bodies.
template <typename T, int tile>
__global__ void multiply(const T* __restrict__ a, const T* __restrict__ b, T* c, int n) {
    __shared__ T left[tile][tile + 1], right[tile][tile + 1];
    int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
    T sum = 0;
    for (int k = 0; k < n; k += tile) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < tile; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
template __global__ void multiply<float, 16>(const float*, const float*, float*, int);
template __global__ void multiply<double, 8>(const double*, const double*, double*, int);
template __global__ void multiply<int, 32>(const int*, const int*, int*, int);

__global__ void stencil(const float* in, float* out, int width, int height, size_t pitch) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= width - 1 || y >= height - 1) return;
    auto at = [&](int dx, int dy) { return in[(y + dy) * pitch + x + dx]; };
    out[y * pitch + x] = 0.25f * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)) - at(0, 0);
}

__global__ void bodies(const float4* position, float4* velocity, int n, float step) {
    extern __shared__ float4 cache[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 mine = position[i];
    float3 pull = make_float3(0, 0, 0);
    for (int base = 0; base < n; base += blockDim.x) {
        cache[threadIdx.x] = position[base + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < blockDim.x; ++j) {
            float dx = cache[j].x - mine.x, dy = cache[j].y - mine.y, dz = cache[j].z - mine.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-9f);
            float force = cache[j].w * inverse * inverse * inverse;
            pull.x += dx * force, pull.y += dy * force, pull.z += dz * force;
        }
        __syncthreads();
    }
    velocity[i].x += pull.x * step, velocity[i].y += pull.y * step, velocity[i].z += pull.z * step;
}

__global__ void transform(float2* data, int bits) {
    int n = 1 << bits;
    for (int half = 1; half < n; half *= 2) {
        for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
            int k = i & (half - 1), at = 2 * (i - k) + k;
            float s, c;
            __sincosf(-3.14159265f * k / half, &s, &c);
            float2 a = data[at], b = data[at + half];
            float2 t = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
            data[at] = make_float2(a.x + t.x, a.y + t.y);
            data[at + half] = make_float2(a.x - t.x, a.y - t.y);
        }
        __syncthreads();
    }
}
