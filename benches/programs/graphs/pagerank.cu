// The ranks of the pages of a web with few popular pages (PageRank), a round per step.
// Pattern: a thread per vertex that gathers over its edges: loops of very uneven length.
#include "../program.h"

#include <algorithm>

const int PAGES = 40000;
const float DAMPING = 0.85f;

// The links to page `v` come from `sources[offsets[v]]` and on, to `offsets[v + 1]`.
struct Web {
    std::vector<int> offsets, sources;
    // What a page gives of its rank to each that it links to.
    std::vector<float> shares;

    Web() : offsets(1), shares(PAGES) {
        Random random(11);
        std::vector<int> links(PAGES);
        for (int v = 0; v < PAGES; v++) {
            int count = v % 53 == 0 ? 50 + random.below(250) : random.below(12);
            for (; count > 0; count--) {
                int source = std::min(random.below(PAGES), random.below(PAGES));
                sources.push_back(source);
                links[source]++;
            }
            offsets.push_back(sources.size());
        }
        for (int v = 0; v < PAGES; v++) shares[v] = links[v] ? DAMPING / links[v] : 0;
    }
};

#ifdef __CUDACC__

__global__ void step(const int *offsets, const int *sources, const float *shares,
                     const float *from, float *to) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= PAGES) return;
    float rank = 1 - DAMPING;
    for (int link = offsets[v]; link < offsets[v + 1]; link++) {
        int source = sources[link];
        rank += shares[source] * from[source];
    }
    to[v] = rank;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Web web;
    Device<int> offsets(web.offsets), sources(web.sources);
    Device<float> shares(web.shares), a(random_floats(PAGES, 12)), b(PAGES);
    float *from = a, *to = b;
    for (int i = 0; i < steps; i++) {
        step<<<(PAGES + 127) / 128, 128>>>(offsets, sources, shares, from, to);
        std::swap(from, to);
    }
    report((from == a.at ? a : b).host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Web web;
    std::vector<float> from = random_floats(PAGES, 12), to(PAGES);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for schedule(static, 512)
        for (int v = 0; v < PAGES; v++) {
            float rank = 1 - DAMPING;
            for (int link = web.offsets[v]; link < web.offsets[v + 1]; link++) {
                int source = web.sources[link];
                rank += web.shares[source] * from[source];
            }
            to[v] = rank;
        }
        std::swap(from, to);
    }
    report(from);
}

#endif
