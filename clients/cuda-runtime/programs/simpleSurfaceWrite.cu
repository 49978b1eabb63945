// A kernel writes an array through a surface, and another reads it through a texture.
#include "check.h"

__global__ void write(cudaSurfaceObject_t surface) {
    uchar4 value = make_uchar4(threadIdx.x, blockIdx.x, threadIdx.x + blockIdx.x, 255);
    surf2Dwrite(value, surface, threadIdx.x * 4, blockIdx.x);
}

__global__ void read(cudaTextureObject_t texture, float4 *out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = tex2D<float4>(texture, threadIdx.x, blockIdx.x);
}

int main() {
    const int n = 32;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, n, n, cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    write<<<n, n>>>(surface);
    cudaTextureDesc how = {};
    how.readMode = cudaReadModeNormalizedFloat;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    Device<float4> out(n * n);
    read<<<n, n>>>(texture, out.data);
    CHECK(cudaGetLastError());
    std::vector<float4> got = out.host();
    for (int i = 0; i < n * n; i++) {
        int x = i % n, y = i / n;
        EXPECT(got[i].x == x / 255.0f && got[i].y == y / 255.0f && got[i].z == (x + y) / 255.0f && got[i].w == 1);
    }
    std::vector<uchar4> raw(n * n);
    CHECK(cudaMemcpy2DFromArray(raw.data(), n * 4, array, 0, 0, n * 4, n, cudaMemcpyDeviceToHost));
    EXPECT(raw[5 * n + 7].x == 7 && raw[5 * n + 7].y == 5 && raw[5 * n + 7].w == 255);
    // Bytes in the order of the rows: the end of one, whole ones, the start of another.
    std::vector<unsigned char> bytes(100 + 2 * n * 4 + 20), back(bytes.size());
    for (size_t i = 0; i < bytes.size(); i++)
        bytes[i] = i % 199;
    CHECK(cudaMemcpyToArray(array, n * 4 - 100, 3, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyFromArray(back.data(), array, n * 4 - 100, 3, back.size(), cudaMemcpyDeviceToHost));
    EXPECT(back == bytes);
    CHECK(cudaMemcpy2DFromArray(raw.data(), n * 4, array, 0, 0, n * 4, n, cudaMemcpyDeviceToHost));
    EXPECT(raw[4 * n].x == 100 && raw[6 * n + 4].w == (356 + 19) % 199 && raw[6 * n + 5].x == 5);
    CHECK(cudaDestroySurfaceObject(surface));
}
