// Small kernels with loops, shared memory, atomics and mathematics, as programs
// have many of: `benches/front_end.rs` makes a module of megabytes of them.

template <int Bins>
__device__ void histogram(float* out, const float* in, int* counts, int n, float a, float b) {
    __shared__ float tile[256];
    __shared__ int bins[Bins];
    int thread = threadIdx.x;
    if (thread < Bins) bins[thread] = 0;
    __syncthreads();
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + thread; i < n; i += gridDim.x * blockDim.x) {
        float x = in[i];
        sum += sinf(x * a) * expf(-x * b);
        atomicAdd(&bins[int(x * Bins) & (Bins - 1)], 1);
    }
    tile[thread] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (thread < half) tile[thread] += tile[thread + half];
        __syncthreads();
    }
    if (thread < Bins) atomicAdd(&counts[thread], bins[thread]);
    if (thread == 0) out[blockIdx.x] = tile[0];
}

__global__ void histogram_32(float* out, const float* in, int* counts, int n, float a, float b) {
    histogram<32>(out, in, counts, n, a, b);
}

__global__ void histogram_128(float* out, const float* in, int* counts, int n, float a, float b) {
    histogram<128>(out, in, counts, n, a, b);
}

__global__ void smooth(float* out, const float* in, int width, int height, float sigma) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0, weights = 0;
    for (int dy = -3; dy <= 3; ++dy) {
        for (int dx = -3; dx <= 3; ++dx) {
            int from_x = min(max(x + dx, 0), width - 1), from_y = min(max(y + dy, 0), height - 1);
            float weight = expf(-(dx * dx + dy * dy) / (2 * sigma * sigma));
            sum += weight * in[from_y * width + from_x];
            weights += weight;
        }
    }
    out[y * width + x] = sum / weights;
}

__global__ void multiply(float* c, const float* a, const float* b, int n) {
    __shared__ float left[16][17], right[16][17];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int tile = 0; tile < n; tile += 16) {
        left[y][x] = row < n && tile + x < n ? a[row * n + tile + x] : 0.f;
        right[y][x] = column < n && tile + y < n ? b[(tile + y) * n + column] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
