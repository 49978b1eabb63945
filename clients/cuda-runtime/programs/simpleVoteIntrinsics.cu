// Votes, matches and shuffles of a warp.
#include "check.h"

__global__ void votes(const int *in, unsigned *out) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, value = in[threadIdx.x];
    unsigned any = __any_sync(~0u, value == 3), all = __all_sync(~0u, value < 4);
    unsigned ballot = __ballot_sync(~0u, value & 1), match = __match_any_sync(~0u, value);
    int rotated = __shfl_sync(~0u, value, (lane + 1) % 32);
    unsigned sum = __reduce_add_sync(~0u, (unsigned)value);
    if (lane == 5) {
        unsigned *w = out + warp * 6;
        w[0] = any, w[1] = all, w[2] = ballot, w[3] = match, w[4] = rotated, w[5] = sum;
    }
}

int main() {
    const int warps = 3;
    std::vector<int> host(warps * 32);
    for (int i = 0; i < warps * 32; i++)
        host[i] = (i * (i / 32 + 1)) % 5 - (i / 32 == 1 ? 1 : 0);
    Device<int> in(host);
    Device<unsigned> out(warps * 6);
    votes<<<1, warps * 32>>>(in.data, out.data);
    CHECK(cudaGetLastError());
    std::vector<unsigned> got = out.host();
    for (int w = 0; w < warps; w++) {
        unsigned any = 0, all = 1, ballot = 0, match = 0, sum = 0;
        const int *v = &host[w * 32];
        for (int l = 0; l < 32; l++) {
            any |= v[l] == 3, all &= v[l] < 4, sum += v[l];
            ballot |= (unsigned)(v[l] & 1) << l, match |= (unsigned)(v[l] == v[5]) << l;
        }
        const unsigned *g = &got[w * 6];
        EXPECT((g[0] != 0) == any && (g[1] != 0) == all && g[2] == ballot && g[3] == match);
        EXPECT((int)g[4] == v[6] && g[5] == sum);
    }
}
