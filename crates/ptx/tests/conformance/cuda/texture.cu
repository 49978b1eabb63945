// Texture objects: every shape, filter and kind of coordinate.
template <typename T>
__global__ void fetch(cudaTextureObject_t t, T* out, float x, float y, float z, int layer) {
    T sum[] = {
        tex1Dfetch<T>(t, layer), tex1D<T>(t, x), tex2D<T>(t, x, y), tex3D<T>(t, x, y, z),
        tex1DLod<T>(t, x, z), tex2DLod<T>(t, x, y, z), tex3DLod<T>(t, x, y, z, 1.0f),
        tex1DGrad<T>(t, x, y, z), tex2DGrad<T>(t, x, y, make_float2(x, y), make_float2(y, z)),
        tex3DGrad<T>(t, x, y, z, make_float4(x, y, z, 0), make_float4(z, y, x, 0)),
        tex1DLayered<T>(t, x, layer), tex2DLayered<T>(t, x, y, layer),
        tex1DLayeredLod<T>(t, x, layer, z), tex2DLayeredLod<T>(t, x, y, layer, z),
        texCubemap<T>(t, x, y, z), texCubemapLod<T>(t, x, y, z, 2.0f),
        texCubemapLayered<T>(t, x, y, z, layer), texCubemapLayeredLod<T>(t, x, y, z, layer, 0.5f),
    };
    for (int i = 0; i < sizeof(sum) / sizeof(T); ++i) out[i] = sum[i];
}
template __global__ void fetch<float>(cudaTextureObject_t, float*, float, float, float, int);
template __global__ void fetch<uchar4>(cudaTextureObject_t, uchar4*, float, float, float, int);
template __global__ void fetch<int2>(cudaTextureObject_t, int2*, float, float, float, int);

__global__ void gather(cudaTextureObject_t t, float4* out, uint4* bits, float x, float y) {
    out[0] = tex2Dgather<float4>(t, x, y, 0);
    out[1] = tex2Dgather<float4>(t, x, y, 3);
    bits[0] = tex2Dgather<uint4>(t, x, y, 1);
    bool resident;
    out[2] = tex2D<float4>(t, x, y, &resident);
    if (!resident) out[2] = tex2DLod<float4>(t, x, y, 3.0f, &resident);
    out[3] = tex3D<float4>(t, x, y, x, &resident);
    out[4].x = resident;
}
