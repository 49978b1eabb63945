// Properties of the device: they agree with the attributes, and a kernel sees the same.
#include "check.h"

__global__ void see(int *seen) {
    seen[0] = warpSize;
    seen[1] = gridDim.x * blockDim.x;
}

int main() {
    int count = 0, runtime = 0, driver = 0, device = -1;
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    EXPECT(runtime >= 13000 && driver >= 13000);
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);
    cudaDeviceProp p;
    for (int d = 0; d < count; d++) {
        CHECK(cudaGetDeviceProperties(&p, d));
        int value = 0;
        struct { cudaDeviceAttr attribute; int property; } same[] = {
            {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
            {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
            {cudaDevAttrComputeCapabilityMajor, p.major},
            {cudaDevAttrComputeCapabilityMinor, p.minor},
            {cudaDevAttrMaxTexture2DWidth, p.maxTexture2D[0]},
            {cudaDevAttrMaxTexture3DDepth, p.maxTexture3D[2]},
            {cudaDevAttrMaxSurface2DHeight, p.maxSurface2D[1]},
            {cudaDevAttrPciBusId, p.pciBusID},
            {cudaDevAttrL2CacheSize, p.l2CacheSize},
            {cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
            {cudaDevAttrMaxRegistersPerMultiprocessor, p.regsPerMultiprocessor},
            {cudaDevAttrManagedMemory, p.managedMemory},
            {cudaDevAttrCooperativeLaunch, p.cooperativeLaunch},
            {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin},
            {cudaDevAttrMaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor},
            {cudaDevAttrReservedSharedMemoryPerBlock, (int)p.reservedSharedMemPerBlock},
            {cudaDevAttrHostRegisterSupported, p.hostRegisterSupported},
            {cudaDevAttrMemoryPoolsSupported, p.memoryPoolsSupported},
            {cudaDevAttrClusterLaunch, p.clusterLaunch},
            {cudaDevAttrIpcEventSupport, p.ipcEventSupported},
        };
        for (auto &row : same) {
            CHECK(cudaDeviceGetAttribute(&value, row.attribute, d));
            EXPECT(value == row.property);
        }
        EXPECT(p.name[0] && p.warpSize == 32 && p.major >= 8 && p.multiProcessorCount >= 1);
        char address[32];
        CHECK(cudaDeviceGetPCIBusId(address, sizeof address, d));
        CHECK(cudaDeviceGetByPCIBusId(&device, address));
        EXPECT(device == d);
        CHECK(cudaSetDevice(d));
        size_t free, total;
        CHECK(cudaMemGetInfo(&free, &total));
        EXPECT(free <= total && total == p.totalGlobalMem);
        Device<int> seen(2);
        see<<<3, 64>>>(seen.data);
        EXPECT(seen.host()[0] == 32 && seen.host()[1] == 192);
    }
}
