// Kernels that launch kernels: to be built with -rdc=true.
__global__ void child(int* data, int depth);
__global__ void parent(int* data, int depth) {
    data[depth] = 1;
    if (depth < 4) {
        parent<<<1, 1, 0, cudaStreamTailLaunch>>>(data, depth + 1);
        child<<<dim3(2, 2), 32, 128, cudaStreamFireAndForget>>>(data, depth);
    }
}
__global__ void child(int* data, int depth) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = data[depth];
    __syncthreads();
    data[threadIdx.x + 10] = tile[31 - threadIdx.x];
}
