// Instructions that no C++ function gives, as inline assembly.
__global__ void arithmetic(unsigned* out, const unsigned* in, unsigned long long* wide) {
    unsigned a = in[0], b = in[1], c = in[2], r, s;
    asm("add.cc.u32 %0, %2, %3;\n\taddc.cc.u32 %1, %2, %3;\n\taddc.u32 %1, %1, 0;" : "=r"(r), "=r"(s) : "r"(a), "r"(b));
    out[0] = r + s;
    asm("{ .reg .u32 t; mad.lo.cc.u32 t, %1, %2, %3; madc.hi.u32 %0, %1, %2, t; }" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[1] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[2] = r;
    asm("bfe.u32 %0, %1, 3, 9;\n\tbfi.b32 %0, %0, %2, %3, 4;" : "=&r"(r) : "r"(a), "r"(b), "r"(c));
    out[3] = r;
    asm("bfind.shiftamt.s32 %0, %1;\n\tszext.wrap.u32 %0, %0, %2;\n\tbmsk.clamp.b32 %0, %0, %2;" : "=&r"(r) : "r"(a), "r"(b));
    out[4] = r;
    asm("vadd.s32.u32.s32.sat.add %0, %1.b0, %2.h1, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    out[5] = r;
    asm("vmad.u32.u32.u32.shr7 %0, %1, %2, %3;\n\tvset.u32.u32.ge %0, %0, %1;" : "=&r"(r) : "r"(a), "r"(b), "r"(c));
    out[6] = r;
    asm("prmt.b32.f4e %0, %1, %2, %3;\n\tshf.l.wrap.b32 %0, %0, %1, 5;" : "=&r"(r) : "r"(a), "r"(b), "r"(c));
    out[7] = r;
    asm("{ .reg .pred p, q; setp.lt.and.u32 p|q, %1, %2, 1; selp.b32 %0, %1, %2, p; @!q mov.b32 %0, 7; slct.u32.s32 %0, %0, %1, %2; }" : "=&r"(r) : "r"(a), "r"(b));
    out[8] = r;
    asm volatile("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }" : "=r"(r) : "r"(a));
    out[9] = r;
    asm("mul.wide.u32 %0, %1, %2;\n\tmad.wide.u32 %0, %1, %2, %0;" : "=&l"(wide[0]) : "r"(a), "r"(b));
    asm("cnot.b32 %0, %1;\n\tsad.u32 %0, %0, %1, %2;\n\tmad24.lo.u32 %0, %0, %1, %2;" : "=&r"(r) : "r"(a), "r"(b));
    out[10] = r;
}
__global__ void floats(float* out, const float* in) {
    float a = in[0], b = in[1], r;
    asm("ex2.approx.ftz.f32 %0, %1;\n\tlg2.approx.f32 %0, %0;\n\ttanh.approx.f32 %0, %0;" : "=f"(r) : "f"(a));
    out[0] = r;
    asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b) : "memory");
}
__global__ void control(int* out, int n) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.s32 p, %0, 3;\n\t@p bra.uni skip%=;\n\tbarrier.sync 1, 64;\n\tbarrier.arrive 2, 64;\n\tbar.red.popc.u32 %0, 3, 32, p;\nskip%=:\n\t}" : "+r"(n));
    asm volatile("{ .reg .pred p; isspacep.shared p, %0; }" :: "l"(out) : "memory");
    #if __CUDA_ARCH__ >= 800
    asm volatile("prefetch.global.L2 [%0];\n\tprefetchu.L1 [%0];\n\tapplypriority.global.L2::evict_normal [%0], 128;\n\tdiscard.global.L2 [%0], 128;" :: "l"(out));
#endif
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];\n\tst.release.sys.global.u32 [%1+4], %0;\n\tfence.acq_rel.cta;\n\tmembar.gl;" : "=r"(n) : "l"(out));
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;\n\tatom.acquire.cta.global.cas.b32 %1, [%0], 1, 2;" :: "l"(out), "r"(n));
    asm volatile("pmevent 7;");
}
