// Half precision, alone and in pairs.
#include <cuda_fp16.h>

__global__ void scalar(const __half* a, __half* out, int n) {
    __half x = a[0], y = a[1], z = a[2];
    out[0] = x + y * z - x / y;
    out[1] = __hfma(x, y, z) + __hfma_sat(x, y, z) + __hfma_relu(x, y, z) + __hadd_sat(x, y) + __hmul_rn(x, y);
    out[2] = __hmin(x, y) + __hmax(y, z) + __habs(x) + __hneg(y) + __hmin_nan(x, y);
    out[3] = hsqrt(x) + hrsqrt(y) + hrcp(z) + hsin(x) + hcos(y) + hexp(z) + hlog2(x) + htanh(y) + htanh_approx(z);
    out[4] = hfloor(x) + hceil(y) + htrunc(z) + hrint(x);
    out[5] = __hlt(x, y) || __hgeu(y, z) || __hisnan(x) ? x : y;
    out[6] = __int2half_rn(n) + __uint2half_rz(n) + __short2half_ru(n) + __float2half(1.5f) + __double2half(2.5);
    out[7] = __half2int_rn(x) + __half2uint_rz(y) + __half2short_rd(z) + __half2ll_ru(x) + (int)__half2float(x);
    out[8] = __ushort_as_half(__half_as_ushort(x) & 0x7FFF);
    out[9] = __shfl_xor_sync(~0u, x, 3);
    atomicAdd(out + 10, x);
    out[11] = __ldg(a + 5);
}
__global__ void pairs(const __half2* a, __half2* out, unsigned* mask) {
    __half2 x = a[0], y = a[1], z = a[2];
    out[0] = x + y * z - __h2div(x, y);
    out[1] = __hfma2(x, y, z);
    out[2] = __hfma2_relu(x, y, z);
    out[3] = __hmax2(x, y) + __hmin2_nan(y, z) + __habs2(x) + h2exp2(y) + h2tanh(z) + h2sqrt(x);
    out[4] = __heq2(x, y) + __hleu2(y, z) + __hne2(x, z);
    mask[0] = __hgt2_mask(x, y) ^ __hltu2_mask(y, z);
    out[5] = __floats2half2_rn(1.0f, 2.0f) + __lowhigh2highlow(x) + __lows2half2(x, y) + __half2half2(x.x);
    out[6] = __hcmadd(x, y, z);
    atomicAdd(out + 7, x);
    if (__hbeq2(x, y)) out[8] = __shfl_down_sync(~0u, z, 1);
}
