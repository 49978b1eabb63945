// The shortest paths between all pairs of vertices, by Floyd and Warshall.
// Pattern: many launches of a tiny kernel, one per vertex, that works in place on one matrix.
#include "../program.h"

#include <algorithm>

const int VERTICES = 250, PAIRS = VERTICES * VERTICES;
const int NONE = 1 << 20;

static std::vector<int> edges() {
    Random random(8);
    std::vector<int> lengths(PAIRS);
    for (int y = 0; y < VERTICES; y++) {
        for (int x = 0; x < VERTICES; x++) {
            int &length = lengths[y * VERTICES + x];
            length = random.below(12) == 0 ? 10 + random.below(1000) : NONE;
            if (x == (y + 1) % VERTICES) length = 500;
            if (x == y) length = 0;
        }
    }
    return lengths;
}

// What an edge costs in a step beyond its length.
static int toll_of(int step) { return step % 5 * 40; }

#ifdef __CUDACC__

__global__ void start(const int *edges, int *distances, int toll) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= PAIRS) return;
    int length = edges[i];
    distances[i] = length > 0 && length < NONE ? length + toll : length;
}

// The row and the column of `via` do not change, as its distance to itself is zero.
__global__ void shorten(int *distances, int via) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= VERTICES || y >= VERTICES) return;
    int distance = distances[y * VERTICES + via] + distances[via * VERTICES + x];
    if (distance < distances[y * VERTICES + x]) distances[y * VERTICES + x] = distance;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<int> lengths(edges()), distances(PAIRS);
    dim3 block(16, 16), grid((VERTICES + 15) / 16, (VERTICES + 15) / 16);
    for (int i = 0; i < steps; i++) {
        start<<<(PAIRS + 255) / 256, 256>>>(lengths, distances, toll_of(i));
        for (int via = 0; via < VERTICES; via++) shorten<<<grid, block>>>(distances, via);
    }
    report(distances.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<int> lengths = edges(), distances(PAIRS);
    for (int i = 0; i < steps; i++) {
        int toll = toll_of(i);
        for (int n = 0; n < PAIRS; n++) {
            distances[n] = lengths[n] > 0 && lengths[n] < NONE ? lengths[n] + toll : lengths[n];
        }
#pragma omp parallel
        for (int via = 0; via < VERTICES; via++) {
            const int *onwards = &distances[via * VERTICES];
#pragma omp for
            for (int y = 0; y < VERTICES; y++) {
                if (y == via) continue;
                int *row = &distances[y * VERTICES];
                int there = row[via];
                for (int x = 0; x < VERTICES; x++) row[x] = std::min(row[x], there + onwards[x]);
            }
        }
    }
    report(distances);
}

#endif
