// bfloat16, alone and in pairs.
#include <cuda_bf16.h>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__global__ void scalar(const __nv_bfloat16* a, __nv_bfloat16* out, int n) {
    __nv_bfloat16 x = a[0], y = a[1], z = a[2];
    out[0] = x + y * z - x / y;
    out[1] = __hfma(x, y, z) + __hfma_relu(x, y, z) + __hfma_sat(x, y, z);
    out[2] = __hmin(x, y) + __hmax_nan(y, z) + __habs(x);
    out[3] = hsqrt(x) + hrcp(z) + hsin(x) + hexp(z) + hlog2(x) + htanh(y);
    out[4] = __hlt(x, y) || __hgeu(y, z) ? x : y;
    out[5] = __int2bfloat16_rn(n) + __float2bfloat16_rz(1.5f) + __double2bfloat16(2.5);
    out[6] = (float)__bfloat162int_rn(x) + __bfloat162float(y);
    atomicAdd(out + 10, x);
}
__global__ void pairs(const __nv_bfloat162* a, __nv_bfloat162* out, float2* wide) {
    __nv_bfloat162 x = a[0], y = a[1], z = a[2];
    out[0] = x + y * z - __h2div(x, y);
    out[1] = __hfma2(x, y, z) + __hfma2_relu(x, y, z);
    out[2] = __hmax2(x, y) + __hmin2_nan(y, z) + __habs2(x) + h2exp2(y) + h2tanh(z);
    out[3] = __heq2(x, y) + __hleu2(y, z);
    wide[0] = __bfloat1622float2(x);
    out[4] = __float22bfloat162_rn(wide[1]) + __floats2bfloat162_rn(wide[2].x, wide[2].y);
    atomicAdd(out + 7, x);
}
#endif
