// A volume, read with linear filtering; rows, slices and volumes are copied and filled.
#include "check.h"
#include <cmath>

__global__ void sample(cudaTextureObject_t texture, float *out, int n) {
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    out[(z * n + y) * n + x] = tex3D<float>(texture, (x + 0.75f) / n, (y + 0.5f) / n, (z + 0.5f) / n);
}

int main() {
    const int n = 8;
    std::vector<unsigned char> volume(n * n * n);
    for (size_t i = 0; i < volume.size(); i++)
        volume[i] = i % 256;
    cudaExtent extent = make_cudaExtent(n, n, n);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &format, extent));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(volume.data(), n, n, n);
    copy.dstArray = array;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.normalizedCoords = 1;
    how.filterMode = cudaFilterModeLinear;
    how.readMode = cudaReadModeNormalizedFloat;
    how.addressMode[0] = how.addressMode[1] = how.addressMode[2] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    Device<float> out(n * n * n);
    sample<<<n, dim3(n, n)>>>(texture, out.data, n);
    CHECK(cudaGetLastError());
    std::vector<float> got = out.host();
    for (int i = 0; i < n * n * n; i++) {
        int next = i % n + 1 < n ? i + 1 : i;
        EXPECT(std::fabs(got[i] - (0.75f * volume[i] + 0.25f * volume[next]) / 255) < 1e-3f);
    }
    cudaPitchedPtr linear;
    CHECK(cudaMalloc3D(&linear, make_cudaExtent(n, n, n)));
    CHECK(cudaMemset3D(linear, 0x11, extent));
    cudaMemcpy3DParms part = {};
    part.srcArray = array, part.srcPos = make_cudaPos(2, 1, 3);
    part.dstPtr = linear, part.dstPos = make_cudaPos(1, 0, 4);
    part.extent = make_cudaExtent(3, 2, 2);
    part.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3D(&part));
    cudaMemcpy3DParms back = {};
    std::vector<unsigned char> all(n * n * n);
    back.srcPtr = linear, back.dstPtr = make_cudaPitchedPtr(all.data(), n, n, n);
    back.extent = extent;
    back.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&back));
    for (int z = 0; z < n; z++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                bool copied = x >= 1 && x < 4 && y < 2 && z >= 4 && z < 6;
                int from = ((z - 1) * n + y + 1) * n + x + 1;
                EXPECT(all[(z * n + y) * n + x] == (copied ? volume[from] : 0x11));
            }
}
