// The number of hops from a vertex to all others of a random graph: a search level by level.
// Pattern: masks per vertex, loops of uneven length, and a flag that the host reads each level.
#include "../program.h"

#include <atomic>

const int VERTICES = 30000, REACH = 1000;

// The edges of vertex `v` lead to `targets[offsets[v]]` and on, to `offsets[v + 1]`.
struct Graph {
    std::vector<int> offsets, targets;

    Graph() : offsets(1) {
        Random random(9);
        for (int v = 0; v < VERTICES; v++) {
            for (int edges = 2 + random.below(12); edges > 0; edges--) {
                int hop = random.below(2 * REACH + 1) - REACH;
                targets.push_back((v + hop + VERTICES) % VERTICES);
            }
            offsets.push_back(targets.size());
        }
    }
};

static int source_of(int step) { return step % 1000 * 29 + 17; }

#ifdef __CUDACC__

// Several threads may reach a vertex. All store the same, and volatile, so none of it is a race.
__global__ void expand(const int *offsets, const int *targets, uint8_t *active, const int *hops,
                       volatile uint8_t *reached) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= VERTICES || !active[v]) return;
    active[v] = 0;
    for (int edge = offsets[v]; edge < offsets[v + 1]; edge++) {
        int target = targets[edge];
        if (hops[target] < 0) reached[target] = 1;
    }
}

__global__ void settle(uint8_t *active, int *hops, uint8_t *reached, int level,
                       volatile int *changed) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= VERTICES || !reached[v]) return;
    reached[v] = 0;
    active[v] = 1;
    hops[v] = level;
    *changed = 1;
}

__global__ void start(uint8_t *active, int *hops, int source) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= VERTICES) return;
    active[v] = v == source;
    hops[v] = v == source ? 0 : -1;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Graph graph;
    Device<int> offsets(graph.offsets), targets(graph.targets), hops(VERTICES), changed(1);
    Device<uint8_t> active(VERTICES), reached(VERTICES);
    const int BLOCK = 256, GRID = (VERTICES + BLOCK - 1) / BLOCK;
    for (int i = 0; i < steps; i++) {
        start<<<GRID, BLOCK>>>(active, hops, source_of(i));
        int again = 1;
        for (int level = 1; again; level++) {
            CUDA(cudaMemset(changed, 0, sizeof(int)));
            expand<<<GRID, BLOCK>>>(offsets, targets, active, hops, reached);
            settle<<<GRID, BLOCK>>>(active, hops, reached, level, changed);
            CUDA(cudaMemcpy(&again, changed, sizeof(int), cudaMemcpyDeviceToHost));
        }
    }
    report(hops.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Graph graph;
    std::vector<std::atomic<int>> hops(VERTICES);
    for (int i = 0; i < steps; i++) {
        for (auto &hop : hops) hop.store(-1, std::memory_order_relaxed);
        std::vector<int> active{source_of(i)}, reached;
        hops[active[0]] = 0;
        for (int level = 1; !active.empty(); level++) {
#pragma omp parallel
            {
                std::vector<int> mine;
#pragma omp for nowait
                for (size_t n = 0; n < active.size(); n++) {
                    int v = active[n];
                    for (int edge = graph.offsets[v]; edge < graph.offsets[v + 1]; edge++) {
                        std::atomic<int> &hop = hops[graph.targets[edge]];
                        int unknown = -1;
                        if (hop.load(std::memory_order_relaxed) < 0 &&
                            hop.compare_exchange_strong(unknown, level)) {
                            mine.push_back(graph.targets[edge]);
                        }
                    }
                }
#pragma omp critical
                reached.insert(reached.end(), mine.begin(), mine.end());
            }
            active.swap(reached);
            reached.clear();
        }
    }
    report(std::vector<int>(hops.begin(), hops.end()));
}

#endif
