// Surface objects: every shape, width and way to treat what lies outside.
template <typename T>
__global__ void copy(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int x, int y, int z) {
    surf1Dwrite(surf1Dread<T>(from, x), to, x, cudaBoundaryModeClamp);
    surf2Dwrite(surf2Dread<T>(from, x, y, cudaBoundaryModeZero), to, x, y, cudaBoundaryModeZero);
    surf3Dwrite(surf3Dread<T>(from, x, y, z), to, x, y, z);
    surf1DLayeredwrite(surf1DLayeredread<T>(from, x, z), to, x, z);
    surf2DLayeredwrite(surf2DLayeredread<T>(from, x, y, z), to, x, y, z, cudaBoundaryModeTrap);
    surfCubemapwrite(surfCubemapread<T>(from, x, y, 2), to, x, y, 3);
    surfCubemapLayeredwrite(surfCubemapLayeredread<T>(from, x, y, z), to, x, y, z);
}
template __global__ void copy<unsigned char>(cudaSurfaceObject_t, cudaSurfaceObject_t, int, int, int);
template __global__ void copy<short2>(cudaSurfaceObject_t, cudaSurfaceObject_t, int, int, int);
template __global__ void copy<float4>(cudaSurfaceObject_t, cudaSurfaceObject_t, int, int, int);
template __global__ void copy<long long>(cudaSurfaceObject_t, cudaSurfaceObject_t, int, int, int);
