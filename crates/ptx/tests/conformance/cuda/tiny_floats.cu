// Floats of eight, six and four bits.
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

template <typename T>
__global__ void there_and_back(const float* in, T* out, __half* halves, float* floats) {
    float x = in[threadIdx.x];
    out[threadIdx.x] = T(x);
    out[threadIdx.x + 32] = T(halves[0]);
    out[threadIdx.x + 64] = T((double)x);
    halves[threadIdx.x] = __half(out[threadIdx.x]);
    floats[threadIdx.x] = float(out[threadIdx.x]);
}
template __global__ void there_and_back<__nv_fp8_e4m3>(const float*, __nv_fp8_e4m3*, __half*, float*);
template __global__ void there_and_back<__nv_fp8_e5m2>(const float*, __nv_fp8_e5m2*, __half*, float*);
template __global__ void there_and_back<__nv_fp6_e2m3>(const float*, __nv_fp6_e2m3*, __half*, float*);
template __global__ void there_and_back<__nv_fp6_e3m2>(const float*, __nv_fp6_e3m2*, __half*, float*);
template __global__ void there_and_back<__nv_fp4_e2m1>(const float*, __nv_fp4_e2m1*, __half*, float*);

__global__ void packed(const float2* in, const __half2* halves, const __nv_bfloat162* b, unsigned short* out, unsigned* wide) {
    out[0] = __nv_cvt_float2_to_fp8x2(in[0], __NV_SATFINITE, __NV_E4M3);
    out[1] = __nv_cvt_halfraw2_to_fp8x2(halves[0], __NV_NOSAT, __NV_E5M2);
    out[2] = __nv_cvt_bfloat16raw2_to_fp8x2(b[0], __NV_SATFINITE, __NV_E4M3);
    out[3] = __nv_cvt_float2_to_fp4x2(in[1], __NV_E2M1, cudaRoundNearest);
    out[4] = __nv_cvt_float2_to_fp6x2(in[2], __NV_E3M2, cudaRoundNearest);
    out[5] = __nv_cvt_float2_to_e8m0x2(in[3], __NV_SATFINITE, cudaRoundPosInf);
    out[6] = __nv_cvt_float_to_fp8(in[0].x, __NV_SATFINITE, __NV_E5M2);
    __half2_raw back = __nv_cvt_fp8x2_to_halfraw2(out[7], __NV_E4M3);
    wide[0] = back.x + back.y;
    __half2_raw four = __nv_cvt_fp4x2_to_halfraw2(out[8], __NV_E2M1);
    wide[1] = four.x;
    __nv_fp8x4_e4m3 quad(make_float4(in[0].x, in[0].y, in[1].x, in[1].y));
    wide[2] = quad.__x;
    __nv_fp4x4_e2m1 nibbles(make_float4(in[0].x, in[0].y, in[1].x, in[1].y));
    out[9] = nibbles.__x;
}
