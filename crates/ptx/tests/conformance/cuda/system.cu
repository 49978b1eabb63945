// printf, assert, the heap, traps, clocks and what else calls the system.
#include <cassert>
#include <cstdio>
#include <new>

__global__ void say(int n, const char* name, double value) {
    printf("no arguments\n");
    printf("%d %s %f %c %llx \"%%\"\t\x01\n", n, name, value, 'x', 123456789012345ull);
    assert(n > 0 && "n must be positive");
}

struct Node {
    Node* next;
    int value;
    __device__ Node(Node* next, int value) : next(next), value(value) {}
    __device__ ~Node() { printf("gone %d\n", value); }
};

__global__ void heap(int n, int* out) {
    Node* head = nullptr;
    for (int i = 0; i < n; ++i) head = new Node(head, i);
    int sum = 0;
    while (head) {
        Node* next = head->next;
        sum += head->value;
        delete head;
        head = next;
    }
    char* bytes = (char*)malloc(n);
    if (!bytes) __trap();
    memset(bytes, n, n);
    memcpy(bytes + 1, out, 16);
    out[0] = bytes[sum % n];
    free(bytes);
    alignas(64) char* buffer = (char*)alloca(n);
    buffer[n - 1] = 3;
    out[1] = buffer[sum];
}

__global__ void time(long long* out) {
    out[0] = clock64();
    out[1] = clock();
    __nanosleep(100);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(out[2]));
    __brkpt();
    __prof_trigger(3);
    if (out[0] == 7) asm volatile("exit;");
    __builtin_unreachable();
}
