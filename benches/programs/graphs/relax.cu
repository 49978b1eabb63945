// Distances in a graph of weighted edges from the nearest of many sources: rounds by Bellman-Ford.
// Pattern: a thread per edge, and for scattered atomic minima on integers.
#include "../program.h"

#include <algorithm>

const int VERTICES = 20000, EDGES = 160000, ROUNDS = 8;
const int FAR = 1 << 20;

struct Edge {
    int from, to, length;
};

static std::vector<Edge> random_edges() {
    Random random(10);
    std::vector<Edge> edges(EDGES);
    for (Edge &edge : edges) {
        edge = {int(random.below(VERTICES)), int(random.below(VERTICES)),
                1 + int(random.below(1000))};
    }
    return edges;
}

// Every 64th vertex is a source, others in each step.
BOTH inline int start_of(int v, int step) { return v % 64 == step % 64 ? 0 : FAR; }

#ifdef __CUDACC__

__global__ void start(int *distances, int step) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < VERTICES) distances[v] = start_of(v, step);
}

// `to` holds the same as `from` before.
__global__ void relax(const Edge *edges, const int *from, int *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= EDGES) return;
    Edge edge = edges[i];
    int distance = from[edge.from];
    if (distance < FAR) atomicMin(&to[edge.to], distance + edge.length);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<Edge> edges(random_edges());
    Device<int> a(VERTICES), b(VERTICES);
    int *from = a, *to = b;
    for (int i = 0; i < steps; i++) {
        start<<<(VERTICES + 255) / 256, 256>>>(from, i);
        for (int round = 0; round < ROUNDS; round++) {
            CUDA(cudaMemcpyAsync(to, from, VERTICES * sizeof(int), cudaMemcpyDeviceToDevice));
            relax<<<(EDGES + 255) / 256, 256>>>(edges, from, to);
            std::swap(from, to);
        }
    }
    report((from == a.at ? a : b).host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    // By the vertex that they lead to, so that threads need not share one.
    std::vector<Edge> edges = random_edges();
    std::sort(edges.begin(), edges.end(), [](const Edge &a, const Edge &b) { return a.to < b.to; });
    std::vector<int> offsets(VERTICES + 1);
    for (const Edge &edge : edges) offsets[edge.to + 1]++;
    for (int v = 0; v < VERTICES; v++) offsets[v + 1] += offsets[v];

    std::vector<int> from(VERTICES), to(VERTICES);
    for (int i = 0; i < steps; i++) {
        for (int v = 0; v < VERTICES; v++) from[v] = start_of(v, i);
        for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for
            for (int v = 0; v < VERTICES; v++) {
                int distance = from[v];
                for (int n = offsets[v]; n < offsets[v + 1]; n++) {
                    distance = std::min(distance, from[edges[n].from] + edges[n].length);
                }
                to[v] = distance;
            }
            std::swap(from, to);
        }
    }
    report(from);
}

#endif
