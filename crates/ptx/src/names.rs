//! All words of the language: opcodes, modifiers, types, special registers.
//!
//! Each is one row; the Rust name is the PTX word in camel case, `::` and `_`
//! dropped, an `N` before a leading digit (`.shared::cta` → `SharedCta`,
//! `.4b` → `N4b`).

/// A power of two, at least twice the longest table of words.
const HASH_SLOTS: usize = 2048;

/// FNV-1a: words are a few bytes long.
const fn hash(text: &[u8]) -> usize {
    let mut hash: u32 = 0x811c_9dc5;
    let mut i = 0;
    while i < text.len() {
        hash = (hash ^ text[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    (hash ^ (hash >> 15)) as usize
}

/// An open-addressed table of indices into `texts`; `u16::MAX` is an empty slot.
const fn hash_slots(texts: &[&str]) -> [u16; HASH_SLOTS] {
    assert!(texts.len() <= HASH_SLOTS / 2, "raise HASH_SLOTS");
    let mut slots = [u16::MAX; HASH_SLOTS];
    let mut index = 0;
    while index < texts.len() {
        let mut slot = hash(texts[index].as_bytes());
        while slots[slot % HASH_SLOTS] != u16::MAX {
            slot += 1;
        }
        slots[slot % HASH_SLOTS] = index as u16;
        index += 1;
    }
    slots
}

/// Declares an enum of words with `text()` and `from_text()`.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($variant:ident $text:literal)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum $name { $(#[doc = concat!("`", $text, "`")] $variant),* }

        impl $name {
            /// All words, in the order of the table.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The word in PTX, without a dot.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// Parses a word without its dot.
            pub fn from_text(text: &str) -> Option<$name> {
                const TEXTS: &[&str] = &[$($text),*];
                static SLOTS: [u16; HASH_SLOTS] = hash_slots(TEXTS);
                let mut slot = hash(text.as_bytes());
                loop {
                    let index = SLOTS[slot % HASH_SLOTS] as usize;
                    if *TEXTS.get(index)? == text {
                        return Some($name::ALL[index]);
                    }
                    slot += 1;
                }
            }
        }
    };
}

words! {
    /// The first word of an instruction: `cp.async.bulk` is `Cp` with modifiers.
    Opcode {
        Abs "abs"
        Activemask "activemask"
        Add "add"
        Addc "addc"
        Alloca "alloca"
        And "and"
        Applypriority "applypriority"
        Atom "atom"
        Bar "bar"
        Barrier "barrier"
        Bfe "bfe"
        Bfi "bfi"
        Bfind "bfind"
        Bmsk "bmsk"
        Bra "bra"
        Brev "brev"
        Brkpt "brkpt"
        Brx "brx"
        Call "call"
        Clusterlaunchcontrol "clusterlaunchcontrol"
        Clmad "clmad"
        Clz "clz"
        Cnot "cnot"
        Copysign "copysign"
        Cos "cos"
        Cp "cp"
        Createpolicy "createpolicy"
        Cvt "cvt"
        Cvta "cvta"
        Discard "discard"
        Div "div"
        Dp2a "dp2a"
        Dp4a "dp4a"
        Elect "elect"
        Ex2 "ex2"
        Exit "exit"
        Fabric "fabric"
        Fence "fence"
        Fma "fma"
        Fns "fns"
        Getctarank "getctarank"
        Griddepcontrol "griddepcontrol"
        Isspacep "isspacep"
        Istypep "istypep"
        Ld "ld"
        Ldmatrix "ldmatrix"
        Ldu "ldu"
        Lg2 "lg2"
        Lop3 "lop3"
        Mad "mad"
        Mad24 "mad24"
        Madc "madc"
        Mapa "mapa"
        Match "match"
        Max "max"
        Mbarrier "mbarrier"
        Membar "membar"
        Min "min"
        Mma "mma"
        Mov "mov"
        Movmatrix "movmatrix"
        Mul "mul"
        Mul24 "mul24"
        Multimem "multimem"
        Nanosleep "nanosleep"
        Neg "neg"
        Not "not"
        Or "or"
        Pmevent "pmevent"
        Popc "popc"
        Prefetch "prefetch"
        Prefetchu "prefetchu"
        Prmt "prmt"
        Rcp "rcp"
        Red "red"
        Redux "redux"
        Rem "rem"
        Ret "ret"
        Rsqrt "rsqrt"
        Sad "sad"
        Selp "selp"
        Set "set"
        Setmaxnreg "setmaxnreg"
        Setp "setp"
        Shf "shf"
        Shfl "shfl"
        Shl "shl"
        Shr "shr"
        Sin "sin"
        Slct "slct"
        Spcompress "spcompress"
        Spdecompress "spdecompress"
        Sqrt "sqrt"
        St "st"
        Stackrestore "stackrestore"
        Stacksave "stacksave"
        Stmatrix "stmatrix"
        Sub "sub"
        Subc "subc"
        Suld "suld"
        Suq "suq"
        Sured "sured"
        Sust "sust"
        Szext "szext"
        Tanh "tanh"
        Tcgen05 "tcgen05"
        Tensormap "tensormap"
        Testp "testp"
        Tex "tex"
        Tld4 "tld4"
        Trap "trap"
        Txq "txq"
        Vabsdiff "vabsdiff"
        Vabsdiff2 "vabsdiff2"
        Vabsdiff4 "vabsdiff4"
        Vadd "vadd"
        Vadd2 "vadd2"
        Vadd4 "vadd4"
        Vavrg2 "vavrg2"
        Vavrg4 "vavrg4"
        Vmad "vmad"
        Vmax "vmax"
        Vmax2 "vmax2"
        Vmax4 "vmax4"
        Vmin "vmin"
        Vmin2 "vmin2"
        Vmin4 "vmin4"
        Vote "vote"
        Vset "vset"
        Vset2 "vset2"
        Vset4 "vset4"
        Vshl "vshl"
        Vshr "vshr"
        Vsub "vsub"
        Vsub2 "vsub2"
        Vsub4 "vsub4"
        Wgmma "wgmma"
        Wmma "wmma"
        Xor "xor"
        Unknown "?"
    }
}

words! {
    /// Types (PTX ISA, "Types").
    Type {
        B8 "b8"
        B16 "b16"
        B32 "b32"
        B64 "b64"
        B128 "b128"
        U8 "u8"
        U16 "u16"
        U32 "u32"
        U64 "u64"
        S8 "s8"
        S16 "s16"
        S32 "s32"
        S64 "s64"
        F16 "f16"
        F16x2 "f16x2"
        Bf16 "bf16"
        Bf16x2 "bf16x2"
        F32 "f32"
        F64 "f64"
        F32x2 "f32x2"
        Tf32 "tf32"
        E4m3 "e4m3"
        E5m2 "e5m2"
        E3m2 "e3m2"
        E2m3 "e2m3"
        E2m1 "e2m1"
        Ue8m0 "ue8m0"
        E4m3x2 "e4m3x2"
        E5m2x2 "e5m2x2"
        E3m2x2 "e3m2x2"
        E2m3x2 "e2m3x2"
        E2m1x2 "e2m1x2"
        Ue8m0x2 "ue8m0x2"
        U16x2 "u16x2"
        S16x2 "s16x2"
        B1 "b1"
        B4 "b4"
        U4 "u4"
        S4 "s4"
        U2 "u2"
        S2 "s2"
        Pred "pred"
        B16x2 "b16x2"
        E2m1x4 "e2m1x4"
        E2m3x4 "e2m3x4"
        E3m2x4 "e3m2x4"
        E4m3x4 "e4m3x4"
        E5m2x4 "e5m2x4"
        U8x4 "u8x4"
        S8x4 "s8x4"
        S2f6x2 "s2f6x2"
        Ue4m3 "ue4m3"
        Ue5m3x2 "ue5m3x2"
        Texref "texref"
        Samplerref "samplerref"
        Surfref "surfref"
    }
}

words! {
    /// The words that may follow an opcode, types included.
    Modifier {
        NONE ""
        B8 "b8"
        B16 "b16"
        B32 "b32"
        B64 "b64"
        B128 "b128"
        U8 "u8"
        U16 "u16"
        U32 "u32"
        U64 "u64"
        S8 "s8"
        S16 "s16"
        S32 "s32"
        S64 "s64"
        F16 "f16"
        F16x2 "f16x2"
        Bf16 "bf16"
        Bf16x2 "bf16x2"
        F32 "f32"
        F64 "f64"
        F32x2 "f32x2"
        Tf32 "tf32"
        E4m3 "e4m3"
        E5m2 "e5m2"
        E3m2 "e3m2"
        E2m3 "e2m3"
        E2m1 "e2m1"
        Ue8m0 "ue8m0"
        E4m3x2 "e4m3x2"
        E5m2x2 "e5m2x2"
        E3m2x2 "e3m2x2"
        E2m3x2 "e2m3x2"
        E2m1x2 "e2m1x2"
        Ue8m0x2 "ue8m0x2"
        U16x2 "u16x2"
        S16x2 "s16x2"
        B1 "b1"
        B4 "b4"
        U4 "u4"
        S4 "s4"
        U2 "u2"
        S2 "s2"
        Pred "pred"
        Texref "texref"
        Samplerref "samplerref"
        Surfref "surfref"
        Rn "rn"
        Rz "rz"
        Rm "rm"
        Rp "rp"
        Rna "rna"
        Rni "rni"
        Rzi "rzi"
        Rmi "rmi"
        Rpi "rpi"
        Rs "rs"
        Ftz "ftz"
        Sat "sat"
        Satfinite "satfinite"
        Approx "approx"
        Full "full"
        Noftz "noftz"
        Relu "relu"
        Xorsign "xorsign"
        Abs "abs"
        Nan "nan"
        NaN "NaN"
        L1 "L1"
        L2 "L2"
        Oob "oob"
        Lo "lo"
        Hi "hi"
        Wide "wide"
        Cc "cc"
        Eq "eq"
        Ne "ne"
        Lt "lt"
        Le "le"
        Gt "gt"
        Ge "ge"
        Ls "ls"
        Hs "hs"
        Equ "equ"
        Neu "neu"
        Ltu "ltu"
        Leu "leu"
        Gtu "gtu"
        Geu "geu"
        Num "num"
        And "and"
        Or "or"
        Xor "xor"
        Popc "popc"
        Not "not"
        V2 "v2"
        V4 "v4"
        V8 "v8"
        Reg "reg"
        Sreg "sreg"
        Const "const"
        Global "global"
        Local "local"
        Param "param"
        Shared "shared"
        SharedCta "shared::cta"
        SharedCluster "shared::cluster"
        Generic "generic"
        To "to"
        Uni "uni"
        Volatile "volatile"
        Relaxed "relaxed"
        Acquire "acquire"
        Release "release"
        AcqRel "acq_rel"
        Weak "weak"
        Mmio "mmio"
        Cta "cta"
        Cluster "cluster"
        Gpu "gpu"
        Sys "sys"
        Sc "sc"
        Proxy "proxy"
        Alias "alias"
        Async "async"
        Ca "ca"
        Cg "cg"
        Cs "cs"
        Lu "lu"
        Cv "cv"
        Wb "wb"
        Wt "wt"
        Nc "nc"
        L1EvictNormal "L1::evict_normal"
        L1EvictUnchanged "L1::evict_unchanged"
        L1EvictFirst "L1::evict_first"
        L1EvictLast "L1::evict_last"
        L1NoAllocate "L1::no_allocate"
        L264B "L2::64B"
        L2128B "L2::128B"
        L2256B "L2::256B"
        L2CacheHint "L2::cache_hint"
        L2EvictLast "L2::evict_last"
        L2EvictNormal "L2::evict_normal"
        L2EvictFirst "L2::evict_first"
        LevelEvictionPriority "level::eviction_priority"
        Exch "exch"
        Cas "cas"
        Add "add"
        Sub "sub"
        Inc "inc"
        Dec "dec"
        Min "min"
        Max "max"
        Sync "sync"
        Arrive "arrive"
        Red "red"
        Aligned "aligned"
        Up "up"
        Down "down"
        Bfly "bfly"
        Idx "idx"
        All "all"
        Any "any"
        Ballot "ballot"
        Gl "gl"
        Wait "wait"
        WaitGroup "wait_group"
        WaitAll "wait_all"
        CommitGroup "commit_group"
        Bulk "bulk"
        Cvt "cvt"
        Tensor "tensor"
        Mbarrier "mbarrier"
        Reduce "reduce"
        Prefetch "prefetch"
        N1d "1d"
        N2d "2d"
        N3d "3d"
        N4d "4d"
        N5d "5d"
        A1d "a1d"
        A2d "a2d"
        Cube "cube"
        Acube "acube"
        N2dms "2dms"
        A2dms "a2dms"
        Base "base"
        Level "level"
        Grad "grad"
        R "r"
        G "g"
        B "b"
        A "a"
        Trap "trap"
        Clamp "clamp"
        Zero "zero"
        P "p"
        Wrap "wrap"
        Left "left"
        Right "right"
        L "l"
        Pack "pack"
        Mask "mask"
        Fractional "fractional"
        Range "range"
        Byte "byte"
        N4b "4b"
        N8b "8b"
        F4e "f4e"
        B4e "b4e"
        Rc8 "rc8"
        Ecl "ecl"
        Ecr "ecr"
        Rc16 "rc16"
        Shiftamt "shiftamt"
        B0 "b0"
        B2 "b2"
        B3 "b3"
        B10 "b10"
        B20 "b20"
        B21 "b21"
        B30 "b30"
        B31 "b31"
        B210 "b210"
        B310 "b310"
        B320 "b320"
        B321 "b321"
        B3210 "b3210"
        B7654 "b7654"
        H0 "h0"
        H1 "h1"
        H10 "h10"
        H32 "h32"
        H00 "h00"
        H01 "h01"
        H02 "h02"
        H03 "h03"
        H11 "h11"
        H12 "h12"
        H13 "h13"
        H20 "h20"
        H21 "h21"
        H22 "h22"
        H23 "h23"
        H30 "h30"
        H31 "h31"
        H33 "h33"
        Finite "finite"
        Infinite "infinite"
        Number "number"
        Notanumber "notanumber"
        Normal "normal"
        Subnormal "subnormal"
        Width "width"
        Height "height"
        Depth "depth"
        ChannelDataType "channel_data_type"
        ChannelOrder "channel_order"
        NormalizedCoords "normalized_coords"
        FilterMode "filter_mode"
        AddrMode0 "addr_mode_0"
        AddrMode1 "addr_mode_1"
        AddrMode2 "addr_mode_2"
        ArraySize "array_size"
        NumMipmapLevels "num_mipmap_levels"
        NumSamples "num_samples"
        MemoryLayout "memory_layout"
        Row "row"
        Col "col"
        M8n8k4 "m8n8k4"
        M8n8k16 "m8n8k16"
        M8n8k32 "m8n8k32"
        M8n8k128 "m8n8k128"
        M16n8k4 "m16n8k4"
        M16n8k8 "m16n8k8"
        M16n8k16 "m16n8k16"
        M16n8k32 "m16n8k32"
        M16n8k64 "m16n8k64"
        M16n8k128 "m16n8k128"
        M16n8k256 "m16n8k256"
        M16n16k16 "m16n16k16"
        M32n8k16 "m32n8k16"
        M8n32k16 "m8n32k16"
        M8n8 "m8n8"
        M16n8 "m16n8"
        M16n16 "m16n16"
        M8n16 "m8n16"
        C "c"
        D "d"
        Load "load"
        Store "store"
        X1 "x1"
        X2 "x2"
        X4 "x4"
        Trans "trans"
        Init "init"
        Inval "inval"
        ExpectTx "expect_tx"
        CompleteTx "complete_tx"
        TestWait "test_wait"
        TryWait "try_wait"
        PendingCount "pending_count"
        ArriveDrop "arrive_drop"
        NoComplete "noComplete"
        Parity "parity"
        NoInc "no_inc"
        LaunchDependents "launch_dependents"
        Attribute "attribute"
        CpAsync "cp_async"
        TmaStore "tma_store"
        B16x2 "b16x2"
        E2m1x4 "e2m1x4"
        E2m3x4 "e2m3x4"
        E3m2x4 "e3m2x4"
        E4m3x4 "e4m3x4"
        E5m2x4 "e5m2x4"
        U8x4 "u8x4"
        S8x4 "s8x4"
        S2f6x2 "s2f6x2"
        Ue4m3 "ue4m3"
        Ue5m3x2 "ue5m3x2"
        L2EvictUnchanged "L2::evict_unchanged"
        N128x128b "128x128b"
        N128x256b "128x256b"
        N16x128b "16x128b"
        N16x256b "16x256b"
        N16x32bx2 "16x32bx2"
        N16x64b "16x64b"
        N4x256b "4x256b"
        N32x128b "32x128b"
        N32x32b "32x32b"
        N64x128b "64x128b"
        AccF16 "acc::f16"
        AccF32 "acc::f32"
        Alloc "alloc"
        Dealloc "dealloc"
        RelinquishAllocPermit "relinquish_alloc_permit"
        AsyncGeneric "async::generic"
        Ashift "ashift"
        B1024 "b1024"
        B4x16 "b4x16"
        B4x16P64 "b4x16_p64"
        B6p2x16 "b6p2x16"
        B6x16P32 "b6x16_p32"
        B8x16 "b8x16"
        Block16 "block16"
        Block32 "block32"
        BlockScale "block_scale"
        BoxDim "box_dim"
        BulkGroup "bulk_group"
        Commit "commit"
        Cp "cp"
        CpMask "cp_mask"
        CtaGroup1 "cta_group::1"
        CtaGroup2 "cta_group::2"
        ElementStride "element_stride"
        Elemtype "elemtype"
        Fence "fence"
        FenceAfterThreadSync "fence::after_thread_sync"
        FenceBeforeThreadSync "fence::before_thread_sync"
        FillMode "fill_mode"
        ForceUnnormalizedCoords "force_unnormalized_coords"
        GetFirstCtaid "get_first_ctaid"
        GetFirstCtaidX "get_first_ctaid::x"
        GetFirstCtaidY "get_first_ctaid::y"
        GetFirstCtaidZ "get_first_ctaid::z"
        GlobalAddress "global_address"
        GlobalDim "global_dim"
        GlobalStride "global_stride"
        Im2col "im2col"
        Im2colW "im2col::w"
        Im2colW128 "im2col::w::128"
        Im2colNoOffs "im2col_no_offs"
        InterleaveLayout "interleave_layout"
        IsCanceled "is_canceled"
        KindF16 "kind::f16"
        KindF8f6f4 "kind::f8f6f4"
        KindF8f8f4 "kind::f8f8f4"
        KindI8 "kind::i8"
        KindMxf4 "kind::mxf4"
        KindMxf4nvf4 "kind::mxf4nvf4"
        KindMxf8f6f4 "kind::mxf8f6f4"
        KindTf32 "kind::tf32"
        Ld "ld"
        LdReduce "ld_reduce"
        LayoutV0 "layout::v0"
        LayoutV1 "layout::v1"
        M16n16k8 "m16n16k8"
        MbarrierArriveOne "mbarrier::arrive::one"
        MbarrierCompleteTx16B "mbarrier::complete_tx::16B"
        MbarrierCompleteTxBytes "mbarrier::complete_tx::bytes"
        MbarrierInit "mbarrier_init"
        Mma "mma"
        MmaAsync "mma_async"
        MulticastCluster "multicast::cluster"
        MulticastCluster32b "multicast::cluster::32b"
        MulticastClusterAll "multicast::cluster::all"
        Noinc "noinc"
        None "none"
        Pack16b "pack::16b"
        Unpack16b "unpack::16b"
        ParamEntry "param::entry"
        ParamFunc "param::func"
        PhaseTypeConditional "phase_type::conditional"
        PhaseTypePrimary "phase_type::primary"
        Po "po"
        QueryCancel "query_cancel"
        Rank "rank"
        Read "read"
        Replace "replace"
        ScaleVec1X "scale_vec::1X"
        ScaleVec2X "scale_vec::2X"
        ScaleVec4X "scale_vec::4X"
        ScaledN2Ue8m0 "scaled::n2::ue8m0"
        Pzo "pzo"
        ScaledN1Ue8m0 "scaled::n1::ue8m0"
        Shift "shift"
        Shr7 "shr7"
        Shr15 "shr15"
        Sp "sp"
        SpOrderedMetadata "sp::ordered_metadata"
        Sp1Of2 "sp::1:2"
        Sp1Of4 "sp::1:4"
        Sp1Of8 "sp::1:8"
        Sp1Of16 "sp::1:16"
        Sp2Of4 "sp::2:4"
        Sp2Of8 "sp::2:8"
        Sp2Of16 "sp::2:16"
        Sp4Of8 "sp::4:8"
        Sp4Of16 "sp::4:16"
        Spcompress "spcompress"
        St "st"
        Submit "submit"
        SwizzleAtomicity "swizzle_atomicity"
        SwizzleMode "swizzle_mode"
        SyncRestrictSharedCluster "sync_restrict::shared::cluster"
        SyncRestrictSharedCta "sync_restrict::shared::cta"
        Tensormap "tensormap"
        TensormapGeneric "tensormap::generic"
        Tile "tile"
        TileGather4 "tile::gather4"
        TileScatter4 "tile::scatter4"
        TryCancel "try_cancel"
        TryAtom "try_atom"
        TryGet "try_get"
        TryPullred "try_pullred"
        TryPut "try_put"
        TryRed "try_red"
        Unified "unified"
        ValidAddr "valid_addr"
        WaitLd "wait::ld"
        WaitSt "wait::st"
        CheckLayout "check_layout"
        CountedBytes "counted::bytes"
        CpFenceproxy "cp_fenceproxy"
        AllocClassLarge "alloc_class_large"
        AllocLarge "alloc_large"
        AllocSame "alloc_same"
        AllocSmall "alloc_small"
        N2pi "2pi"
        NoMembermaskOverlap "no_membermask_overlap"
        ProxyReadonly "proxy::readonly"
        Query "query"
        IgnoreOob "ignore_oob"
        Im2colNoOffsW "im2col_no_offs::w"
        MbarrierReportDisabled "mbarrier::report::disabled"
        MbarrierReportFabric "mbarrier::report::fabric"
        MbarrierReportValidityPer16bytes8 "mbarrier::report::validity::per_16bytes::8"
        MbarrierReportValidityPer16bytes80 "mbarrier::report::validity::per_16bytes::80"
        MbarrierReportValidityPer16bytes8000 "mbarrier::report::validity::per_16bytes::8000"
        MbarrierReportValidityPer16bytes80000000 "mbarrier::report::validity::per_16bytes::80000000"
        MbarrierReportValidityPerElementFf "mbarrier::report::validity::per_element::ff"
        MulticastCluster16b "multicast::cluster::16b"
        Multimem "multimem"
        OpRestrictFetching "op_restrict::fetching"
        OverrideGlobalAddress "override::global_address"
        OverrideGlobalDim "override::global_dim"
        OverrideGlobalDimStride "override::global_dim_stride"
        SyncRestrictReads "sync_restrict::reads"
        SyncRestrictRead "sync_restrict::read"
        Exclusive "exclusive"
        SyncRestrictSharedReadMmaA "sync_restrict::shared::read::mma::a"
        SyncRestrictProxyAsync "sync_restrict::proxy::async"
        SyncRestrictSharedClusterRead "sync_restrict::shared::cluster::read"
        FabricFabric "fabric::fabric"
        FabricGeneric "fabric::generic"
        GenericFabric "generic::fabric"
        L132B "L1::32B"
        Warp "warp"
        Warpx20123 "warpx2::01_23"
        Warpx20213 "warpx2::02_13"
        Warpx4 "warpx4"
        Ws "ws"
        X8 "x8"
        X16 "x16"
        X32 "x32"
        X64 "x64"
        X128 "x128"
        CollectorAFill "collector::a::fill"
        CollectorAUse "collector::a::use"
        CollectorALastuse "collector::a::lastuse"
        CollectorADiscard "collector::a::discard"
        CollectorB0Fill "collector::b0::fill"
        CollectorB0Use "collector::b0::use"
        CollectorB0Lastuse "collector::b0::lastuse"
        CollectorB0Discard "collector::b0::discard"
        CollectorB1Fill "collector::b1::fill"
        CollectorB1Use "collector::b1::use"
        CollectorB1Lastuse "collector::b1::lastuse"
        CollectorB1Discard "collector::b1::discard"
        CollectorB2Fill "collector::b2::fill"
        CollectorB2Use "collector::b2::use"
        CollectorB2Lastuse "collector::b2::lastuse"
        CollectorB2Discard "collector::b2::discard"
        CollectorB3Fill "collector::b3::fill"
        CollectorB3Use "collector::b3::use"
        CollectorB3Lastuse "collector::b3::lastuse"
        CollectorB3Discard "collector::b3::discard"
        M64n8k8 "m64n8k8" M64n16k8 "m64n16k8" M64n24k8 "m64n24k8" M64n32k8 "m64n32k8"
        M64n40k8 "m64n40k8" M64n48k8 "m64n48k8" M64n56k8 "m64n56k8" M64n64k8 "m64n64k8"
        M64n72k8 "m64n72k8" M64n80k8 "m64n80k8" M64n88k8 "m64n88k8" M64n96k8 "m64n96k8"
        M64n104k8 "m64n104k8" M64n112k8 "m64n112k8" M64n120k8 "m64n120k8" M64n128k8 "m64n128k8"
        M64n136k8 "m64n136k8" M64n144k8 "m64n144k8" M64n152k8 "m64n152k8" M64n160k8 "m64n160k8"
        M64n168k8 "m64n168k8" M64n176k8 "m64n176k8" M64n184k8 "m64n184k8" M64n192k8 "m64n192k8"
        M64n200k8 "m64n200k8" M64n208k8 "m64n208k8" M64n216k8 "m64n216k8" M64n224k8 "m64n224k8"
        M64n232k8 "m64n232k8" M64n240k8 "m64n240k8" M64n248k8 "m64n248k8" M64n256k8 "m64n256k8"
        M64n8k16 "m64n8k16" M64n16k16 "m64n16k16" M64n24k16 "m64n24k16" M64n32k16 "m64n32k16"
        M64n40k16 "m64n40k16" M64n48k16 "m64n48k16" M64n56k16 "m64n56k16" M64n64k16 "m64n64k16"
        M64n72k16 "m64n72k16" M64n80k16 "m64n80k16" M64n88k16 "m64n88k16" M64n96k16 "m64n96k16"
        M64n104k16 "m64n104k16" M64n112k16 "m64n112k16" M64n120k16 "m64n120k16" M64n128k16 "m64n128k16"
        M64n136k16 "m64n136k16" M64n144k16 "m64n144k16" M64n152k16 "m64n152k16" M64n160k16 "m64n160k16"
        M64n168k16 "m64n168k16" M64n176k16 "m64n176k16" M64n184k16 "m64n184k16" M64n192k16 "m64n192k16"
        M64n200k16 "m64n200k16" M64n208k16 "m64n208k16" M64n216k16 "m64n216k16" M64n224k16 "m64n224k16"
        M64n232k16 "m64n232k16" M64n240k16 "m64n240k16" M64n248k16 "m64n248k16" M64n256k16 "m64n256k16"
        M64n8k32 "m64n8k32" M64n16k32 "m64n16k32" M64n24k32 "m64n24k32" M64n32k32 "m64n32k32"
        M64n40k32 "m64n40k32" M64n48k32 "m64n48k32" M64n56k32 "m64n56k32" M64n64k32 "m64n64k32"
        M64n72k32 "m64n72k32" M64n80k32 "m64n80k32" M64n88k32 "m64n88k32" M64n96k32 "m64n96k32"
        M64n104k32 "m64n104k32" M64n112k32 "m64n112k32" M64n120k32 "m64n120k32" M64n128k32 "m64n128k32"
        M64n136k32 "m64n136k32" M64n144k32 "m64n144k32" M64n152k32 "m64n152k32" M64n160k32 "m64n160k32"
        M64n168k32 "m64n168k32" M64n176k32 "m64n176k32" M64n184k32 "m64n184k32" M64n192k32 "m64n192k32"
        M64n200k32 "m64n200k32" M64n208k32 "m64n208k32" M64n216k32 "m64n216k32" M64n224k32 "m64n224k32"
        M64n232k32 "m64n232k32" M64n240k32 "m64n240k32" M64n248k32 "m64n248k32" M64n256k32 "m64n256k32"
        M64n8k64 "m64n8k64" M64n16k64 "m64n16k64" M64n24k64 "m64n24k64" M64n32k64 "m64n32k64"
        M64n40k64 "m64n40k64" M64n48k64 "m64n48k64" M64n56k64 "m64n56k64" M64n64k64 "m64n64k64"
        M64n72k64 "m64n72k64" M64n80k64 "m64n80k64" M64n88k64 "m64n88k64" M64n96k64 "m64n96k64"
        M64n104k64 "m64n104k64" M64n112k64 "m64n112k64" M64n120k64 "m64n120k64" M64n128k64 "m64n128k64"
        M64n136k64 "m64n136k64" M64n144k64 "m64n144k64" M64n152k64 "m64n152k64" M64n160k64 "m64n160k64"
        M64n168k64 "m64n168k64" M64n176k64 "m64n176k64" M64n184k64 "m64n184k64" M64n192k64 "m64n192k64"
        M64n200k64 "m64n200k64" M64n208k64 "m64n208k64" M64n216k64 "m64n216k64" M64n224k64 "m64n224k64"
        M64n232k64 "m64n232k64" M64n240k64 "m64n240k64" M64n248k64 "m64n248k64" M64n256k64 "m64n256k64"
        M64n8k256 "m64n8k256" M64n16k256 "m64n16k256" M64n24k256 "m64n24k256" M64n32k256 "m64n32k256"
        M64n40k256 "m64n40k256" M64n48k256 "m64n48k256" M64n56k256 "m64n56k256" M64n64k256 "m64n64k256"
        M64n72k256 "m64n72k256" M64n80k256 "m64n80k256" M64n88k256 "m64n88k256" M64n96k256 "m64n96k256"
        M64n104k256 "m64n104k256" M64n112k256 "m64n112k256" M64n120k256 "m64n120k256" M64n128k256 "m64n128k256"
        M64n136k256 "m64n136k256" M64n144k256 "m64n144k256" M64n152k256 "m64n152k256" M64n160k256 "m64n160k256"
        M64n168k256 "m64n168k256" M64n176k256 "m64n176k256" M64n184k256 "m64n184k256" M64n192k256 "m64n192k256"
        M64n200k256 "m64n200k256" M64n208k256 "m64n208k256" M64n216k256 "m64n216k256" M64n224k256 "m64n224k256"
        M64n232k256 "m64n232k256" M64n240k256 "m64n240k256" M64n248k256 "m64n248k256" M64n256k256 "m64n256k256"
        UNKNOWN "?"
    }
}

impl Modifier {
    /// The type of this modifier, if it is one.
    pub const fn as_type(self) -> Option<Type> {
        match self {
            Modifier::B8 => Some(Type::B8),
            Modifier::B16 => Some(Type::B16),
            Modifier::B32 => Some(Type::B32),
            Modifier::B64 => Some(Type::B64),
            Modifier::B128 => Some(Type::B128),
            Modifier::U8 => Some(Type::U8),
            Modifier::U16 => Some(Type::U16),
            Modifier::U32 => Some(Type::U32),
            Modifier::U64 => Some(Type::U64),
            Modifier::S8 => Some(Type::S8),
            Modifier::S16 => Some(Type::S16),
            Modifier::S32 => Some(Type::S32),
            Modifier::S64 => Some(Type::S64),
            Modifier::F16 => Some(Type::F16),
            Modifier::F16x2 => Some(Type::F16x2),
            Modifier::Bf16 => Some(Type::Bf16),
            Modifier::Bf16x2 => Some(Type::Bf16x2),
            Modifier::F32 => Some(Type::F32),
            Modifier::F64 => Some(Type::F64),
            Modifier::F32x2 => Some(Type::F32x2),
            Modifier::Tf32 => Some(Type::Tf32),
            Modifier::E4m3 => Some(Type::E4m3),
            Modifier::E5m2 => Some(Type::E5m2),
            Modifier::E3m2 => Some(Type::E3m2),
            Modifier::E2m3 => Some(Type::E2m3),
            Modifier::E2m1 => Some(Type::E2m1),
            Modifier::Ue8m0 => Some(Type::Ue8m0),
            Modifier::E4m3x2 => Some(Type::E4m3x2),
            Modifier::E5m2x2 => Some(Type::E5m2x2),
            Modifier::E3m2x2 => Some(Type::E3m2x2),
            Modifier::E2m3x2 => Some(Type::E2m3x2),
            Modifier::E2m1x2 => Some(Type::E2m1x2),
            Modifier::Ue8m0x2 => Some(Type::Ue8m0x2),
            Modifier::U16x2 => Some(Type::U16x2),
            Modifier::S16x2 => Some(Type::S16x2),
            Modifier::B1 => Some(Type::B1),
            Modifier::B4 => Some(Type::B4),
            Modifier::U4 => Some(Type::U4),
            Modifier::S4 => Some(Type::S4),
            Modifier::U2 => Some(Type::U2),
            Modifier::S2 => Some(Type::S2),
            Modifier::Pred => Some(Type::Pred),
            Modifier::B16x2 => Some(Type::B16x2),
            Modifier::E2m1x4 => Some(Type::E2m1x4),
            Modifier::E2m3x4 => Some(Type::E2m3x4),
            Modifier::E3m2x4 => Some(Type::E3m2x4),
            Modifier::E4m3x4 => Some(Type::E4m3x4),
            Modifier::E5m2x4 => Some(Type::E5m2x4),
            Modifier::U8x4 => Some(Type::U8x4),
            Modifier::S8x4 => Some(Type::S8x4),
            Modifier::S2f6x2 => Some(Type::S2f6x2),
            Modifier::Ue4m3 => Some(Type::Ue4m3),
            Modifier::Ue5m3x2 => Some(Type::Ue5m3x2),
            Modifier::Texref => Some(Type::Texref),
            Modifier::Samplerref => Some(Type::Samplerref),
            Modifier::Surfref => Some(Type::Surfref),
            _ => None,
        }
    }
}

impl Type {
    /// Whether a variable of this type may hold an integer at first.
    pub(crate) const fn holds_integers(self) -> bool {
        use Type::*;
        matches!(
            self,
            B8 | B16 | B32 | B64 | B128 | U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64
        )
    }

    /// The width in bits, of all parts of a packed type.
    pub const fn bits(self) -> u32 {
        match self {
            Type::B1 | Type::Pred => 1,
            Type::U2 | Type::S2 => 2,
            Type::E2m1 | Type::B4 | Type::U4 | Type::S4 => 4,
            Type::E3m2 | Type::E2m3 => 6,
            Type::B8
            | Type::U8
            | Type::S8
            | Type::E4m3
            | Type::E5m2
            | Type::Ue8m0
            | Type::E2m1x2
            | Type::Ue4m3 => 8,
            Type::B16
            | Type::U16
            | Type::S16
            | Type::F16
            | Type::Bf16
            | Type::E4m3x2
            | Type::E5m2x2
            | Type::E3m2x2
            | Type::E2m3x2
            | Type::Ue8m0x2
            | Type::E2m1x4
            | Type::S2f6x2
            | Type::Ue5m3x2 => 16,
            Type::B32
            | Type::U32
            | Type::S32
            | Type::F16x2
            | Type::Bf16x2
            | Type::F32
            | Type::Tf32
            | Type::U16x2
            | Type::S16x2
            | Type::B16x2
            | Type::E2m3x4
            | Type::E3m2x4
            | Type::E4m3x4
            | Type::E5m2x4
            | Type::U8x4
            | Type::S8x4 => 32,
            Type::B64
            | Type::U64
            | Type::S64
            | Type::F64
            | Type::F32x2
            | Type::Texref
            | Type::Samplerref
            | Type::Surfref => 64,
            Type::B128 => 128,
        }
    }

    /// The size of a value in memory in bytes; 0 for types that cannot be in memory.
    pub const fn bytes(self) -> u64 {
        if self.bits() < 8 {
            0
        } else {
            self.bits() as u64 / 8
        }
    }
}

words! {
    /// Special registers (PTX ISA, "Special Registers"), one for each component.
    SpecialRegister {
        Tid "%tid"
        TidX "%tid.x"
        TidY "%tid.y"
        TidZ "%tid.z"
        TidW "%tid.w"
        Ntid "%ntid"
        NtidX "%ntid.x"
        NtidY "%ntid.y"
        NtidZ "%ntid.z"
        NtidW "%ntid.w"
        Ctaid "%ctaid"
        CtaidX "%ctaid.x"
        CtaidY "%ctaid.y"
        CtaidZ "%ctaid.z"
        CtaidW "%ctaid.w"
        Nctaid "%nctaid"
        NctaidX "%nctaid.x"
        NctaidY "%nctaid.y"
        NctaidZ "%nctaid.z"
        NctaidW "%nctaid.w"
        Gridid "%gridid"
        Laneid "%laneid"
        Warpid "%warpid"
        Nwarpid "%nwarpid"
        Smid "%smid"
        Nsmid "%nsmid"
        LanemaskEq "%lanemask_eq"
        LanemaskLe "%lanemask_le"
        LanemaskLt "%lanemask_lt"
        LanemaskGe "%lanemask_ge"
        LanemaskGt "%lanemask_gt"
        Clock "%clock"
        ClockHi "%clock_hi"
        Clock64 "%clock64"
        Globaltimer "%globaltimer"
        GlobaltimerLo "%globaltimer_lo"
        GlobaltimerHi "%globaltimer_hi"
        Clusterid "%clusterid"
        ClusteridX "%clusterid.x"
        ClusteridY "%clusterid.y"
        ClusteridZ "%clusterid.z"
        ClusteridW "%clusterid.w"
        Nclusterid "%nclusterid"
        NclusteridX "%nclusterid.x"
        NclusteridY "%nclusterid.y"
        NclusteridZ "%nclusterid.z"
        NclusteridW "%nclusterid.w"
        ClusterCtaid "%cluster_ctaid"
        ClusterCtaidX "%cluster_ctaid.x"
        ClusterCtaidY "%cluster_ctaid.y"
        ClusterCtaidZ "%cluster_ctaid.z"
        ClusterCtaidW "%cluster_ctaid.w"
        ClusterNctaid "%cluster_nctaid"
        ClusterNctaidX "%cluster_nctaid.x"
        ClusterNctaidY "%cluster_nctaid.y"
        ClusterNctaidZ "%cluster_nctaid.z"
        ClusterNctaidW "%cluster_nctaid.w"
        ClusterCtarank "%cluster_ctarank"
        ClusterNctarank "%cluster_nctarank"
        IsExplicitCluster "%is_explicit_cluster"
        LocalityDomainId "%locality_domain_id"
        LocalityDomainSupplementalSm "%locality_domain_supplemental_sm"
        Perctamemoryoffset "%perctamemoryoffset"
        Perctamemorysize "%perctamemorysize"
        TotalSmemSize "%total_smem_size"
        AggrSmemSize "%aggr_smem_size"
        DynamicSmemSize "%dynamic_smem_size"
        ReservedSmemOffsetBegin "%reserved_smem_offset_begin"
        ReservedSmemOffsetEnd "%reserved_smem_offset_end"
        ReservedSmemOffsetCap "%reserved_smem_offset_cap"
        CurrentGraphExec "%current_graph_exec"
        Pm0 "%pm0"
        Pm0N64 "%pm0_64"
        Pm1 "%pm1"
        Pm1N64 "%pm1_64"
        Pm2 "%pm2"
        Pm2N64 "%pm2_64"
        Pm3 "%pm3"
        Pm3N64 "%pm3_64"
        Pm4 "%pm4"
        Pm4N64 "%pm4_64"
        Pm5 "%pm5"
        Pm5N64 "%pm5_64"
        Pm6 "%pm6"
        Pm6N64 "%pm6_64"
        Pm7 "%pm7"
        Pm7N64 "%pm7_64"
        Envreg0 "%envreg0"
        Envreg1 "%envreg1"
        Envreg2 "%envreg2"
        Envreg3 "%envreg3"
        Envreg4 "%envreg4"
        Envreg5 "%envreg5"
        Envreg6 "%envreg6"
        Envreg7 "%envreg7"
        Envreg8 "%envreg8"
        Envreg9 "%envreg9"
        Envreg10 "%envreg10"
        Envreg11 "%envreg11"
        Envreg12 "%envreg12"
        Envreg13 "%envreg13"
        Envreg14 "%envreg14"
        Envreg15 "%envreg15"
        Envreg16 "%envreg16"
        Envreg17 "%envreg17"
        Envreg18 "%envreg18"
        Envreg19 "%envreg19"
        Envreg20 "%envreg20"
        Envreg21 "%envreg21"
        Envreg22 "%envreg22"
        Envreg23 "%envreg23"
        Envreg24 "%envreg24"
        Envreg25 "%envreg25"
        Envreg26 "%envreg26"
        Envreg27 "%envreg27"
        Envreg28 "%envreg28"
        Envreg29 "%envreg29"
        Envreg30 "%envreg30"
        Envreg31 "%envreg31"
        ReservedSmemOffset0 "%reserved_smem_offset_0"
        ReservedSmemOffset1 "%reserved_smem_offset_1"
    }
}
